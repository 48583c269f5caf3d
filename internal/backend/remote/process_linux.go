package remote

import (
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// start starts ssh, which dies with us even when we are killed: the board then sees the connection close. The
// kernel sends SIGKILL when the thread that started it ends, so that thread belongs to it alone. A terminal's
// Ctrl-C is ours to handle.
func (s *session) start() error {
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: unix.SIGKILL, Setpgid: true}
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := s.cmd.Start()
		started <- err
		if err == nil {
			s.wait()
		}
	}()
	return <-started
}
