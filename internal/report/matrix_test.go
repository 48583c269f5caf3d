package report

import (
	"io"
	"strings"
	"testing"
	"time"

	"github.com/napistall/napistall/internal/experiment"
	"github.com/napistall/napistall/internal/explain"
	"github.com/napistall/napistall/internal/rcu"
)

// of makes s an arm of a proof.
func (s scene) of(name string, model rcu.Preemption, patched bool) scene {
	s.arm.Name, s.arm.Kernel, s.arm.Preempt, s.arm.Patch = name, "tree:/home/me/linux", model, nil
	s.arm.Config = experiment.Config{}
	if !model.Preempts() {
		s.arm.Config.Preempt = model
	}
	if patched {
		s.arm.Patch = []string{"/home/me/fix.patch"}
	}
	s.facts.Release, s.facts.Arch, s.facts.Preempt, s.facts.Dynamic = "6.12.117", "x86_64", model, model.Preempts()
	return s
}

// proofs are runs of prove with all that a cell can have: three trials, a control that slipped, a soft lockup, an arm that
// did not run, a kernel as it is shipped.
func proofs() map[string]Run {
	trials := func(s scene) []scene {
		all := []scene{s, s, s}
		for i := range all {
			all[i].rep = i + 1
		}
		return all
	}
	above := aboveBand().of("none-stock-above", rcu.None, false)
	mainline := stock()
	mainline.arm.Name = "mainline"
	fixed := append(trials(stock().of("none-stock", rcu.None, false)), patched().of("none-patched", rcu.None, true), above,
		softirq().of("none-patched-softirq", rcu.None, true), lazy().of("full-stock", rcu.Full, false), lazy().of("full-patched", rcu.Full, true), mainline)
	slipped := above
	slipped.second = stock().second
	slipped.arm.Name = "none-patched-above"
	slipped.arm.Patch = []string{"/home/me/fix.patch"}
	still := stock().of("none-patched", rcu.None, true)
	still.kmsg = append(still.kmsg, "watchdog: BUG: soft lockup - CPU#1 stuck for 26s! [napi/vb-8193:71]")
	runs := map[string]Run{
		"proof-fixed": run("prove", "Does fix.patch end the stalls of threaded NAPI in tree:/home/me/linux?", fixed...),
		"proof-not":   run("prove", "Does fix.patch end the stalls?", append(trials(stock().of("none-stock", rcu.None, false)), still, slipped)...),
	}
	open := run("prove", "Does fix.patch end the stalls?", stock().of("none-stock", rcu.None, false))
	missing := patched().of("none-patched", rcu.None, true).arm
	open.Experiment.Arms = append(open.Experiment.Arms, missing)
	open.Arms = append(open.Arms, explain.Summarize(missing, nil))
	open.NotRun = []NotRun{{Arm: "none-patched", Why: "it doesn't boot"}}
	runs["proof-open"] = expect(open, experiment.Expectation{Text: "none-patched.worst < 1.5s", Arm: "none-patched", Quantity: "worst", Op: "<", Duration: 1500 * time.Millisecond})
	return runs
}

func TestMatrix(t *testing.T) {
	for name, r := range proofs() {
		r.Repeat = []string{"napistall prove --tree /home/me/linux --patch fix.patch"}
		for _, f := range []format{
			{"txt", func(w io.Writer, r Run) error { return Matrix(w, r, Options{}) }},
			{"80.txt", func(w io.Writer, r Run) error { return Matrix(w, r, Options{Width: 80, Long: true}) }},
			{"mail", MatrixMail},
		} {
			got := written(t, f.write, r)
			golden(t, name+"."+f.name, got)
		}
	}
}

// A mail's table stands in one block, and its lines can be quoted.
func TestMatrixMailNarrow(t *testing.T) {
	mail := written(t, MatrixMail, proofs()["proof-fixed"])
	if n := strings.Count(mail, "\n  model "); n != 1 {
		t.Errorf("the table is in %d blocks:\n%s", n, mail)
	}
	for line := range strings.Lines(mail) {
		if len(strings.TrimRight(line, "\n")) > mailWidth && !strings.Contains(line, "rcu: ") {
			t.Errorf("%d characters: %s", len(line)-1, line)
		}
	}
	for _, r := range mail {
		if r > 0x7e {
			t.Errorf("%q is not ASCII", r)
		}
	}
}

// What a kernel says of itself is no more than text in a matrix.
func TestMatrixHostile(t *testing.T) {
	for _, write := range []func(io.Writer, Run) error{MatrixMail, func(w io.Writer, r Run) error { return Matrix(w, r, Options{}) }} {
		if got := written(t, write, hostile()); strings.ContainsAny(got, "\x1b\x07\u202e\u2028\r") {
			t.Errorf("%q", got)
		}
	}
}
