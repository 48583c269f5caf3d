package machine

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// A KThread is a kernel thread that polls for network devices, as /proc shows it.
type KThread struct {
	PID    int    `json:"pid"`
	Name   string `json:"name"`             // napi/eth0-8193; before 5.17 cut to 15 bytes
	Device string `json:"device,omitempty"` // as in its name; "" for a backlog thread
	State  string `json:"state"`            // R, S, …
	CPU    int    `json:"cpu"`              // where it ran last
	CPUs   string `json:"cpus"`             // where it may run, as a list
	Policy string `json:"policy"`           // normal, fifo, rr, batch, idle, deadline
	Nice   int    `json:"nice"`
	RTPrio int    `json:"rt_priority,omitempty"`
}

// Backlog reports whether the thread polls a CPU's backlog (thread_backlog_napi), not a device.
func (k KThread) Backlog() bool { return strings.HasPrefix(k.Name, backlogPrefix) }

const (
	napiPrefix    = "napi/"         // napi_kthread_create, since 5.12
	backlogPrefix = "backlog_napi/" // backlog_napi_setup, since 6.10
)

// NAPIThreads returns the kernel threads that poll, by pid. Hidden reports that kernel threads can't be seen
// at all, as in a container with processes of its own.
func (s Source) NAPIThreads() (threads []KThread, hidden bool, err error) {
	found, err := s.threads(napiPrefix, backlogPrefix)
	if err != nil {
		return nil, false, err
	}
	for _, t := range found {
		if k, ok := s.kthread(t); ok {
			threads = append(threads, k)
		}
	}
	return threads, s.text("proc/2/comm") != "kthreadd" && len(threads) == 0, nil
}

// kthread reads one; ok is false for a process that only has such a name, and for one that has ended.
func (s Source) kthread(t Thread) (k KThread, ok bool) {
	st, err := parseStat(s.text(fmt.Sprintf("proc/%d/stat", t.PID)))
	if err != nil || !st.kernel {
		return k, false
	}
	k = KThread{PID: t.PID, Name: t.Comm, State: st.state, CPU: st.cpu, Policy: policyName(st.policy), Nice: st.nice, RTPrio: st.rtprio}
	for line := range strings.Lines(s.text(fmt.Sprintf("proc/%d/status", t.PID))) {
		if list, ok := strings.CutPrefix(line, "Cpus_allowed_list:"); ok {
			k.CPUs = strings.TrimSpace(list)
		}
	}
	if rest, ok := strings.CutPrefix(t.Comm, napiPrefix); ok {
		k.Device = rest
		if i := strings.LastIndexByte(rest, '-'); i > 0 {
			k.Device = rest[:i]
		}
	}
	return k, true
}

// stat is what we read of /proc/PID/stat.
type stat struct {
	state                     string
	kernel                    bool // PF_KTHREAD
	cpu, policy, nice, rtprio int
	used                      time.Duration // user and system time, in steps of the tick
}

// pfKthread is PF_KTHREAD in include/linux/sched.h.
const pfKthread = 0x00200000

// userHZ is the unit of times in /proc/PID/stat on every architecture but alpha and ia64.
const userHZ = 100

// parseStat reads /proc/PID/stat. The name in parentheses can hold anything, parentheses too.
func parseStat(text string) (stat, error) {
	end := strings.LastIndexByte(text, ')')
	if end < 0 {
		return stat{}, errors.New("stat: no name")
	}
	f := strings.Fields(text[end+1:]) // f[0] is field 3, the state
	if len(f) < 39 {
		return stat{}, fmt.Errorf("stat: %d fields; want 39 or more", len(f))
	}
	var err error
	number64 := func(field int) int64 {
		n, e := strconv.ParseInt(f[field-3], 10, 64)
		err = errors.Join(err, e)
		return n
	}
	number := func(field int) int { return int(number64(field)) }
	flags, e := strconv.ParseUint(f[9-3], 10, 64)
	s := stat{state: f[0], kernel: flags&pfKthread != 0, nice: number(19), cpu: number(39), rtprio: number(40), policy: number(41)}
	s.used = time.Duration(number64(14)+number64(15)) * (time.Second / userHZ)
	if err = errors.Join(err, e); err != nil {
		return stat{}, fmt.Errorf("stat: %w", err)
	}
	return s, nil
}

// policyName is the scheduling class by include/uapi/linux/sched.h.
func policyName(n int) string {
	names := map[int]string{0: "normal", 1: "fifo", 2: "rr", 3: "batch", 5: "idle", 6: "deadline", 7: "ext"}
	if name, ok := names[n]; ok {
		return name
	}
	return "policy " + strconv.Itoa(n)
}
