package machine

import (
	"regexp"
	"slices"
	"strings"

	"github.com/napistall/napistall/internal/rcu"
)

// A clue is what one source says about the preemption model: it is one of models.
type clue struct {
	source, says string
	models       []rcu.Preemption
	dynamic      bool // the source shows PREEMPT_DYNAMIC
}

// readPreempt weighs every source of the preemption model, the strongest first.
func (f *Facts) readPreempt(s Source, conf config) {
	flavor := s.flavor()
	f.Flavor = flavor
	f.missing(flavor == "", "flavor")
	clues := []clue{
		debugfsClue(s), bootLineClue(s.Kmsg), dumpClue(s.Kmsg), configClue(conf, f.Cmdline), versionClue(f.Version),
	}
	dynamic := slices.ContainsFunc(clues, func(c clue) bool { return c.dynamic })
	clues = append(clues, flavorClue(flavor, dynamic), releaseClue(f.Release, f.Arch, dynamic))
	f.weigh(slices.DeleteFunc(clues, func(c clue) bool { return c.source == "" }))
}

// weigh narrows the models down clue by clue. A clue that leaves none is a contradiction: it is
// noted, and the stronger ones before it stand.
func (f *Facts) weigh(clues []clue) {
	left := []rcu.Preemption{rcu.None, rcu.Voluntary, rcu.Full, rcu.Lazy, rcu.RT}
	for _, c := range clues {
		f.say("preempt: %s says %s", c.source, c.says)
		f.Dynamic = f.Dynamic || c.dynamic
		both := slices.DeleteFunc(slices.Clone(left), func(p rcu.Preemption) bool { return !slices.Contains(c.models, p) })
		if len(both) == 0 {
			f.say("preempt: contradiction: %s leaves %s, the sources before it %s", c.source, names(c.models), names(left))
			continue
		}
		left = both
	}
	if len(clues) > 0 {
		f.Models = left
	}
	switch {
	case len(left) == 1:
		f.Preempt = left[0]
	case len(clues) > 0:
		f.say("preempt: unknown, one of %s", names(left))
	}
	f.missing(f.Preempt == "", "preempt")
}

func names(models []rcu.Preemption) string {
	var s []string
	for _, m := range models {
		s = append(s, string(m))
	}
	return strings.Join(s, ", ")
}

// debugfsClue reads the model in force, which only PREEMPT_DYNAMIC kernels show: "none (full) lazy".
func debugfsClue(s Source) clue {
	text := s.text("sys/kernel/debug/sched/preempt")
	_, rest, _ := strings.Cut(text, "(")
	word, _, ok := strings.Cut(rest, ")")
	p, err := rcu.ParsePreemption(word)
	if !ok || err != nil {
		return clue{}
	}
	return clue{"debugfs sched/preempt", "(" + word + ")", []rcu.Preemption{p}, true}
}

var dynamicLine = regexp.MustCompile(`(?m)Dynamic Preempt: ([a-z]+)`)

func bootLineClue(kmsg string) clue {
	m := dynamicLine.FindStringSubmatch(kmsg)
	if m == nil {
		return clue{}
	}
	p, err := rcu.ParsePreemption(m[1])
	if err != nil {
		return clue{}
	}
	return clue{"the boot log", m[0], []rcu.Preemption{p}, true}
}

// dumpHead is the first line of a backtrace, which has named the model behind the version since 6.13 or
// so: "CPU: 1 UID: 0 PID: 88 Comm: napi/lan0-67 Not tainted 7.2.13-armmp #1 VOLUNTARY".
var dumpHead = regexp.MustCompile(`CPU: \d+ .*PID: \d+ Comm: .* #\d\S* (NONE|VOLUNTARY|PREEMPTLAZY|PREEMPT|PREEMPT_RT|PREEMPT\((none|voluntary|full|lazy)\))\s*$`)

// lastDump returns the newest first line of a backtrace in a kernel log that names the model, as dumpHead matches it;
// nil if none does. Only lines that can be one meet the expression, which would take seconds of a small board.
func lastDump(kmsg string) []string {
	var last []string
	for line := range strings.Lines(kmsg) {
		if !strings.Contains(line, " Comm: ") {
			continue
		}
		if m := dumpHead.FindStringSubmatch(line); m != nil {
			last = m
		}
	}
	return last
}

// dumpClue reads the model in a backtrace of the log, the newest: it was in force then.
func dumpClue(kmsg string) clue {
	last := lastDump(kmsg)
	if last == nil {
		return clue{}
	}
	word, dynamic := last[1], last[2]
	c := clue{source: "a backtrace in the kernel log", says: word, dynamic: dynamic != ""}
	static := map[string]rcu.Preemption{"NONE": rcu.None, "VOLUNTARY": rcu.Voluntary, "PREEMPT": rcu.Full, "PREEMPTLAZY": rcu.Lazy, "PREEMPT_RT": rcu.RT}
	if c.dynamic {
		c.models = []rcu.Preemption{rcu.Preemption(dynamic)}
	} else {
		c.models = []rcu.Preemption{static[word]}
	}
	return c
}

// dynamicModels are those that a PREEMPT_DYNAMIC kernel can follow; which of them depends on the
// architecture and the version.
func dynamicModels() []rcu.Preemption {
	return []rcu.Preemption{rcu.None, rcu.Voluntary, rcu.Full, rcu.Lazy}
}

