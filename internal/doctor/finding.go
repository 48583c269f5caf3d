package doctor

import (
	"fmt"
	"strings"
	"time"

	"github.com/napistall/napistall/internal/explain"
	"github.com/napistall/napistall/internal/machine"
)

// heldFor is from when on a thread that was never switched out counts as one that holds its CPU.
const heldFor = 350 * time.Millisecond

// happening finds a poll thread that holds its CPU while somebody waits for it.
func happening(c Case, m model, all []Poller) []Finding {
	gp, gpWords := latest(c.Watch.GracePeriods, machine.LateGP, nil)
	var found []Finding
	for _, p := range all {
		w := p.Watched
		if w == nil || w.Longest < heldFor {
			continue
		}
		_, turnWords := latest(c.Watch.Turns, machine.LateTurn, &w.CPU)
		if gpWords == "" && turnWords == "" {
			continue
		}
		f := Finding{ID: "cpu-held", State: Now, Title: fmt.Sprintf("%s holds CPU %d and lets nobody else run there", w.Name, w.CPU)}
		if m.preempts == yes {
			f.State = Note
			f.Title = fmt.Sprintf("%s held CPU %d although the kernel (%s) preempts it: not by the loop's exit", w.Name, w.CPU, m.name)
		}
		f.Evidence = append(f.Evidence, heldWords(c.Watch, *w))
		if turnWords != "" {
			f.Evidence = append(f.Evidence, fmt.Sprintf("an ordinary thread that wanted to run on CPU %d %s", w.CPU, turnWords))
		}
		if gpWords != "" {
			f.Evidence = append(f.Evidence, "a grace period "+gpWords+" (membarrier)")
		}
		f.Evidence = append(f.Evidence, pollWords(c.Watch, p.Device)...)
		if f.State == Now {
			f.Remedies = nowRemedies(c.Survey.Facts, m)
		}
		found = append(found, f)
	}
	if len(found) == 0 && gpWords != "" {
		found = append(found, Finding{ID: "slow-grace-period", State: Note,
			Title:    fmt.Sprintf("A grace period took %s, and no poll thread that can be seen held a CPU", seconds(gp.Took)),
			Evidence: []string{"a grace period " + gpWords + " (membarrier)"}})
	}
	return found
}

// latest returns the longest wait for cpu, if it was limit or more, and says so.
func latest(waits []machine.Wait, limit time.Duration, cpu *int) (longest machine.Wait, words string) {
	for _, w := range waits {
		if w.Took >= max(limit, longest.Took) && (cpu == nil || w.CPU != nil && *w.CPU == *cpu) {
			longest = w
		}
	}
	switch {
	case longest.Took < limit:
		return longest, ""
	case longest.Censored:
		return longest, fmt.Sprintf("still waited after %s", seconds(longest.Took))
	}
	return longest, fmt.Sprintf("waited for %s", seconds(longest.Took))
}

func heldWords(watch machine.Watch, w machine.Watched) string {
	return fmt.Sprintf("%s (PID %d) was never seen off CPU %d for %s, looked at each %d ms: %d sleeps, %d nonvoluntary switches in %s, busy %.0f %%",
		w.Name, w.PID, w.CPU, seconds(w.Longest), watch.Step.Milliseconds(), w.Voluntary, w.Nonvoluntary, seconds(w.Took), 100*w.Busy())
}

// pollWords says what the polls of a device were, where they were counted.
func pollWords(watch machine.Watch, device string) []string {
	for _, p := range watch.Polls {
		if p.Device != device || p.Took <= 0 || p.Polls == 0 {
			continue
		}
		per := float64(p.Packets) / float64(max(1, p.Entries()))
		return []string{fmt.Sprintf("%s: %.0f entries/s, %.1f packets per entry, %.1f %% of %d polls used the whole budget (napi:napi_poll)",
			device, float64(p.Entries())/p.Took.Seconds(), per, 100*float64(p.Full)/float64(p.Polls), p.Polls)}
	}
	return nil
}

