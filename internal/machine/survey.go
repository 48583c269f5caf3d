package machine

import (
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
)

// A Survey is a machine with its network devices and the threads that poll them.
type Survey struct {
	Facts   Facts
	Params  map[string]string // RCU's and the network's settings, by path below / ("sys/kernel/rcu_expedited")
	Devices []Device          // of one network namespace, by index
	Threads []KThread         // of all namespaces, by pid
	Hidden  bool              // kernel threads can't be seen from here
	IRQs    []IRQ             // of the NAPI instances
	Softnet []Softnet
	// Isolated are the CPUs that isolcpus= or nohz_full= keep for others: nobody watches there.
	Isolated []int
	Root     bool // it was read by root
	Copies   bool // it was read from copies of its files: there was nobody to ask or to watch
	// Netlink says why the netdev family did not tell the NAPI instances; "" when it did.
	Netlink string
	// Cut names what had not answered when the time was up; "" when everything had.
	Cut string
}

// A Part is one answer about a machine. Exactly one field is set.
type Part struct {
	Begins  string            `json:"begins,omitempty"` // what is read next
	Facts   *Facts            `json:"facts,omitempty"`
	Params  map[string]string `json:"params,omitempty"`
	Threads *Threads          `json:"threads,omitempty"`
	Softnet []Softnet         `json:"softnet,omitempty"`
	Device  *Device           `json:"device,omitempty"` // replaces an earlier one of the same index
	IRQ     *IRQ              `json:"irq,omitempty"`
	Netlink *string           `json:"netlink,omitempty"`
}

// Threads is what NAPIThreads returns.
type Threads struct {
	List   []KThread `json:"list"`
	Hidden bool      `json:"hidden,omitempty"`
}

// Add puts an answer in its place.
func (v *Survey) Add(p Part) {
	switch {
	case p.Facts != nil:
		v.Facts = *p.Facts
	case p.Params != nil:
		v.Params = p.Params
		v.Isolated = isolated(p.Params)
	case p.Threads != nil:
		v.Threads, v.Hidden = p.Threads.List, p.Threads.Hidden
	case p.Softnet != nil:
		v.Softnet = p.Softnet
	case p.Device != nil:
		v.addDevice(*p.Device)
	case p.IRQ != nil:
		v.IRQs = append(v.IRQs, *p.IRQ)
	case p.Netlink != nil:
		v.Netlink = *p.Netlink
	}
}

func (v *Survey) addDevice(d Device) {
	if i := slices.IndexFunc(v.Devices, func(o Device) bool { return o.Index == d.Index }); i >= 0 {
		v.Devices[i] = d
		return
	}
	v.Devices = append(v.Devices, d)
	slices.SortStableFunc(v.Devices, func(a, b Device) int { return a.Index - b.Index })
}

// paramFiles are the settings that change when and whether stalls are reported, and how packets are polled
// (kernel/rcu/update.c, tree.c; net/core/sysctl_net_core.c).
func paramFiles() []string {
	var files []string
	for dir, names := range map[string]string{
		"sys/module/rcupdate/parameters": "rcu_cpu_stall_timeout rcu_exp_cpu_stall_timeout rcu_cpu_stall_suppress rcu_cpu_stall_cputime rcu_normal_after_boot",
		"sys/module/rcutree/parameters": "jiffies_till_first_fqs jiffies_till_next_fqs jiffies_till_sched_qs jiffies_to_sched_qs kthread_prio use_softirq " +
			"rcu_normal_wake_from_gp rcu_kick_kthreads",
		"sys/kernel":             "rcu_expedited rcu_normal rcu_stall_count",
		"proc/sys/kernel":        "hung_task_timeout_secs watchdog_thresh panic_on_rcu_stall softlockup_panic",
		"proc/sys/net/core":      "netdev_budget netdev_budget_usecs dev_weight netdev_max_backlog",
		"sys/devices/system/cpu": "isolated nohz_full",
	} {
		for name := range strings.FieldsSeq(names) {
			files = append(files, path.Join(dir, name))
		}
	}
	slices.Sort(files)
	return files
}

// params reads those of them that are there.
func (s Source) params() map[string]string {
	found := map[string]string{}
	for _, file := range paramFiles() {
		if b, err := s.read(file); err == nil {
			found[file] = strings.TrimSpace(string(b))
		}
	}
	return found
}

func isolated(params map[string]string) []int {
	var cpus []int
	for _, file := range []string{"sys/devices/system/cpu/isolated", "sys/devices/system/cpu/nohz_full"} {
		list, err := ParseCPUList(params[file]) // "(null)" without nohz_full=
		if err == nil {
			cpus = append(cpus, list...)
		}
	}
	slices.Sort(cpus)
	return slices.Compact(cpus)
}

// A Softnet is one CPU's line of /proc/net/softnet_stat: what it has received since boot.
type Softnet struct {
	CPU       int    `json:"cpu"`
	Processed uint64 `json:"processed"`
	Dropped   uint64 `json:"dropped,omitempty"`
	Squeezed  uint64 `json:"squeezed,omitempty"` // softirq mode only
	RPS       uint64 `json:"received_rps,omitempty"`
	Backlog   uint64 `json:"backlog,omitempty"` // packets that wait now (5.10)
}

// ParseSoftnet reads the text of /proc/net/softnet_stat. Before 5.10 no line names its CPU: they are the
// online ones in turn.
func ParseSoftnet(text string, online []int) ([]Softnet, error) {
	var all []Softnet
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) == 0 {
			continue
		}
		var n []uint64
		for _, word := range f {
			v, err := strconv.ParseUint(word, 16, 64)
			if err != nil {
				return nil, fmt.Errorf("softnet_stat: %w", err)
			}
			n = append(n, v)
		}
		if len(n) < 9 {
			return nil, fmt.Errorf("softnet_stat: %d columns; want 9 or more", len(n))
		}
		s := Softnet{CPU: -1, Processed: n[0], Dropped: n[1], Squeezed: n[2]}
		if len(n) > 9 {
			s.RPS = n[9]
		}
		switch {
		case len(n) >= 13 && n[12] <= maxCPU:
			s.Backlog, s.CPU = n[11], int(n[12])
		case len(n) < 13 && len(all) < len(online):
			s.CPU = online[len(all)]
		}
		all = append(all, s)
	}
	return all, nil
}

const maxCPU = 65535

// survey reads a machine of files. It has no netlink.
func (s Source) survey() (Survey, error) {
	var v Survey
	err := s.tellFiles(func(p Part) error { v.Add(p); return nil })
	v.Devices, _ = s.Devices() // a machine without /sys/class/net still has the rest
	v.Copies, v.Netlink = true, "no answer in copies of files"
	return v, err
}

// tellFiles reads what waits for nobody.
func (s Source) tellFiles(emit func(Part) error) error {
	facts, err := Read(s)
	if err != nil {
		return err
	}
	if err := emit(Part{Facts: &facts}); err != nil {
		return err
	}
	if err := emit(Part{Params: s.params()}); err != nil {
		return err
	}
	list, hidden, err := s.NAPIThreads()
	if err == nil {
		err = emit(Part{Threads: &Threads{list, hidden}})
	}
	if err != nil {
		return err
	}
	if softnet, err := ParseSoftnet(s.text("proc/net/softnet_stat"), facts.Online); err == nil && len(softnet) > 0 {
		if err := emit(Part{Softnet: softnet}); err != nil {
			return err
		}
	}
	return nil
}
