package explain

import (
	"testing"
	"time"

	"github.com/napistall/napistall/internal/experiment"
	"github.com/napistall/napistall/internal/rcu"
)

// of makes s an arm of a proof: a kernel built from a tree under a model, at a place.
func (s scene) of(model rcu.Preemption, patched bool, place Place) scene {
	s.arm.Kernel, s.arm.Patch, s.arm.Preempt = "tree:/l", nil, model
	s.arm.Config = experiment.Config{}
	if !model.Preempts() {
		s.arm.Config.Preempt = model
	}
	s.arm.Name = string(model) + "-stock"
	if patched {
		s.arm.Name, s.arm.Patch = string(model)+"-patched", []string{"fix.patch"}
	}
	if place != InBand {
		s.arm.Name += "-" + string(place[:5])
	}
	s.facts.Preempt, s.facts.Dynamic = model, model.Preempts()
	return s
}

func stockOf(m rcu.Preemption) ArmSummary {
	return armOf(stock().of(m, false, InBand), stock().of(m, false, InBand), stock().of(m, false, InBand))
}

func patchedOf(m rcu.Preemption) ArmSummary { return armOf(healthy().of(m, true, InBand)) }

func changed(change func(*scene)) ArmSummary {
	s := healthy().of(rcu.None, true, InBand)
	change(&s)
	return armOf(s)
}

func TestProve(t *testing.T) {
	none, voluntary := rcu.None, rcu.Voluntary
	mainline := stock()
	mainline.arm.Name = "mainline"
	calm := stock().of(none, false, InBand)
	calm.kmsg, calm.deletes = nil, some(60, 100*time.Millisecond)
	slowStock := stock().of(none, false, InBand)
	slowStock.second = belowBand()
	fullStock, fullPatched := lazy().of(rcu.Full, false, InBand), lazy().of(rcu.Full, true, InBand)
	fullBroken := fullPatched
	fullBroken.kmsg = classicStall(7)
	badAbove := above().of(none, true, AboveBand)
	badAbove.kmsg = classicStall(9)
	slipped := above().of(none, false, AboveBand)
	slipped.second = inBand()
	busy := changed(func(s *scene) { s.deletes = append(some(70, 100*time.Millisecond), 1100*time.Millisecond) })
	busy.Trials[0].HostWait = time.Minute
	oddSoftirq := softirq().of(none, false, InSoftirq)
	oddSoftirq.kmsg = classicStall(9)
	for _, c := range []struct {
		name string
		arms []ArmSummary
		want ProofWord
		says string
	}{
		{"fixed", []ArmSummary{stockOf(none), patchedOf(none)}, ProvedFixed, "NONE: stock stalls in 3 of 3 trials (over 1 s 3 of 3 deletes, worst 30.1 s in holds of 30 s"},
		{"fixed under two", []ArmSummary{stockOf(none), patchedOf(none), stockOf(voluntary), patchedOf(voluntary)}, ProvedFixed, "VOLUNTARY: stock stalls"},
		{"with a preempting model", []ArmSummary{stockOf(none), patchedOf(none), armOf(fullStock), armOf(fullPatched)}, ProvedFixed, "FULL, where the kernel preempts the thread by itself: neither stalls"},
		{"with controls", []ArmSummary{stockOf(none), patchedOf(none), armOf(above().of(none, false, AboveBand)), armOf(softirq().of(none, true, InSoftirq))},
			ProvedFixed, "no stall in 2 arms: 2 of 101 deletes over 1 s, worst 2.30 s"},
		{"with mainline", []ArmSummary{stockOf(none), patchedOf(none), armOf(mainline)}, ProvedFixed, "as it is shipped (7.2.13 armhf, VOLUNTARY, in the band): stalls in 1 of 1 trial"},
		{"stalls on", []ArmSummary{stockOf(none), changed(func(s *scene) { s.kmsg, s.deletes = stock().kmsg, stock().deletes })}, NotFixed, "patched stalls in 1 of 1 trial"},
		{"one of two stalls on", []ArmSummary{stockOf(none), changed(func(s *scene) { s.kmsg, s.deletes = stock().kmsg, stock().deletes }), stockOf(voluntary), patchedOf(voluntary)}, NotFixed, "VOLUNTARY: stock stalls"},
		{"slow still", []ArmSummary{stockOf(none), changed(func(s *scene) { s.deletes = append(some(70, 100*time.Millisecond), 1100*time.Millisecond) })},
			NotFixed, "no stall any more, but 1 of 71 deletes took over 1 s"},
		{"slow on a busy host", []ArmSummary{stockOf(none), busy}, Unproved, "took over 1 s, which may be the host's doing: it kept the guest's CPUs waiting for 91 % of their time"},
		{"the patch makes a stall", []ArmSummary{stockOf(none), patchedOf(none), armOf(fullStock), armOf(fullBroken)}, NotFixed, "the patch makes a stall"},
		{"the patch makes a stall above the band", []ArmSummary{stockOf(none), patchedOf(none), armOf(above().of(none, false, AboveBand)), armOf(badAbove)}, NotFixed, "and the stock kernel doesn't: the patch makes a stall"},
		{"a control in the band", []ArmSummary{stockOf(none), patchedOf(none), armOf(slipped)}, ProvedFixed, "none-stock-above was meant to be above the band and was not (in the band)"},
		{"something else stalls", []ArmSummary{stockOf(none), patchedOf(none), armOf(oddSoftirq)}, Unproved, "which the exit of the loop doesn't explain"},
		{"nothing to fix", []ArmSummary{armOf(calm), patchedOf(none)}, NothingToFix, "there is nothing to fix"},
		{"too few deletes", []ArmSummary{stockOf(none), changed(func(s *scene) { s.deletes = s.deletes[:59] })}, Unproved, "59 deletes of the patched kernel are too few: 60 are needed"},
		{"one stock trial", []ArmSummary{armOf(stock().of(none, false, InBand)), patchedOf(none)}, Unproved, "the difference isn't shown: not enough trials"},
		{"stock out of the band", []ArmSummary{armOf(slowStock), patchedOf(none)}, Unproved, "the stock kernel says nothing: its load was below the band"},
		{"patched out of the band", []ArmSummary{stockOf(none), changed(func(s *scene) { s.second = belowBand() })}, Unproved, "the patched kernel was not in the band in every trial"},
		{"patched fell silent", []ArmSummary{stockOf(none), changed(func(s *scene) { s.outcome = experiment.Silent })}, Unproved, "1 of 1 trial went silent"},
		{"patched did not run", []ArmSummary{stockOf(none), Summarize(healthy().of(none, true, InBand).arm, nil)}, Unproved, "no trial of the patched kernel gave data"},
		{"stock did not run", []ArmSummary{Summarize(stock().of(none, false, InBand).arm, nil), patchedOf(none)}, Unproved, "no trial of the stock kernel gave data"},
		{"no model to stall under", []ArmSummary{armOf(fullStock), armOf(fullPatched)}, Unproved, "No model under which the stall is expected was put to the test"},
		{"no arms", nil, Unproved, "No model under which"},
	} {
		p := Prove(c.arms)
		if p.Word != c.want {
			t.Errorf("%s: %s; want %s\n%q", c.name, p.Word, c.want, p.Sentences)
		}
		contains(t, p.Sentences, c.says)
	}
}