// setBands says of each poller that was watched, and whose device's polls were counted, where its load sits.
func setBands(c Case, all []Poller) {
	for _, polls := range c.Watch.Polls {
		var sleeps, nonvoluntary float64
		for _, p := range all {
			if p.Device == polls.Device && p.Watched != nil && p.Watched.Took > 0 {
				sleeps += float64(p.Watched.Voluntary) / p.Watched.Took.Seconds()
				nonvoluntary += float64(p.Watched.Nonvoluntary) / p.Watched.Took.Seconds()
			}
		}
		for i := range all {
			if p := &all[i]; p.Device == polls.Device && p.Watched != nil {
				p.Band = band(polls, sleeps, nonvoluntary)
			}
		}
	}
}

// band judges rates as explain.JudgeBand does a second of a trial: a full-budget poll for each nonvoluntary switch
// is what a preempted thread finds when it is back.
func band(p machine.Polls, sleeps, nonvoluntary float64) explain.Band {
	if p.Took <= 0 {
		return explain.UnknownBand
	}
	full := float64(p.Full) / p.Took.Seconds()
	if full <= nonvoluntary {
		full = 0
	}
	switch {
	case full > 0 && full >= sleeps:
		return explain.Above
	case sleeps >= 1, float64(p.Polls) < explain.MinEntries*p.Took.Seconds():
		return explain.Below
	}
	return explain.In
}

// loopFindings is about the exit of the poll loop itself.
func loopFindings(c Case, m model, all []Poller) []Finding {
	f := Finding{ID: "loop-exit", Source: loopIssue().Source}
	var devices, backlog []Poller
	for _, p := range all {
		switch {
		case p.On == no || m.preempts == yes:
		case p.Thread != nil && p.Thread.Backlog():
			backlog = append(backlog, p)
		case p.On == yes:
			devices = append(devices, p)
		}
	}
	var found []Finding
	state := Affected
	if m.preempts == unknown {
		state = Possible
	}
	if len(devices) > 0 {
		f.State, f.Title = state, fmt.Sprintf("%s in a thread that nothing preempts", polls(devices))
		if state == Possible {
			f.Title = fmt.Sprintf("%s in a thread, and the preemption model is not known", polls(devices))
		}
		f.Evidence = append([]string{"the kernel is " + m.says()}, deviceWords(devices)...)
		if state == Possible {
			f.Evidence[0] = "the kernel is " + m.name
		}
		f.Remedies = loopRemedies(c.Survey.Facts, m, devices)
		found = append(found, f)
	}
	if len(backlog) > 0 {
		found = append(found, Finding{ID: "backlog-threads", State: state, Source: loopIssue().Source,
			Title:    fmt.Sprintf("%d backlog threads run the same loop", len(backlog)),
			Evidence: []string{"the kernel is " + m.name, "threads backlog_napi/N exist (thread_backlog_napi); remote packets (RPS) are polled there"},
			Remedies: append([]Remedy{backlogRemedy()}, modelRemedies(c.Survey.Facts, m)...)})
	}
	return found
}

// maxEvidence bounds the lines about devices: a host of containers has hundreds.
const maxEvidence = 12

func deviceWords(devices []Poller) []string {
	var lines []string
	for i, p := range devices {
		if i == maxEvidence {
			return append(lines, fmt.Sprintf("and %d more", len(devices)-i))
		}
		words := p.Device
		if p.ID != 0 {
			words += fmt.Sprintf(" NAPI %d", p.ID)
		}
		words += ": " + p.Why
		switch {
		case p.Moderated != "":
			words += "; " + p.Moderated + " keeps its interrupts rare: it is seldom entered often enough"
		case p.Known != nil && p.Known.Coalescing != nil && p.Known.Coalescing.RxUsecs != nil:
			words += fmt.Sprintf("; rx-usecs %d, no moderation to speak of", *p.Known.Coalescing.RxUsecs)
		case p.Known != nil && p.Known.NoCoalescing != "":
			words += "; no interrupt moderation: " + p.Known.NoCoalescing
		}
		lines = append(lines, words)
	}
	return append(lines, habitWords(devices)...)
}

