package klog

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// each wraps every line of text by format, whose verb is the line.
func each(format string) func(string) string {
	return func(text string) string {
		var b strings.Builder
		for line := range strings.Lines(text) {
			b.WriteString(fmt.Sprintf(format, strings.TrimSuffix(line, "\n")) + "\n")
		}
		return b.String()
	}
}

func replace(oldNew ...string) func(string) string {
	return func(text string) string { return strings.NewReplacer(oldNew...).Replace(text) }
}

// wrappings are the ways in which a kernel's lines reach us.
func wrappings() map[string]func(string) string {
	return map[string]func(string) string{
		"none":               each("%s"),
		"stamp":              each("[  500.123456] %s"),
		"level and stamp":    each("<3>[  500.123456] %s"),
		"caller":             each("[  500.123456][   C0] %s"),
		"thread caller":      each("[  500.123456][ T4711] %s"),
		"dmesg -x":           each("kern  :err   : [  500.123456] %s"),
		"dmesg -T":           each("[Wed Feb  8 08:14:38 2023] %s"),
		"dmesg -d":           each("[  500.123456 <    0.000012>] %s"),
		"dmesg -H":           func(s string) string { return "[Nov30 18:25] lan0: link is up\n" + each("[  +0.000123] %s")(s) },
		"vendor's caller":    each("[  500.123456]  (0)[715:swapper/0]%s"),
		"dmesg iso":          each("2026-11-30T18:25:34,123456+00:00 %s"),
		"syslog":             each("Nov 30 18:25:34 host1 kernel: [  500.123456] %s"),
		"syslog, no stamp":   each("Nov 30 18:25:34 host1 kernel: %s"),
		"syslog, no tag":     each("Nov 30 18:25:34 192.0.2.1 [  500.123456] %s"),
		"journal, precise":   each("Nov 30 18:25:34.123456 host1 kernel: %s"),
		"journal, monotonic": each("[  500.123456] host1 kernel: %s"),
		"journal, ISO":       each("2026-11-30T18:25:34+0000 host1 kernel: %s"),
		"ISO and level":      each("2026-11-30T18:25:34.123456+00:00 sw1 INFO kernel: [  500.123456] %s"),
		"facility.level":     each("Mon Nov 30 18:25:34 2026 kern.err kernel: [  500.123456] %s"),
		"busybox":            each("Nov 30 18:25:34 router kern.err kernel: [  500.123456] %s"),
		"rsyslog's TAB":      replace("\t", "#011"),
		"broadcast":          each(" kernel:%s"),
		"netconsole":         each("3,1200,500123456,-,caller=C0;%s"),
		"netconsole, syslog": each("Nov 30 18:25:34 host1 3,1200,500123456,-,caller=C0;%s"),
		"kmsg":               func(s string) string { return replace("\t", `\x09`)(each("3,1200,500123456,-;%s")(s)) },
		"pstore":             func(s string) string { return "Oops#1 Part1\n" + each("<4>[  500.123456] %s")(s) },
		"daemon":             each("12:04:14 I0409 12:04:12.927154    8843 vm_console.go:96] SB[vm-0] [CNL] %s"),
		"program":            each("cloud-hypervisor [  500.123456] %s"),
		"mail":               each("> [  500.123456] %s"),
		"mail, twice":        each(">> [  500.123456] %s"),
		"mail, spaced":       each("> > [  500.123456] %s"),
		"table":              each("| [  500.123456] %s"),
		"indented":           each("        [  500.123456] %s"),
		"blank lines":        replace("\n", "\n\n"),
		"blanks with stamps": func(s string) string {
			return strings.ReplaceAll(each("[  500.123456] %s")(s), "\n", "\n[  500.123457] \n")
		},
		"trailing spaces":     each("[  500.123456] %s   "),
		"TABs lost":           replace("\t", ""),
		"TABs as spaces":      replace("\t", "    "),
		"all space lost":      func(s string) string { return replace("\n ", "\n", "\t", "")(s) },
		"head over 2 lines":   replace("detected stalls", "detected\nstalls"),
		"head over 3 lines":   replace("INFO: rcu_sched detected stalls", "INFO: rcu_sched\ndetected\nstalls"),
		"end over 2 lines":    replace("jiffies, g=411", "jiffies,\ng=411"),
		"end over 2, quoted":  func(s string) string { return each("> %s")(replace("jiffies, g=411", "jiffies,\ng=411")(s)) },
		"text in front":       func(s string) string { return "login: root" + each("[  500.123456] %s")(s) },
		"old head and end":    replace("rcu: ", ""),
		"other lines between": replace("\n", "\n[  500.123458] audit: type=1400 something else\n"),
	}
}

// One report is the same whatever is wrapped around it, as a text and as a stream, with either line end.
func TestWrappings(t *testing.T) {
	report := strings.Join([]string{otherHead, busyCPU, otherEnd, "Sending NMI from CPU 0 to CPUs 2:", "NMI backtrace for cpu 2", napiTask,
		"Call Trace:", " <TASK>", " napi_threaded_poll_loop+0x1c0/0x220", " napi_threaded_poll+0x60/0x80", " kthread+0xe0/0x110", " </TASK>", ""}, "\n")
	want := Parse(Lines(report))
	if len(want) != 1 || want[0].GP != "g=411" || len(want[0].Traces) != 1 || want[0].Traces[0].Task != "napi/lan2-14" {
		t.Fatalf("unwrapped: %+v; want one event with a trace of napi/lan2-14", want)
	}
	ignore := cmpopts.IgnoreFields(Event{}, "First", "Last", "HasTime", "Lines")
	for name, wrap := range wrappings() {
		t.Run(name, func(t *testing.T) {
			for _, end := range []string{"\n", "\r\n"} {
				text := strings.ReplaceAll(wrap(report), "\n", end)
				if diff := cmp.Diff(want, Parse(Lines(text)), ignore); diff != "" {
					t.Errorf("as a text with %q (-unwrapped +wrapped):\n%s", end, diff)
				}
				if diff := cmp.Diff(want, collect(t, strings.NewReader(text)), ignore); diff != "" {
					t.Errorf("as a stream with %q (-unwrapped +wrapped):\n%s", end, diff)
				}
			}
		})
	}
}
