// Package doctor judges whether a machine is exposed to the stalls of threaded NAPI, from what package
// machine found there: a verdict, and findings with their evidence, remedies and prices.
package doctor

import (
	"fmt"
	"slices"
	"strings"

	"github.com/napistall/napistall/internal/machine"
)

// A Case is what there is to judge.
type Case struct {
	Survey machine.Survey
	Watch  machine.Watch
	Log    Log
}

// A Verdict is the answer.
type Verdict string

// The verdicts. Exposed: the kernel does not preempt the poll loop, and something polls in a thread.
const (
	Happening  Verdict = "exposed and happening now"
	Exposed    Verdict = "exposed"
	NotExposed Verdict = "not exposed"
	CannotTell Verdict = "cannot tell"
)

// A Confidence says how sure a verdict is.
type Confidence string

// The confidences. High: what decides was read from the kernel itself, and nothing contradicts it.
const (
	High   Confidence = "high"
	Medium Confidence = "medium"
	Low    Confidence = "low"
)

// A State is what a finding is.
type State string

// The states of findings, the worst first.
const (
	Now      State = "happening" // seen while the machine was watched
	Affected State = "affected"
	Possible State = "possible" // what would decide is not known
	Note     State = "note"     // worth knowing; changes nothing
)

// A Finding is one thing that was found, with what it rests on.
type Finding struct {
	ID       string // of an Issue, or a word of ours
	State    State
	Title    string
	Evidence []string
	Remedies []Remedy
	Source   string // where it is described; "" where it is our own observation
}

// A Report is the whole judgement.
type Report struct {
	Verdict    Verdict
	Confidence Confidence
	Summary    string   // one or two sentences
	Doubts     []string // why the confidence isn't higher, and what would decide
	Findings   []Finding
	Pollers    []Poller
	Unseen     []string // what was not read and why; what root would add
}

// Found reports whether the report should make a script stop: the machine is exposed.
func (r Report) Found() bool { return r.Verdict == Exposed || r.Verdict == Happening }

// Judge returns the report on a case. The same case gives the same report.
func Judge(c Case) Report {
	r := Report{Pollers: pollers(c), Unseen: unseen(c)}
	m := judgeModel(c.Survey.Facts)
	r.Findings = slices.Concat(
		happening(c, m, r.Pollers),
		loopFindings(c, m, r.Pollers),
		issueFindings(c, r.Pollers),
		logFindings(c.Log),
		notes(c, m, r.Pollers),
	)
	slices.SortStableFunc(r.Findings, func(a, b Finding) int { return rank(a.State) - rank(b.State) })
	r.decide(c, m)
	return r
}

func rank(s State) int { return slices.Index([]State{Now, Affected, Possible, Note}, s) }

// decide derives the verdict from the model, the pollers and the findings.
func (r *Report) decide(c Case, m model) {
	on, unclear := count(r.Pollers, yes), count(r.Pollers, unknown)
	worst := Note
	if len(r.Findings) > 0 {
		worst = r.Findings[0].State
	}
	switch {
	case c.Survey.Facts.Release == "":
		r.Verdict, r.Confidence = CannotTell, Low
		r.Summary = "The machine's own description could not be read."
	case worst == Now:
		r.Verdict, r.Confidence = Happening, High
		r.Summary = firstOf(r.Findings, Now) + "."
	case worst == Affected:
		r.Verdict, r.Confidence = Exposed, m.confidence()
		r.Summary = firstOf(r.Findings, Affected) + ". " + quiet(c)
		if r.allModerated() {
			r.Confidence = Medium
			r.Doubts = append(r.Doubts, "interrupt moderation keeps the loop from being entered often enough on every device that polls in a thread")
		}
	case m.preempts == unknown && on+unclear > 0:
		r.Verdict, r.Confidence = CannotTell, Low
		r.Summary = fmt.Sprintf("%s in a thread, and whether the kernel preempts the poll loop is not known.", polls(r.Pollers))
		r.Doubts = append(r.Doubts, "the preemption model: "+m.lacking)
	case m.preempts == no && unclear > 0:
		r.Verdict, r.Confidence = CannotTell, Low
		r.Summary = fmt.Sprintf("%s would not be preempted, and whether %s is on could not be read.", loop(m), theirThread(r.Pollers))
		r.Doubts = append(r.Doubts, "its device is in another network namespace, or listed nowhere: run doctor there (ip netns exec NAME, nsenter -t PID -n)")
	case m.preempts == no && blind(c):
		r.Verdict, r.Confidence = CannotTell, Low
		r.Summary = fmt.Sprintf("%s would not be preempted, and not every poll thread can be seen from here.", loop(m))
	default:
		r.notExposed(c, m, on+unclear)
	}
	r.Doubts = append(r.Doubts, m.doubts...)
	if len(m.doubts) > 0 && r.Confidence == High && r.Verdict != Happening {
		r.Confidence = Medium
	}
}