func habitWords(devices []Poller) []string {
	var lines []string
	seen := map[string]bool{}
	for _, p := range devices {
		if p.Habit != nil && !seen[p.Habit.Driver] {
			seen[p.Habit.Driver] = true
			lines = append(lines, fmt.Sprintf("%s (%s)", p.Habit.Says, p.Habit.Source))
		}
	}
	return lines
}

// notes are what is worth knowing and changes no verdict.
func notes(c Case, m model, all []Poller) []Finding {
	var found []Finding
	note := func(id, title string, evidence ...string) {
		found = append(found, Finding{ID: id, State: Note, Title: title, Evidence: evidence})
	}
	if c.Survey.Cut != "" {
		note("rtnl", "Somebody holds RTNL: ip and everything else that changes or lists devices waits for it",
			c.Survey.Cut+" had not answered within a second; the question was given up, in a process of its own")
	}
	for _, p := range all {
		if p.Watched != nil && p.Watched.Longest >= heldFor && len(found) < maxEvidence && !isHeld(c, p) {
			note("busy-thread", fmt.Sprintf("%s is busy and lets others run: above the band, or alone on CPU %d", p.Watched.Name, p.Watched.CPU),
				append([]string{heldWords(c.Watch, *p.Watched)}, pollWords(c.Watch, p.Device)...)...)
		}
		if t := p.Thread; t != nil && (t.Policy == "fifo" || t.Policy == "rr") {
			note("realtime-thread", fmt.Sprintf("%s runs as SCHED_%s %d: ordinary threads of its CPU wait while it runs, under every preemption model",
				t.Name, strings.ToUpper(t.Policy), t.RTPrio))
		}
	}
	if c.Survey.Params["sys/module/rcupdate/parameters/rcu_cpu_stall_suppress"] == "1" {
		note("stalls-suppressed", "The kernel reports no RCU stalls: rcu_cpu_stall_suppress is 1")
	} else if t := c.Survey.Facts.StallSec; t > 0 && m.preempts != yes && count(all, yes) > 0 {
		note("silent-waits", fmt.Sprintf("Waits shorter than %d s leave no line in the kernel log (rcu_cpu_stall_timeout)", t))
	}
	for _, s := range c.Survey.Softnet {
		if s.Backlog > 0 {
			note("backlog", fmt.Sprintf("CPU %d has %d packets in its backlog: a deletion of any device waits for its kworker (flush_all_backlogs)", s.CPU, s.Backlog))
		}
	}
	return found
}

func isHeld(c Case, p Poller) bool {
	_, gp := latest(c.Watch.GracePeriods, machine.LateGP, nil)
	_, turn := latest(c.Watch.Turns, machine.LateTurn, &p.Watched.CPU)
	return gp != "" || turn != ""
}

// unseen lists what was not read, and what root would add.
func unseen(c Case) []string {
	var lines []string
	v := c.Survey
	if v.Copies {
		lines = append(lines, "read from copies of a machine's files: nothing was watched")
	} else if !v.Root {
		lines = append(lines, "read without root: the model in debugfs (sched/preempt), the kernel log where dmesg_restrict is 1, and counts of polls are not to be had")
	}
	if v.Hidden {
		lines = append(lines, "kernel threads can't be seen from here (a container with processes of its own): run it on the host")
	}
	if v.Netlink != "" {
		lines = append(lines, "no NAPI instances over netlink ("+v.Netlink+"): sysfs and the names of threads stand in")
	}
	if len(v.Facts.Unknown) > 0 {
		lines = append(lines, "unknown: "+strings.Join(v.Facts.Unknown, ", "))
	}
	lines = append(lines, "devices of other network namespaces show by their threads only")
	return lines
}

// seconds writes a time as people read it: 0.35 s, 12 s.
func seconds(d time.Duration) string {
	switch {
	case d < 100*time.Millisecond:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	case d < 10*time.Second:
		return fmt.Sprintf("%.2f s", d.Seconds())
	}
	return fmt.Sprintf("%.0f s", d.Seconds())
}