func TestGate(t *testing.T) {
	off, few, slow, outside := healthy(), healthy(), healthy(), stock()
	off.second = belowBand()
	few.deletes = few.deletes[:3]
	slow.deletes = append(slow.deletes, 1200*time.Millisecond)
	outside.second = belowBand()
	for _, c := range []struct {
		name string
		arms []ArmSummary
		want GateWord
		says string
	}{
		{"stalls", []ArmSummary{armOf(stock())}, Bad, "7.2.13 armhf, VOLUNTARY, in the band: stalls in 1 of 1 trial"},
		{"doesn't", []ArmSummary{armOf(healthy())}, Good, "doesn't stall in 1 trial (over 1 s 0 of 60 deletes"},
		{"not in the band", []ArmSummary{armOf(off)}, Undecided, "its load was not in the band"},
		{"stalls outside the band", []ArmSummary{armOf(outside)}, Undecided, "but not in the band"},
		{"too few", []ArmSummary{armOf(few)}, Undecided, "3 deletes in the hold, 6 are needed"},
		{"slow", []ArmSummary{armOf(slow)}, Undecided, "no stall, but 1 of 61 deletes took over 1 s"},
		{"no trial", []ArmSummary{Summarize(stock().arm, nil)}, Undecided, "no trial gave data"},
		{"no arm", nil, Undecided, "no trial gave data"},
	} {
		word, why := Gate(c.arms)
		if word != c.want {
			t.Errorf("%s: %s (%s); want %s", c.name, word, why, c.want)
		}
		contains(t, []string{why}, c.says)
	}
}
