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
	"strconv"
	"strings"
	"sync"
	"syscall"
)

// A Helper is a process of ours that asks the kernel what can hang. A thread that waits for RTNL or for a
// grace period can't be killed, and keeps its process, so that it must not be in the process which is to answer.
type Helper struct {
	// Command starts it: it has to Serve its standard input and output.
	Command []string
	// Env is added to the environment.
	Env []string
}

// A Word is one thing that a helper says: an answer about the machine, or a beat of a measurement.
type Word struct {
	Part *Part  `json:"part,omitempty"`
	Of   string `json:"of,omitempty"` // whose Beat it is
	Beat *Beat  `json:"beat,omitempty"`
}

// What a helper measures: grace periods from the start on, the others when it is told to.
const (
	ofGracePeriods = "grace-periods"
	ofTurns        = "turns" // turns CPU,CPU
	ofPolls        = "polls"
)

// Serve is the whole life of a helper: it tells what the network devices are, measures grace periods, and does what
// the lines of in say, until in ends. What hangs in the kernel then goes on hanging in its threads.
func Serve(in io.Reader, out io.Writer) error {
	var mu sync.Mutex
	lines := json.NewEncoder(out)
	say := func(w Word) error {
		mu.Lock()
		defer mu.Unlock()
		return lines.Encode(w)
	}
	beats := func(of string) func(Beat) error { return func(b Beat) error { return say(Word{Of: of, Beat: &b}) } }
	// Nobody waits for these: a thread that hangs in the kernel can't be waited for.
	go func() { _ = tellDevices(func(p Part) error { return say(Word{Part: &p}) }) }()
	go func() { _ = tellGracePeriods(beats(ofGracePeriods)) }()
	orders := bufio.NewScanner(in)
	for orders.Scan() {
		what, rest, _ := strings.Cut(orders.Text(), " ")
		switch what {
		case ofPolls:
			go func() { _ = tellPolls(beats(ofPolls)) }()
		case ofTurns:
			cpus, err := parseCPUs(rest)
			if err != nil {
				return err
			}
			go func() { _ = tellTurns(cpus, beats(ofTurns)) }()
		default:
			return fmt.Errorf("helper: %q: want %s or %s", orders.Text(), ofTurns, ofPolls)
		}
	}
	return orders.Err()
}

func parseCPUs(list string) ([]int, error) {
	var cpus []int
	for word := range strings.SplitSeq(list, ",") {
		cpu, err := strconv.ParseUint(word, 10, 16)
		if err != nil {
			return nil, fmt.Errorf("helper: %s: %w", ofTurns, err)
		}
		cpus = append(cpus, int(cpu))
	}
	return cpus, nil
}

// A session is a helper that runs.
type session struct {
	in   io.Writer
	done chan struct{} // closed when it says no more
}

// maxLine bounds one answer.
const maxLine = 1 << 20

// start starts a helper and passes what it says to word, one at a time, until it ends or ctx does: it is killed
// then, and left to die when the kernel lets it.
func (h Helper) start(ctx context.Context, word func(Word)) (*session, error) {
	cmd := exec.Command(h.Command[0], h.Command[1:]...)
	if h.Command[0] == "/proc/self/exe" {
		cmd.Args[0] = os.Args[0]
	}
	cmd.Env = append(os.Environ(), h.Env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("start a helper: %w", err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("start a helper: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start a helper: %w", err)
	}
	s := &session{in: in, done: make(chan struct{})}
	stop := context.AfterFunc(ctx, func() {
		_ = cmd.Process.Kill() // it may have ended
		_ = out.Close()        // what it has not said by now is not wanted
	})
	go func() {
		defer close(s.done)
		readWords(out, word)
		stop()
		// Nobody waits for this goroutine: a helper that hangs in the kernel ends when that lets it go.
		go func() { _ = errors.Join(in.Close(), cmd.Wait()) }()
	}()
	return s, nil
}

// readWords reads until there is no more. A line that is no word is passed over.
func readWords(r io.Reader, word func(Word)) {
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 64<<10), maxLine)
	for lines.Scan() {
		var w Word
		if json.Unmarshal(lines.Bytes(), &w) == nil {
			word(w)
		}
	}
}

// order tells a helper to do something. One that has ended is not told.
func (s *session) order(words ...string) {
	_, _ = io.WriteString(s.in, strings.Join(words, " ")+"\n") // its silence is what is noticed
}
