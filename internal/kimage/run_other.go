//go:build !linux

package kimage

import "os/exec"

// runTied runs cmd. Only Linux can tie its life to ours.
func runTied(cmd *exec.Cmd) error { return cmd.Run() }
