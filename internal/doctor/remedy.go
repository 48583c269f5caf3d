package doctor

import (
	"fmt"
	"slices"
	"strings"

	"github.com/napistall/napistall/internal/machine"
)

// A Remedy is something to do, and what it costs.
type Remedy struct {
	What     string
	Price    string
	Commands []string // to paste, as root; in force until the next boot
	Persist  []File   // to keep it
}

// A File is a file to write so that a remedy stays.
type File struct{ Name, Text string }

// Prices. The figures are those of the report that this project starts from and of the issues that they name.
const (
	softirqPrice    = "Throughput: packets are then handled on the CPU that takes the interrupt. On one board threading had brought 802 → 2580 Mbit/s (qualcomm-linux/kernel#595)."
	moderationPrice = "Latency: a packet waits up to the time set here before it is polled."
	preemptPrice    = "Little: kernel code is preempted more often. The board of the report moved 80,036 packets per second under LAZY and 80,862 under NONE."
	buildPrice      = "A kernel of your own to build and keep up to date."
	patchPrice      = "A patch that is in no release (7.3.4 is the newest that was read) to carry along. Deletes still take about 0.1 s under load."
)

// loopRemedies are what ends the exposure of devices, the cheapest to try first.
func loopRemedies(f machine.Facts, m model, devices []Poller) []Remedy {
	all := modelRemedies(f, m)
	if r, ok := softirqRemedy(devices); ok {
		all = append(all, r)
	}
	if r, ok := moderationRemedy(devices); ok {
		all = append(all, r)
	}
	return append(all, Remedy{What: "Run a kernel with the loop yielding on every exit", Price: patchPrice,
		Commands: []string{"napistall kernel build tree:PATH --patch yield-on-exit.patch   # x86-64; or apply the patch to your own tree"}})
}

// modelRemedies change the preemption model.
func modelRemedies(f machine.Facts, m model) []Remedy {
	word := "full"
	release, known := machine.ParseRelease(f.Release)
	if known && hasLazy(f.Arch, release) {
		word = "lazy"
	}
	if m.dynamic {
		return []Remedy{{What: fmt.Sprintf("Let the kernel preempt: preempt=%s", word), Price: preemptPrice,
			Commands: []string{
				"mount -t debugfs none /sys/kernel/debug 2>/dev/null",
				fmt.Sprintf("echo %s > /sys/kernel/debug/sched/preempt   # at once; it takes no RTNL", word),
			},
			Persist: []File{{Name: "the kernel's command line (GRUB: /etc/default/grub, then update-grub)",
				Text: fmt.Sprintf("GRUB_CMDLINE_LINUX_DEFAULT=\"$GRUB_CMDLINE_LINUX_DEFAULT preempt=%s\"\n", word)}}}}
	}
	config := "CONFIG_PREEMPT=y"
	if word == "lazy" {
		config = "CONFIG_PREEMPT_LAZY=y"
	}
	return []Remedy{{What: "Build the kernel with " + config, Price: preemptPrice + " " + buildPrice}}
}

// hasLazy reports whether a release can be lazy on an architecture: ARCH_HAS_PREEMPT_LAZY in arch/*/Kconfig, by the
// commits that select it.
func hasLazy(arch string, r machine.Release) bool {
	for prefix, since := range map[string]machine.Release{
		"x86_64": {6, 13, 0}, "i386": {6, 13, 0}, "i686": {6, 13, 0}, "riscv": {6, 13, 0}, "loongarch": {6, 13, 0},
		"ppc": {6, 14, 0}, "aarch64": {6, 15, 0},
	} {
		if strings.HasPrefix(arch, prefix) {
			return !r.Less(since)
		}
	}
	return false
}

