package machine

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// A Stat is what /proc/PID/stat says of a process or thread (proc_pid_stat(5)).
type Stat struct {
	Comm                      string
	State                     string
	Kernel                    bool // PF_KTHREAD
	Parent, Session           int
	Start                     string        // in clock ticks since boot; with the pid it tells a process from a later one
	CPU, Policy, Nice, RTPrio int           // CPU is where it ran last
	Used                      time.Duration // user and system time, in steps of the tick
}

// pfKthread is PF_KTHREAD in include/linux/sched.h.
const pfKthread = 0x00200000

// userHZ is the unit of times in /proc/PID/stat on every architecture but alpha and ia64.
const userHZ = 100

// ReadStat reads this machine's /proc/PID/stat.
func ReadStat(pid int) (Stat, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return Stat{}, err
	}
	s, err := ParseStat(string(text))
	if err != nil {
		return Stat{}, fmt.Errorf("read /proc/%d/stat: %w", pid, err)
	}
	return s, nil
}

// ParseStat reads the text of /proc/PID/stat. The name in parentheses can hold anything, parentheses too.
func ParseStat(text string) (Stat, error) {
	open, end := strings.IndexByte(text, '('), strings.LastIndexByte(text, ')')
	if open < 0 || end < open {
		return Stat{}, errors.New("stat: no name")
	}
	f := strings.Fields(text[end+1:]) // f[0] is field 3, the state
	if len(f) < 39 {
		return Stat{}, fmt.Errorf("stat: %d fields; want 39 or more", len(f))
	}
	var err error
	number64 := func(field int) int64 {
		n, e := strconv.ParseInt(f[field-3], 10, 64)
		err = errors.Join(err, e)
		return n
	}
	number := func(field int) int { return int(number64(field)) }
	flags, e := strconv.ParseUint(f[9-3], 10, 64)
	s := Stat{Comm: text[open+1 : end], State: f[0], Kernel: flags&pfKthread != 0, Parent: number(4), Session: number(6), Start: f[22-3],
		Nice: number(19), CPU: number(39), RTPrio: number(40), Policy: number(41)}
	s.Used = time.Duration(number64(14)+number64(15)) * (time.Second / userHZ)
	if err = errors.Join(err, e); err != nil {
		return Stat{}, fmt.Errorf("stat: %w", err)
	}
	return s, nil
}
