package doctor

import (
	"fmt"
	"strings"

	"github.com/napistall/napistall/internal/machine"
)

// An Issue is a known defect of threaded NAPI, by kernel version. A zero Release is unknown.
type Issue struct {
	ID, Title string
	// Since is the first release that has it, Fixed the first of each series that doesn't; those of later
	// series than the newest in Fixed don't have it either.
	Since  machine.Release
	Fixed  []machine.Release
	Ranges string // the versions in words, with what is not known of them
	Source string
	// concerns says which of the pollers it is about; nil for the loop's exit, which has findings of its own.
	concerns func(Poller) bool
}

// Issues returns the known issues. They are data: every version in it has its source, and what is not known
// says so.
func Issues() []Issue {
	return []Issue{
		loopIssue(),
		{ID: "d6dbbb11247c", Title: "A busy poll thread reports no quiescent state while it polls again and again: detaching BPF tracing waits for minutes (Tasks-RCU)",
			Since: machine.Release{5, 12, 0}, Fixed: []machine.Release{{6, 8, 2}, {6, 9, 0}},
			Ranges: "since 5.12; fixed in 6.9 and 6.8.2. Older stable series have the fix too, at numbers that are not recorded here",
			Source: "commit d6dbbb11247c, net: report RCU QS on threaded NAPI repolling (March 2024)",
			concerns: func(p Poller) bool {
				return p.On == yes
			}},
		{ID: "CVE-2026-43385", Title: "A thread in busy-poll mode resets the time of its last quiescent state on each pass: Tasks-RCU grace periods never end",
			Since: machine.Release{6, 19, 0}, Fixed: []machine.Release{{6, 19, 9}, {7, 0, 0}},
			Ranges: "since 6.19, with threaded busy poll (c18d4b190a46); fixed in 6.19.9 and, by its date, 7.0",
			Source: "commit 1a86a1f7d889, CVE-2026-43385",
			concerns: func(p Poller) bool {
				return p.Mode == "busy-poll"
			}},
		{ID: "CVE-2026-52945", Title: "wireguard in threaded mode can stop receiving from a peer, without any error",
			Ranges: "not recorded here; reported on Ubuntu's 6.8.0-117, and undone by a revert in the stable series",
			Source: "CVE-2026-52945; cilium/cilium#46687",
			concerns: func(p Poller) bool {
				return p.On == yes && p.Driver == "wireguard"
			}},
	}
}

// loopIssue is the one that this program is about.
func loopIssue() Issue {
	return Issue{ID: "loop-exit", Title: "The exit of the threaded poll loop is no point to yield under NONE and VOLUNTARY",
		Since:  machine.Release{5, 12, 0},
		Ranges: "since 5.12 (29863d41bb6e); in 6.12.117 and in 7.3.4, the newest that was read. Since 7.0 (7dadeaa6e851) only architectures without lazy preemption (32-bit arm, mips and others) still have NONE and VOLUNTARY",
		Source: "napi_threaded_poll_loop in net/core/dev.c; openwrt/openwrt#24732"}
}

// state says whether a release has the issue; "" that it doesn't.
func (i Issue) state(r machine.Release, known bool) State {
	switch {
	case !known || i.Since == machine.Release{}:
		return Possible
	case r.Less(i.Since):
		return ""
	case len(i.Fixed) == 0:
		return Affected
	}
	newest := i.Fixed[len(i.Fixed)-1]
	if !r.Less(newest) {
		return ""
	}
	for _, f := range i.Fixed {
		if r.Series(f) {
			if r.Less(f) {
				return Affected
			}
			return ""
		}
	}
	return Possible // a series of which nothing is recorded
}

// issueFindings matches the machine with the known issues.
func issueFindings(c Case, all []Poller) []Finding {
	release, known := machine.ParseRelease(c.Survey.Facts.Release)
	var found []Finding
	for _, i := range Issues() {
		if i.concerns == nil {
			continue
		}
		names := deviceNames(all, i.concerns)
		state := i.state(release, known)
		if len(names) == 0 || state == "" {
			continue
		}
		f := Finding{ID: i.ID, State: state, Title: i.Title, Source: i.Source, Evidence: []string{
			fmt.Sprintf("kernel %s; versions: %s", c.Survey.Facts.Release, i.Ranges),
			"it concerns " + list(names),
		}}
		if state == Affected && distribution(c.Survey.Facts.Release) {
			f.State = Possible
			f.Evidence = append(f.Evidence, "the release has a distributor's suffix: a fix may have been added under the same number")
		}
		f.Remedies = issueRemedies(i, names)
		found = append(found, f)
	}
	return found
}

// distribution reports whether a release has a suffix, as distributors' kernels do.
func distribution(release string) bool {
	return strings.ContainsAny(release, "-+~")
}
