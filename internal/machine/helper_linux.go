package machine

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// A Helper is a process of ours that asks the kernel what can hang. A thread that waits for RTNL or for a
// grace period can't be killed, and keeps its process, so that it must not be in the process which is to answer.
type Helper struct {
	// Command starts it; the question comes as further arguments. It prints JSON, a value a line.
	Command []string
	// Env is added to the environment.
	Env []string
}

// maxLine bounds one answer: the kernel log is the longest.
const maxLine = 16 << 20

// Ask passes each line of the helper's answer to line, until it ends or ctx does: it is killed then, and
// left to die when the kernel lets it. An error is about the helper, not about what it asked.
func (h Helper) Ask(ctx context.Context, line func([]byte), question ...string) error {
	cmd := exec.Command(h.Command[0], append(h.Command[1:], question...)...)
	if h.Command[0] == "/proc/self/exe" {
		cmd.Args[0] = os.Args[0]
	}
	cmd.Env = append(os.Environ(), h.Env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return fmt.Errorf("start a helper: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start a helper: %w", err)
	}
	stop := context.AfterFunc(ctx, func() {
		_ = cmd.Process.Kill() // it may have ended
		_ = out.Close()        // what it has not said by now is not wanted
	})
	err = readLines(out, line)
	if !stop() {
		err = nil // the pipe was closed above
	}
	// Nobody waits for this goroutine: a helper that hangs in the kernel ends when that lets it go.
	go func() { _ = cmd.Wait() }()
	return err
}

func readLines(r io.Reader, line func([]byte)) error {
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 64<<10), maxLine)
	for lines.Scan() {
		line(lines.Bytes())
	}
	if err := lines.Err(); err != nil && !errors.Is(err, os.ErrClosed) {
		return fmt.Errorf("read a helper's answer: %w", err)
	}
	return nil
}

const (
	// startTime is how long a helper may take until it says its first word: a program as large as ours takes seconds
	// to start on a slow board, and on an emulated one that is busy.
	startTime = 15 * time.Second
	// Patience is how long the next word may take. Reading takes milliseconds; what takes longer waits for RTNL.
	Patience = time.Second
)

// beforeRTNL is what is cut off when a helper did not even come to what can hang.
const beforeRTNL = "the machine's own files"

// Survey reads the running machine through a helper that was asked to Tell, until it has said nothing for
// Patience or ctx ends. What had not answered by then is in Cut. Kmsg is the kernel log's text.
func (h Helper) Survey(ctx context.Context, question ...string) (v Survey, kmsg string, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	patience := time.AfterFunc(startTime, cancel)
	defer patience.Stop()
	began, told := beforeRTNL, false
	err = h.Ask(ctx, func(line []byte) {
		var p Part
		if json.Unmarshal(line, &p) != nil {
			return
		}
		told = true
		if p.Begins != "" {
			began = p.Begins
		}
		if p.Netlink != nil {
			began = "" // the last answer
		}
		if began != beforeRTNL { // what came before only takes as long as it takes
			patience.Reset(Patience)
		}
		if p.Kmsg != nil {
			kmsg = *p.Kmsg
		}
		v.Add(p)
	}, question...)
	if err == nil && !told {
		err = errors.New("read this machine: the helper said nothing")
	}
	v.Cut = began
	v.Root = os.Geteuid() == 0
	return v, kmsg, err
}