// configClue reads the build's choice. Under PREEMPT_DYNAMIC that is a default which preempt= on the
// command line overrides.
func configClue(conf config, cmdline string) clue {
	built, setting := builtModel(conf)
	switch {
	case setting == "" && conf.values["CONFIG_PREEMPT_DYNAMIC"] != "y":
		return clue{}
	case conf.values["CONFIG_PREEMPT_DYNAMIC"] != "y" || built == rcu.RT:
		return clue{conf.from, setting, []rcu.Preemption{built}, false}
	}
	c := clue{conf.from, "CONFIG_PREEMPT_DYNAMIC=y", dynamicModels(), true}
	if built != "" {
		c.says, c.models = c.says+", default "+setting, []rcu.Preemption{built}
	}
	if p := bootPreempt(cmdline); p != "" {
		c.says, c.models = "CONFIG_PREEMPT_DYNAMIC=y, and the command line preempt="+string(p), []rcu.Preemption{p}
	}
	return c
}

// builtModel returns the model chosen at build time and the setting that says so. The *_BUILD names
// exist from 5.16 on; static kernels set both.
func builtModel(conf config) (rcu.Preemption, string) {
	for _, c := range []struct {
		name  string
		model rcu.Preemption
	}{
		{"CONFIG_PREEMPT_RT", rcu.RT}, {"CONFIG_PREEMPT_LAZY", rcu.Lazy}, {"CONFIG_PREEMPT", rcu.Full},
		{"CONFIG_PREEMPT_VOLUNTARY", rcu.Voluntary}, {"CONFIG_PREEMPT_NONE", rcu.None},
		{"CONFIG_PREEMPT_VOLUNTARY_BUILD", rcu.Voluntary}, {"CONFIG_PREEMPT_NONE_BUILD", rcu.None},
	} {
		if conf.values[c.name] == "y" {
			return c.model, c.name + "=y"
		}
	}
	return "", ""
}

// bootPreempt returns the last preempt= of a command line, when it names a model.
func bootPreempt(cmdline string) rcu.Preemption {
	var last rcu.Preemption
	for word := range strings.FieldsSeq(cmdline) {
		if value, ok := strings.CutPrefix(word, "preempt="); ok {
			if p, err := rcu.ParsePreemption(value); err == nil {
				last = p
			}
		}
	}
	return last
}

// versionClue reads uname -v, whose words are SMP, PREEMPT, PREEMPT_RT and PREEMPT_DYNAMIC
// (init/Makefile, up to 7.3 at least): a static LAZY kernel says PREEMPT.
func versionClue(version string) clue {
	says := func(word string, dynamic bool, models ...rcu.Preemption) clue {
		return clue{"uname -v", word, models, dynamic}
	}
	words := strings.Fields(version)
	switch {
	case version == "":
		return clue{}
	case slices.Contains(words, "PREEMPT_RT"):
		return says("PREEMPT_RT", false, rcu.RT)
	case slices.Contains(words, "PREEMPT_DYNAMIC"):
		return says("PREEMPT_DYNAMIC", true, dynamicModels()...)
	case slices.Contains(words, "PREEMPT_LAZY"):
		return says("PREEMPT_LAZY", false, rcu.Lazy)
	case slices.Contains(words, "PREEMPT"):
		return says("PREEMPT", false, rcu.Full, rcu.Lazy)
	}
	return says("no PREEMPT", false, rcu.None, rcu.Voluntary)
}

// flavorClue: only PREEMPT_RCU has a kthread rcu_preempt. Static LAZY kernels had it until about
// 6.13 and have rcu_sched in 7.3; PREEMPT_DYNAMIC always has rcu_preempt.
func flavorClue(flavor rcu.Flavor, dynamic bool) clue {
	c := clue{source: "RCU's flavor", says: string(flavor)}
	switch {
	case flavor == rcu.Preempt && dynamic:
		c.models = dynamicModels()
	case flavor == rcu.Preempt:
		c.models = []rcu.Preemption{rcu.Full, rcu.Lazy, rcu.RT}
	case flavor == rcu.Sched:
		c.models = []rcu.Preemption{rcu.None, rcu.Voluntary, rcu.Lazy}
	default:
		return clue{}
	}
	return c
}

// releaseClue: since 7dadeaa6e851 (7.0), preempt= takes none and voluntary only on architectures without
// lazy preemption, and PREEMPT_DYNAMIC kernels of the others can follow only these two.
func releaseClue(release, arch string, dynamic bool) clue {
	v, ok := ParseRelease(release)
	if !ok || !dynamic || v.Less(Release{7, 0, 0}) || !lazyArch(arch) {
		return clue{}
	}
	return clue{"the release", release + " on " + arch + ", where preempt= is full or lazy", []rcu.Preemption{rcu.Full, rcu.Lazy}, true}
}

// lazyArch reports whether a 7.x kernel has lazy preemption on the architecture with this uname -m
// (ARCH_HAS_PREEMPT_LAZY in arch/*/Kconfig of 7.3).
func lazyArch(machine string) bool {
	for _, prefix := range []string{"x86_64", "i386", "i686", "aarch64", "riscv", "s390", "ppc", "loongarch"} {
		if strings.HasPrefix(machine, prefix) {
			return true
		}
	}
	return false
}

// flavor finds the grace-period kthread, else what RCU called itself in the boot log.
func (s Source) flavor() rcu.Flavor {
	threads, _ := s.threads(string(rcu.Preempt), string(rcu.Sched)) // none where they can't be listed
	for _, f := range []rcu.Flavor{rcu.Preempt, rcu.Sched} {
		if slices.ContainsFunc(threads, func(t Thread) bool { return t.Comm == string(f) }) {
			return f
		}
	}
	switch {
	case strings.Contains(s.Kmsg, "Preemptible hierarchical RCU implementation"):
		return rcu.Preempt
	case strings.Contains(s.Kmsg, "Hierarchical RCU implementation"):
		return rcu.Sched
	}
	return ""
}
