package load

import (
	"fmt"
	"runtime"

	"golang.org/x/sys/unix"
)

// A thread runs functions one after the other on one OS thread of its own: the namespaces that a
// load lives in belong to a thread, not to the process.
type thread struct {
	work chan func()
	done chan struct{}
}

func newThread() *thread {
	t := &thread{work: make(chan func()), done: make(chan struct{})}
	go func() {
		defer close(t.done)
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine, and its namespaces with it
		for f := range t.work {
			f()
		}
	}()
	return t
}

// do runs f on the thread and returns its error.
func (t *thread) do(f func() error) error {
	result := make(chan error, 1)
	t.work <- func() { result <- f() }
	return <-result
}

// end stops the thread after what it is doing. It must not be used afterwards.
func (t *thread) end() {
	close(t.work)
	<-t.done
}

// isolate moves the calling thread into a network namespace of its own, with a /sys that shows it.
func isolate() error {
	if err := unix.Unshare(unix.CLONE_FS | unix.CLONE_NEWNS | unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("enter a new network namespace: %w", err)
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("keep our mounts to ourselves: %w", err)
	}
	if err := unix.Mount("sysfs", "/sys", "sysfs", 0, ""); err != nil {
		return fmt.Errorf("mount the namespace's /sys: %w", err)
	}
	return nil
}
