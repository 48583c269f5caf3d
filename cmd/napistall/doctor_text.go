package main

import (
	"bufio"
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/napistall/napistall/internal/doctor"
	"github.com/napistall/napistall/internal/machine"
)

// harmless is text without what a terminal would act on: a snapshot's words are whoever's.
func harmless(text []byte) []byte {
	return bytes.Map(func(r rune) rune {
		if r == '\n' || unicode.IsPrint(r) {
			return r
		}
		return unicode.ReplacementChar
	}, text)
}

// A doctorText shows a report to a person. Write errors stay in out and come at its Flush.
type doctorText struct {
	out  *bufio.Writer
	long bool
}

func (t *doctorText) printf(format string, args ...any) { _, _ = fmt.Fprintf(t.out, format, args...) }

func (t *doctorText) report(c doctor.Case, r doctor.Report) {
	t.printf("verdict: %s, confidence %s\n", r.Verdict, r.Confidence)
	t.wrap("    ", "    ", r.Summary)
	for _, d := range r.Doubts {
		t.wrap("    doubt: ", "      ", d)
	}
	t.machine(c.Survey)
	t.pollers(r.Pollers)
	t.watch(c.Watch, c.Survey.IRQs, r.Pollers)
	for i, f := range r.Findings {
		t.finding(i+1, f)
	}
	if t.long {
		t.details(c)
	}
	if len(r.Unseen) > 0 {
		t.printf("\nnot seen:\n")
		for _, line := range r.Unseen {
			t.wrap("    ", "      ", line)
		}
	}
}

func (t *doctorText) machine(v machine.Survey) {
	f := v.Facts
	words := []string{f.Release + " " + f.Arch, cpuWords(len(f.Online))}
	if f.HZ > 0 {
		words = append(words, fmt.Sprintf("HZ %d", f.HZ))
	}
	if f.Preempt != "" {
		words = append(words, "preemption "+strings.ToUpper(string(f.Preempt)))
	}
	if f.Dynamic {
		words = append(words, "PREEMPT_DYNAMIC")
	}
	if f.Flavor != "" {
		words = append(words, string(f.Flavor))
	}
	if f.StallSec > 0 {
		words = append(words, fmt.Sprintf("stall timeout %d s, expedited %s", f.StallSec, expedited(f)))
	}
	t.printf("\n")
	t.wrap("machine: ", "    ", strings.Join(words, ", "))
	for _, e := range f.Evidence {
		t.wrap("    ", "      ", e)
	}
}

func expedited(f machine.Facts) string {
	if f.ExpMillis == 0 {
		return "the same"
	}
	return fmt.Sprintf("%d ms", f.ExpMillis)
}

// pollers shows what polls, or may poll, in a thread; with long, every instance.
func (t *doctorText) pollers(all []doctor.Poller) {
	threads := slices.DeleteFunc(slices.Clone(all), func(p doctor.Poller) bool { return p.Mode == "softirq" })
	t.printf("\nNAPI instances: %d, in softirq mode %d\n", len(all), len(all)-len(threads))
	if t.long {
		threads = all
	}
	if len(threads) == 0 {
		return
	}
	w := t.table()
	tableRow(w, "device", "driver", "id", "irq", "mode", "thread", "CPU", "may run on", "class", "moderation")
	for _, p := range threads {
		tableRow(w, append([]string{p.Device, orDash(p.Driver), idOrDash(p.ID), intOrDash(p.IRQ), p.Mode}, append(threadCells(p.Thread), orDash(p.Moderated))...)...)
	}
	_ = w.Flush() // into out, which keeps its error
}

func threadCells(k *machine.KThread) []string {
	if k == nil {
		return []string{"–", "–", "–", "–"}
	}
	class := k.Policy
	if k.RTPrio > 0 {
		class += " " + strconv.Itoa(k.RTPrio)
	}
	if k.Nice != 0 {
		class += " nice " + strconv.Itoa(k.Nice)
	}
	return []string{fmt.Sprintf("%s (%d)", k.Name, k.PID), strconv.Itoa(k.CPU), orDash(k.CPUs), class}
}

