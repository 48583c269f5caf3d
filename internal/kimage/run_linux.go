package kimage

import (
	"os/exec"
	"runtime"
	"syscall"
)

// runTied runs cmd and has the kernel end it when this process dies, so that a kill -9 leaves no
// apt behind. The signal comes when the starting thread ends, hence the lock.
func runTied(cmd *exec.Cmd) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	return cmd.Run()
}