func (r *Report) notExposed(c Case, m model, threads int) {
	r.Verdict, r.Confidence = NotExposed, High
	switch {
	case m.preempts == yes && threads > 0:
		r.Summary = fmt.Sprintf("%s in a thread, and the kernel (%s) preempts it there.", polls(r.Pollers), m.name)
		r.Confidence = m.confidence()
	case m.preempts == yes:
		r.Summary = fmt.Sprintf("The kernel (%s) preempts the poll loop, and nothing that can be seen polls in a thread.", m.name)
		r.Confidence = m.confidence()
	default:
		r.Summary = "Nothing polls in a thread: every NAPI runs as a softirq."
		if m.preempts == no {
			r.Summary += fmt.Sprintf(" With threaded=1 on a device it would be exposed: the kernel (%s) does not preempt the poll loop.", m.name)
		}
		if c.Survey.Netlink != "" || c.Survey.Cut != "" {
			r.Confidence = Medium
			r.Doubts = append(r.Doubts, "that rests on sysfs and the list of kernel threads alone")
		}
	}
	if firstOf(r.Findings, Possible) != "" {
		r.Summary += " Another issue is possible; see below."
	}
}

// blind reports whether a poll thread may exist that nothing here would show.
func blind(c Case) bool {
	unseenDevices := len(c.Survey.Devices) == 0
	return c.Survey.Hidden || unseenDevices && len(c.Survey.Threads) == 0
}

func (r *Report) allModerated() bool {
	on := 0
	for _, p := range r.Pollers {
		if p.On == yes {
			on++
			if p.Moderated == "" {
				return false
			}
		}
	}
	return on > 0
}

func firstOf(findings []Finding, s State) string {
	for _, f := range findings {
		if f.State == s {
			return f.Title
		}
	}
	return ""
}

func quiet(c Case) string {
	if len(c.Watch.Threads) == 0 {
		return "Whether it happens now was not watched."
	}
	return fmt.Sprintf("In the %s that were watched it did not happen.", seconds(c.Watch.Took))
}

func loop(m model) string { return "A poll thread (the kernel is " + m.name + ")" }

// polls says who polls in a thread: "eth0 and wg0 poll".
func polls(all []Poller) string {
	names := deviceNames(all, func(p Poller) bool { return p.On != no })
	if len(names) == 1 {
		return names[0] + " polls"
	}
	return list(names) + " poll"
}

func theirThread(all []Poller) string {
	return "threaded mode of " + list(deviceNames(all, func(p Poller) bool { return p.On == unknown }))
}

func deviceNames(all []Poller, keep func(Poller) bool) []string {
	var names []string
	for _, p := range all {
		if keep(p) && !slices.Contains(names, p.Device) {
			names = append(names, p.Device)
		}
	}
	return names
}

// maxListed is how many names a sentence takes.
const maxListed = 4

func list(names []string) string {
	switch n := len(names); {
	case n == 0:
		return "nothing"
	case n == 1:
		return names[0]
	case n > maxListed:
		return fmt.Sprintf("%s and %d more", strings.Join(names[:maxListed], ", "), n-maxListed)
	default:
		return strings.Join(names[:n-1], ", ") + " and " + names[n-1]
	}
}
