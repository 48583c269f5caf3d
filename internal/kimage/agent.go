package kimage

import (
	"bytes"
	"compress/gzip"
	"debug/elf"
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"runtime"
)

// agents holds the guests' programs, put there before this one is built; a README keeps the
// pattern valid when there are none.
//
//go:embed agents
var agents embed.FS

// agentFile is how an embedded agent is named.
const (
	agentPrefix = "agents/napistall-agent-"
	agentSuffix = ".gz"
)

// Agent returns the static program that runs as a guest's init on goarch: the embedded one, or this
// very program where it is static and of that architecture. Otherwise the error matches
// errors.ErrUnsupported.
func Agent(goarch string) ([]byte, error) {
	packed, err := agents.ReadFile(agentPrefix + goarch + agentSuffix)
	if err == nil {
		return unpackAgent(goarch, packed)
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("read the agent for %s: %w", goarch, err)
	}
	if goarch == runtime.GOARCH && runtime.GOOS == "linux" {
		self, err := selfStatic()
		if err != nil || self != nil {
			return self, err
		}
	}
	return nil, unsupportedError(fmt.Sprintf("this napistall was built without an agent for %s: build it with make build", goarch))
}

func unpackAgent(goarch string, packed []byte) ([]byte, error) {
	z, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, fmt.Errorf("unpack the agent for %s: %w", goarch, err)
	}
	data, err := io.ReadAll(z)
	if err != nil {
		return nil, fmt.Errorf("unpack the agent for %s: %w", goarch, err)
	}
	return data, nil
}

// selfStatic returns this program's file, or nil if it needs a dynamic loader.
func selfStatic() ([]byte, error) {
	name, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
	}
	data, err := os.ReadFile(name)
	if err != nil {
		return nil, fmt.Errorf("read this program: %w", err)
	}
	f, err := elf.NewFile(bytes.NewReader(data))
	if err != nil {
		return nil, fmt.Errorf("read this program: %w", err)
	}
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			return nil, nil
		}
	}
	return data, nil
}