func (t *doctorText) watch(w machine.Watch, irqs []machine.IRQ, pollers []doctor.Poller) {
	if w.Took == 0 {
		t.printf("\nnot watched\n")
		return
	}
	t.printf("\nwatched %s:\n", spanWords(w.Took))
	if len(w.Threads) > 0 {
		table := t.table()
		tableRow(table, "thread", "CPU", "busy", "sleeps/s", "nonvol/s", "longest run without a switch")
		for _, x := range w.Threads {
			tableRow(table, x.Name, strconv.Itoa(x.CPU), fmt.Sprintf("%.0f %%", 100*x.Busy()), perSecond(x.Voluntary, x.Took), perSecond(x.Nonvoluntary, x.Took), longest(x, w.Step))
		}
		_ = table.Flush() // into out, which keeps its error
		t.wrap("    ", "    ", fmt.Sprintf("looked at each %d ms in /proc/PID/schedstat and status: a run is seen to within two looks, and a "+
			"schedule() that picks the same thread again, which is a quiescent state, not at all", w.Step.Milliseconds()))
	}
	t.gracePeriods(w)
	for _, p := range w.Polls {
		if p.Polls > 0 && p.Took > 0 {
			t.printf("    %s: %s entries/s, %.1f packets per entry, %.1f %% of the polls used the whole budget%s\n", p.Device, perSecond(p.Entries(), p.Took),
				float64(p.Packets)/float64(max(1, p.Entries())), 100*float64(p.Full)/float64(p.Polls), bandWords(p.Device, pollers))
		}
	}
	if w.NoPolls != "" && (t.long || len(w.Threads) > 0) {
		t.wrap("    entries not counted: ", "      ", w.NoPolls)
	}
	for _, n := range w.Packets {
		t.printf("    %s: %s packets/s received\n", n.Name, perSecond(n.Count, w.Took))
	}
	for _, n := range w.Interrupts {
		if slices.ContainsFunc(irqs, func(i machine.IRQ) bool { return i.Number == n.IRQ }) {
			t.printf("    irq %d: %s/s\n", n.IRQ, perSecond(n.Count, w.Took))
		}
	}
}

// bandWords says where a device's load sits, where a thread polls it.
func bandWords(device string, pollers []doctor.Poller) string {
	for _, p := range pollers {
		if p.Device == device && p.Band != "" {
			return fmt.Sprintf(": %s the band", p.Band)
		}
	}
	return ""
}

func longest(x machine.Watched, step time.Duration) string {
	if x.Longest == 0 {
		return fmt.Sprintf("under %d ms", 2*step.Milliseconds())
	}
	return spanWords(x.Longest) + " or more"
}

func (t *doctorText) gracePeriods(w machine.Watch) {
	ended, worst := 0, time.Duration(0)
	for _, g := range w.GracePeriods {
		if !g.Censored {
			ended++
		}
		worst = max(worst, g.Took)
	}
	switch {
	case len(w.GracePeriods) > 0:
		t.printf("    grace periods (membarrier): %d of %d ended, worst %s\n", ended, len(w.GracePeriods), spanWords(worst))
	case w.NoGP != "":
		t.printf("    grace periods: not measured: %s\n", w.NoGP)
	}
	for _, turn := range w.Turns {
		if turn.Censored {
			t.printf("    CPU %d: another thread had not run there after %s\n", *turn.CPU, spanWords(turn.Took))
		} else {
			t.printf("    CPU %d: another thread ran there after %s\n", *turn.CPU, spanWords(turn.Took))
		}
	}
}

func (t *doctorText) finding(n int, f doctor.Finding) {
	t.printf("\n")
	t.wrap(fmt.Sprintf("%d. ", n), "   ", fmt.Sprintf("%s [%s, %s]", f.Title, f.State, f.ID))
	for _, e := range f.Evidence {
		t.wrap("    - ", "      ", e)
	}
	if f.Source != "" {
		t.wrap("    source: ", "      ", f.Source)
	}
	for _, r := range f.Remedies {
		t.remedy(r)
	}
}