// softirqRemedy turns threaded mode off where there is a switch.
func softirqRemedy(devices []Poller) (Remedy, bool) {
	r := Remedy{What: "Poll as a softirq", Price: softirqPrice}
	var names []string
	for _, p := range devices {
		switchable := p.Known != nil && p.Known.Threaded != nil && (p.Habit == nil || !p.Habit.Forced)
		if switchable && !slices.Contains(names, p.Device) && len(names) < maxEvidence {
			names = append(names, p.Device)
		}
		if p.Mode == "busy-poll" && p.ID != 0 {
			r.Commands = append(r.Commands, fmt.Sprintf(`ynl --family netdev --do napi-set --json '{"id": %d, "threaded": "disabled"}'   # tools/net/ynl of the kernel's source`, p.ID))
		}
	}
	for _, name := range names {
		r.Commands = append(r.Commands, "echo 0 > /sys/class/net/"+quoted(name)+"/threaded   # waits for RTNL")
	}
	if len(r.Commands) == 0 {
		return r, false
	}
	var rules strings.Builder
	for _, name := range names {
		if quoted(name) != name {
			continue // udev would take it for a pattern
		}
		fmt.Fprintf(&rules, "ACTION==\"add|change\", SUBSYSTEM==\"net\", KERNEL==\"%s\", ATTR{threaded}=\"0\"\n", name)
	}
	if rules.Len() > 0 { // systemd.link has no setting for it (systemd/systemd#30323)
		r.Persist = []File{{Name: "/etc/udev/rules.d/70-napi-softirq.rules", Text: rules.String()}}
	}
	return r, true
}

// moderationRemedy makes interrupts rare where the driver can.
func moderationRemedy(devices []Poller) (Remedy, bool) {
	r := Remedy{What: "Moderate the interrupts, so that the loop is entered at most 10,000 times a second", Price: moderationPrice}
	var seen []string
	for _, p := range devices {
		if p.Moderated != "" || p.Known == nil || slices.Contains(seen, p.Device) || len(seen) == maxEvidence {
			continue
		}
		c := p.Known.Coalescing
		if c == nil || c.RxUsecs == nil {
			continue
		}
		seen = append(seen, p.Device)
		r.Commands = append(r.Commands, fmt.Sprintf("ethtool -C %s rx-usecs %d", quoted(p.Device), enoughUsecs))
		if quoted(p.Device) == p.Device {
			r.Persist = append(r.Persist, linkFile(p.Device, *p.Known))
		}
	}
	return r, len(r.Commands) > 0
}

// linkFile is a systemd.link for a device's moderation. Only the first .link that matches a device is applied, for
// which reason it keeps what systemd's own default says of names.
func linkFile(name string, d machine.Device) File {
	setting := fmt.Sprintf("RxCoalesceSec=%dus\n", enoughUsecs)
	if d.Coalescing.Adaptive != nil {
		setting = "UseAdaptiveRxCoalesce=yes\n"
	}
	return File{Name: "/etc/systemd/network/10-" + name + "-coalesce.link",
		Text: "[Match]\nOriginalName=" + name + "\n\n[Link]\nNamePolicy=keep kernel database onboard slot path\n" + setting}
}

func backlogRemedy() Remedy {
	return Remedy{What: "Take thread_backlog_napi off the kernel's command line",
		Price: "Packets that another CPU hands over (RPS) are handled as softirqs again."}
}

// nowRemedies end a stall that goes on.
func nowRemedies(f machine.Facts, m model) []Remedy {
	if !m.dynamic {
		return []Remedy{{What: "Stop or raise the traffic: the loop yields when its device has nothing to do, or more than 64 packets at a time",
			Price: "ip and writes to threaded wait for RTNL, which whoever waits for the CPU may hold: they help no sooner."}}
	}
	return modelRemedies(f, m)[:1]
}

func issueRemedies(i Issue, devices []string) []Remedy {
	r := Remedy{What: "Run a kernel with the fix", Price: "An update, and a reboot."}
	if i.ID == "CVE-2026-52945" {
		off := Remedy{What: "Switch threaded mode of wireguard off", Price: softirqPrice}
		for _, name := range devices {
			off.Commands = append(off.Commands, "echo 0 > /sys/class/net/"+quoted(name)+"/threaded")
		}
		return []Remedy{off, r}
	}
	return []Remedy{r}
}

// quoted makes a device's name safe in a shell: it can hold almost anything.
func quoted(name string) string {
	if strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.:@-") == "" {
		return name
	}
	return "'" + strings.ReplaceAll(name, "'", `'\''`) + "'"
}
