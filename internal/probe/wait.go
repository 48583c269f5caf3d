package probe

import (
	"slices"
	"strconv"
	"strings"

	"github.com/napistall/napistall/internal/rcu"
)

// deciding maps a kernel function to what a task waits for when it is on its stack. Several can
// be on one stack (an rcu_barrier inside netdev_wait_allrefs_any): the outermost decides, for it
// is why the inner ones are there.
func deciding(function string) rcu.Wait {
	switch function {
	case "synchronize_net", "synchronize_rcu", "synchronize_rcu_expedited", "_synchronize_rcu_expedited", "exp_funnel_lock",
		"synchronize_rcu_normal", "synchronize_rcu_expedited_wait", "__wait_rcu_gp", "rcu_exp_wait_wake", "synchronize_sched":
		return rcu.SynchronizeNet
	case "flush_all_backlogs", "flush_work", "__flush_work", "__flush_workqueue", "flush_workqueue":
		return rcu.FlushWork
	case "rcu_barrier", "rcu_barrier_bh", "rcu_barrier_sched", "_rcu_barrier":
		return rcu.Barrier
	case "rtnl_lock", "rtnl_lock_killable", "rtnl_net_lock", "__rtnl_net_lock", "rtnl_net_lock_killable":
		return rcu.RTNL
	}
	if strings.HasPrefix(function, "netdev_wait_allrefs") {
		return rcu.Refs
	}
	return ""
}

// Attribute says what a task with these functions on its kernel stack, innermost first, waits for.
// A single function is taken for a wchan: the innermost that is not the scheduler's or a lock's own.
func Attribute(stack []string) rcu.Wait {
	for _, function := range slices.Backward(stack) {
		if w := deciding(function); w != "" {
			return w
		}
	}
	if waitsForRTNL(stack) {
		return rcu.RTNL
	}
	return rcu.OtherWait
}

// waitsForRTNL reports whether the task is blocked on the mutex that rtnetlink takes, where the
// compiler left no rtnl_lock on the stack: a mutex called from one of rtnetlink's functions.
func waitsForRTNL(stack []string) bool {
	if len(stack) == 1 {
		return takesRTNL(stack[0])
	}
	mutex := -1
	for i, function := range stack {
		if strings.Contains(function, "mutex_lock") {
			mutex = i
		}
	}
	return mutex >= 0 && mutex+1 < len(stack) && takesRTNL(stack[mutex+1])
}

// takesRTNL: the functions on a deletion's path that take RTNL themselves. netdev_run_todo is the
// one that lets go of it, and takes it again only inside netdev_wait_allrefs_any.
func takesRTNL(function string) bool {
	return slices.Contains([]string{"rtnetlink_rcv_msg", "rtnl_dellink", "rtnl_newlink", "rtnl_setlink", "rtnl_dump_all", "netlink_dump"}, function)
}

// ours reports whether the stack is of a wait that the Go runtime began, on its way out of the system
// call that was the operation: it says nothing about the kernel.
func ours(stack []string) bool {
	return slices.ContainsFunc(stack, func(function string) bool { return strings.Contains(function, "futex") })
}

// site returns where the wait that Attribute finds was entered: the caller of the outermost function that decides,
// with the offset of the call. It is empty where the stack doesn't go that far.
func site(frames []frame) string {
	for i, f := range slices.Backward(frames) {
		if deciding(f.function) == "" {
			continue
		}
		if i+1 < len(frames) {
			return frames[i+1].String()
		}
		break
	}
	return ""
}

// A frame is one line of a kernel stack.
type frame struct{ function, offset string } // "rcu_barrier", "0x1f2" or ""

func (f frame) String() string {
	if f.offset == "" {
		return f.function
	}
	return f.function + "+" + f.offset
}

// functions are the names of frames.
func functions(frames []frame) []string {
	var stack []string
	for _, f := range frames {
		stack = append(stack, f.function)
	}
	return stack
}

// parseStack returns the frames in the text of /proc/PID/stack or of /proc/PID/wchan, innermost
// first, without compiler's suffixes and modules. It is empty for a task that runs.
func parseStack(text string) []frame {
	var stack []frame
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if address, rest, ok := strings.Cut(line, "]"); ok && strings.HasPrefix(address, "[<") {
			line = strings.TrimSpace(rest)
		}
		name, rest, _ := strings.Cut(line, "+")
		offset, _, _ := strings.Cut(rest, "/")
		if _, err := strconv.ParseUint(offset, 0, 32); err != nil {
			offset = ""
		}
		name, _, _ = strings.Cut(name, " ")
		name, _, _ = strings.Cut(name, ".")
		// Before 4.20 a stack ends with a line of only an address; a wchan of nothing is 0.
		if name == "" || name == "0" || strings.HasPrefix(name, "0x") {
			continue
		}
		stack = append(stack, frame{name, offset})
	}
	return stack
}