func (t *doctorText) remedy(r doctor.Remedy) {
	t.wrap("    remedy: ", "      ", r.What)
	if r.Price != "" {
		t.wrap("      price: ", "        ", r.Price)
	}
	for _, command := range r.Commands {
		t.printf("      # %s\n", command) // never broken: it is there to be pasted
	}
	for _, file := range r.Persist {
		t.printf("      to keep it, in %s:\n", file.Name)
		for line := range strings.Lines(file.Text) {
			t.printf("          %s\n", strings.TrimRight(line, "\n"))
		}
	}
}

// doctorWidth is where a line of prose ends.
const doctorWidth = 112

// wrap prints text after first, and what doesn't fit in lines that begin with rest.
func (t *doctorText) wrap(first, rest, text string) {
	line, empty := first, true
	for word := range strings.FieldsSeq(text) {
		if !empty && utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > doctorWidth {
			t.printf("%s\n", line)
			line, empty = rest, true
		}
		if !empty {
			line += " "
		}
		line, empty = line+word, false
	}
	t.printf("%s\n", line)
}

// details are settings, softnet and every known issue with its versions.
func (t *doctorText) details(c doctor.Case) {
	t.printf("\nsettings:\n")
	for _, name := range slices.Sorted(maps.Keys(c.Survey.Params)) {
		t.printf("    /%s %s\n", name, c.Survey.Params[name])
	}
	for _, d := range c.Survey.Devices {
		for _, q := range slices.Sorted(maps.Keys(d.RPS)) {
			t.printf("    RPS %s %s: CPUs %s\n", d.Name, q, d.RPS[q])
		}
	}
	for _, i := range c.Survey.IRQs {
		t.printf("    irq %d: may arrive on %s, arrives on %s\n", i.Number, orDash(i.CPUs), orDash(i.Effective))
	}
	for _, s := range c.Survey.Softnet {
		t.printf("    CPU %d: %d packets processed, %d dropped, %d squeezed, %d by RPS, %d in the backlog\n", s.CPU, s.Processed, s.Dropped, s.Squeezed, s.RPS, s.Backlog)
	}
	t.printf("\nknown issues:\n")
	for _, i := range doctor.Issues() {
		t.wrap("    ", "      ", i.ID+": "+i.Title)
		t.wrap("      versions: ", "        ", i.Ranges)
		t.wrap("      source: ", "        ", i.Source)
	}
}

func (t *doctorText) table() *tabwriter.Writer { return tabwriter.NewWriter(t.out, 0, 0, 2, ' ', 0) }

// tableRow writes a line of a table; errors stay in the writer below it.
func tableRow(w *tabwriter.Writer, cells ...string) {
	_, _ = fmt.Fprintf(w, "    %s\n", strings.Join(cells, "\t"))
}

func orDash(s string) string {
	if s == "" {
		return "–"
	}
	return s
}

func intOrDash(n *int) string {
	if n == nil {
		return "–"
	}
	return strconv.Itoa(*n)
}

func idOrDash(n int) string {
	if n == 0 {
		return "–"
	}
	return strconv.Itoa(n)
}

// perSecond is a count in the time it took, for each second.
func perSecond(n uint64, took time.Duration) string {
	if took <= 0 {
		return "–"
	}
	r := float64(n) / took.Seconds()
	if r < 1000 {
		return strconv.FormatFloat(r, 'f', 1, 64)
	}
	return strconv.FormatFloat(r, 'f', 0, 64)
}

func spanWords(d time.Duration) string {
	switch {
	case d < time.Millisecond:
		return "under 1 ms"
	case d < 100*time.Millisecond:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	}
	return fmt.Sprintf("%.2f s", d.Seconds())
}

func cpuWords(n int) string {
	if n == 1 {
		return "1 CPU"
	}
	return strconv.Itoa(n) + " CPUs"
}
