//go:build !linux

package qemu

import (
	"os"
	"runtime"
	"time"
)

func start([]string, *os.File) (*process, error) {
	return nil, unsupportedError("start QEMU on " + runtime.GOOS + ": it needs Linux's files in memory")
}

func (p *process) waited() time.Duration { return 0 }

func memory(string) (*os.File, error) {
	return nil, unsupportedError("make a file in memory on " + runtime.GOOS + ": it needs Linux")
}
