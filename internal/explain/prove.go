package explain

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/napistall/napistall/internal/experiment"
	"github.com/napistall/napistall/internal/rcu"
)

// A ProofWord is in short what became of a patch that was to be proved.
type ProofWord string

// The words. A patch is ProvedFixed only if every model of the claim shows it; NothingToFix means that the
// unpatched source didn't stall although it was put to the test.
const (
	ProvedFixed  ProofWord = "proved fixed"
	NotFixed     ProofWord = "not fixed"
	NothingToFix ProofWord = "not reproduced"
	Unproved     ProofWord = "inconclusive"
)

// A Proof is what arms of stock and patched kernels show of the patch.
type Proof struct {
	Word        ProofWord
	Sentences   []string // what it rests on, without the word
	NotMeasured []string // what a reader might take it for and it is not
}

// A Place is where an arm's load is meant to be.
type Place string

// The places of a proof.
const (
	InBand    Place = "in band"
	AboveBand Place = "above the band"
	InSoftirq Place = "softirq"
)

// Places lists them in the order of a matrix.
func Places() []Place { return []Place{InBand, AboveBand, InSoftirq} }

// PlaceOf returns where arm's load is meant to be: a bounce of more than XDP flushes at once is above the band.
func PlaceOf(arm experiment.Arm) Place {
	switch {
	case !arm.Threaded:
		return InSoftirq
	case arm.Load.Inflight > bulk:
		return AboveBand
	}
	return InBand
}

// A ProofRow is one kernel of a matrix, stock or patched, with its arms by place.
type ProofRow struct {
	Kernel  string // the arms' spec
	Model   rcu.Preemption
	Patched bool
	Built   bool // from source, or the simulator's: what a patch can be held against
	Arms    map[Place]ArmSummary
}

// ProofRows sorts arms into rows, in the arms' order; a second arm for one place is left out.
func ProofRows(arms []ArmSummary) []ProofRow {
	var rows []ProofRow
	for _, a := range arms {
		r := ProofRow{Kernel: a.Arm.Kernel, Model: wishedModel(a), Patched: len(a.Arm.Patch) > 0 || a.Arm.Loop != experiment.Stock,
			Built: isSource(a.Arm.Kernel)}
		i := slices.IndexFunc(rows, func(x ProofRow) bool { return x.Kernel == r.Kernel && x.Model == r.Model && x.Patched == r.Patched })
		if i < 0 {
			r.Arms = map[Place]ArmSummary{}
			rows = append(rows, r)
			i = len(rows) - 1
		}
		if _, taken := rows[i].Arms[PlaceOf(a.Arm)]; !taken {
			rows[i].Arms[PlaceOf(a.Arm)] = a
		}
	}
	return rows
}

func wishedModel(a ArmSummary) rcu.Preemption {
	for _, m := range []rcu.Preemption{a.Arm.Config.Preempt, a.Arm.Preempt} {
		if m != "" {
			return m
		}
	}
	return a.Facts.Preempt
}

func isSource(kernel string) bool {
	return strings.HasPrefix(kernel, "tree:") || strings.HasPrefix(kernel, "debian-source:") || experiment.IsModel(kernel)
}

// Prove says what arms show of their patch. A model that doesn't preempt, of which there is a stock and a patched arm
// in the band, is part of the claim:
//
//   - it is fixed when the stock arm stalls in the band, the patched one is in the band with at least
//     experiment.ProveDeletes deletes of which none took a second and the worst less than experiment.ProveWorst, no
//     report by the kernel, and the share over a second is lower by Fisher's test at Alpha;
//   - it is not fixed when the patched arm stalls or has a slower delete, unless the host was too busy to tell whose
//     doing that is;
//   - it is not reproduced when the stock arm was put to the test (see Judge) and did not stall;
//   - whatever else is open, and said.
//
// The whole is ProvedFixed when all of the claim is fixed and nothing else stalls, NotFixed when a patched arm stalls anywhere that the
// stock one doesn't, too.
func Prove(arms []ArmSummary) Proof {
	j := prover{rows: ProofRows(arms)}
	for _, r := range j.rows {
		j.row(r)
	}
	j.controls()
	j.mainline()
	// Of arms that differ in more than one thing none is held against the other here: stock and patched differ in the patch.
	apart := func([]ArmSummary) []string { return nil }
	p := Proof{Word: j.word(), Sentences: j.sentences, NotMeasured: notMeasured(arms, apart)}
	if len(j.claims) == 0 {
		p.Sentences = append([]string{"No model under which the stall is expected was put to the test: that takes a kernel under NONE or VOLUNTARY, stock and patched."}, p.Sentences...)
	}
	if simulated(arms) {
		p.Sentences = append([]string{"This is the simulator's word, no kernel's: a variant of its loop stands for the patch."}, p.Sentences...)
	}
	return p
}

// A claim is what became of one model of the claim.
type claim int

const (
	open claim = iota
	fixed
	broken
	absent
)

type prover struct {
	rows      []ProofRow
	claims    []claim
	worse     bool // a patched arm stalls outside the claim, where the stock one doesn't
	other     bool // something stalls that the loop doesn't explain
	sentences []string
}

func (j *prover) say(format string, args ...any) {
	j.sentences = append(j.sentences, fmt.Sprintf(format, args...))
}

func (j *prover) word() ProofWord {
	has := func(c claim) bool { return slices.Contains(j.claims, c) }
	switch {
	case has(broken) || j.worse:
		return NotFixed
	case len(j.claims) == 0 || has(open) || j.other:
		return Unproved
	case has(fixed) && has(absent):
		return Unproved
	case has(absent):
		return NothingToFix
	}
	return ProvedFixed
}

// partner is the patched row of a stock one.
func (j *prover) partner(stock ProofRow) (ProofRow, bool) {
	for _, r := range j.rows {
		if r.Patched && !stock.Patched && r.Model == stock.Model && r.Kernel == stock.Kernel {
			return r, true
		}
	}
	return ProofRow{}, false
}

// row judges a stock row with its patched one, in the band.
func (j *prover) row(stock ProofRow) {
	patched, ok := j.partner(stock)
	if !ok {
		return
	}
	s, hasS := stock.Arms[InBand]
	p, hasP := patched.Arms[InBand]
	if !hasS || !hasP {
		return
	}
	if stock.Model.Preempts() {
		j.preempting(stock.Model, s, p)
		return
	}
	c, why := judgeClaim(s, p)
	j.claims = append(j.claims, c)
	j.say("%s: %s", strings.ToUpper(string(stock.Model)), why)
}

// judgeClaim says what becomes of a stock and a patched arm in the band, and in words.
func judgeClaim(s, p ArmSummary) (claim, string) {
	words := "stock " + s.proofWords() + "; patched " + p.proofWords()
	stockStalls := s.Stalled > 0 && s.inBandAtAll()
	switch {
	case len(s.Trials) == 0:
		return open, "open: no trial of the stock kernel gave data."
	case len(p.Trials) == 0:
		return open, "open: no trial of the patched kernel gave data; stock " + s.proofWords() + "."
	case p.Stalled > 0 || p.RCUStalls() > 0:
		return broken, words + "."
	case p.cutWords() != "":
		return open, words + fmt.Sprintf("; open, for the patched kernel says nothing: %s.", p.cutWords())
	case stockStalls && p.slowWords() != "" && p.hostTook() > hostShare:
		return open, words + fmt.Sprintf("; open: no stall any more, but %s, which may be the host's doing: it kept the guest's CPUs waiting for %s of their time.",
			p.slowWords(), FormatShare(p.hostTook()))
	case stockStalls && p.slowWords() != "":
		return broken, words + ": no stall any more, but " + p.slowWords() + "."
	case !stockStalls && s.Stalled == 0 && s.Band == In && s.tooLittle() == "":
		return absent, words + ": the unpatched source doesn't stall here, so that there is nothing to fix."
	case !stockStalls:
		why := s.tooLittle()
		if why == "" || s.Stalled > 0 {
			why = "its load was " + s.bandWords() + " (" + s.bandEvidence() + ")"
		}
		return open, words + "; open, for the stock kernel says nothing: " + why + "."
	case p.Band != In:
		return open, words + fmt.Sprintf("; open, for the patched kernel was not in the band in every trial: %s.", p.bandEvidence())
	case len(p.Hold.Values) < experiment.ProveDeletes:
		return open, words + fmt.Sprintf("; open, for %d deletes of the patched kernel are too few: %d are needed.", len(p.Hold.Values), experiment.ProveDeletes)
	}
	t := Compare(p, s).Over
	if !t.Significant() || t.Sign >= 0 {
		return open, words + "; open, for the difference isn't shown: " + t.String() + "."
	}
	return fixed, words + "; over 1 s, " + t.String() + " by Fisher's exact test, which takes deletes for independent" + "."
}

// slowWords says what of a patched arm is slower than a fix leaves it, or "".
func (a ArmSummary) slowWords() string {
	worst, _, _ := a.Hold.Worst()
	switch {
	case a.Hold.Over.K > 0:
		return a.overWords() + " took over 1 s"
	case worst >= experiment.ProveWorst:
		return "a " + a.noun() + " took " + FormatDuration(worst)
	}
	return ""
}

// hostTook is the share of their time that the guests' CPUs waited for the host's.
func (a ArmSummary) hostTook() float64 {
	var waited, ran time.Duration
	for _, t := range a.Trials {
		waited += t.HostWait
		ran += time.Duration(max(1, t.Facts.CPUs)) * a.Arm.Duration
	}
	if ran <= 0 {
		return 0
	}
	return min(1, waited.Seconds()/ran.Seconds())
}

// proofWords is "stalls in 3 of 3 trials (over 1 s 3 of 3 deletes, worst 15.2 s of a hold of 15 s, 3 classic and 6 …)".
func (a ArmSummary) proofWords() string {
	verb := fmt.Sprintf("stalls in %s", a.stalledWords())
	if a.Stalled == 0 {
		verb = "doesn't stall in " + plural(len(a.Trials), "trial")
	}
	over := a.overWords()
	if a.Hold.Over.K == 0 && a.Hold.Over.N > 0 {
		_, hi := a.Hold.Over.Interval(Confidence)
		over += fmt.Sprintf(" (95 %% interval up to %s)", FormatShare(hi))
	}
	return fmt.Sprintf("%s (over 1 s %s, worst %s in holds of %s, %s)", verb, over, a.worstWords(), FormatDuration(a.Arm.Load.Hold), a.reportWords())
}

// preempting judges a model under which neither is expected to stall.
func (j *prover) preempting(m rcu.Preemption, s, p ArmSummary) {
	name := strings.ToUpper(string(m))
	switch {
	case len(s.Trials) == 0 || len(p.Trials) == 0:
		j.say("%s: not both of stock and patched gave data.", name)
	case p.Stalled > 0 && s.Stalled == 0:
		j.worse = true
		j.say("%s: stock %s, but patched %s: the patch makes a stall.", name, s.proofWords(), p.proofWords())
	case s.Stalled > 0:
		j.other = true
		j.say("%s: stock %s, which the loop's exit doesn't explain; patched %s.", name, s.proofWords(), p.proofWords())
	default:
		j.say("%s, where the kernel preempts the thread by itself: neither stalls, worst %s stock and %s patched (%s and %s).", name,
			s.worstWords(), p.worstWords(), plural(len(s.Hold.Values), s.noun()), plural(len(p.Hold.Values), p.noun()))
	}
}

// controls says what the arms above the band and in softirq mode did.
func (j *prover) controls() {
	n, over, total := 0, 0, 0
	worst := time.Duration(0)
	for _, r := range j.rows {
		for _, place := range []Place{AboveBand, InSoftirq} {
			a, ok := r.Arms[place]
			switch {
			case !ok || len(a.Trials) == 0:
			case a.Stalled > 0:
				j.stalledControl(r, place, a)
			case place == AboveBand && a.Band != Above:
				j.say("%s was meant to be above the band and was not (%s), so that it is no control.", a.Arm.Name, a.bandWords())
			default:
				n++
				over, total = over+a.Hold.Over.K, total+a.Hold.Over.N
				w, _, _ := a.Hold.Worst()
				worst = max(worst, w)
			}
		}
	}
	if n > 0 {
		j.say("Above the band and in softirq mode, no stall in %s: %d of %s over 1 s, worst %s.", plural(n, "arm"), over, plural(total, "delete"), FormatDuration(worst))
	}
}

func (j *prover) stalledControl(r ProofRow, place Place, a ArmSummary) {
	stock := ArmSummary{}
	for _, x := range j.rows {
		if !x.Patched && x.Kernel == r.Kernel && x.Model == r.Model {
			stock = x.Arms[place]
		}
	}
	if r.Patched && len(stock.Trials) > 0 && stock.Stalled == 0 {
		j.worse = true
		j.say("%s %s: %s, and the stock kernel doesn't: the patch makes a stall.", a.Arm.Name, place, a.proofWords())
		return
	}
	j.other = true
	j.say("%s %s, which the exit of the loop doesn't explain.", a.Arm.Name, a.proofWords())
}

// mainline says what kernels that are no part of the claim did in the band.
func (j *prover) mainline() {
	for _, r := range j.rows {
		if a, ok := r.Arms[InBand]; ok && !r.Built && len(a.Trials) > 0 {
			j.say("On a current kernel as it is shipped (%s): %s.", a.conditions(), a.proofWords())
		}
	}
}

// A GateWord is what one arm in the band says of a revision.
type GateWord string

// The words of a gate.
const (
	Good      GateWord = "good"
	Bad       GateWord = "bad"
	Undecided GateWord = "undecided"
)

// Gate says whether the one arm of arms, meant to be in the band, stalls, and by what it is known. A revision
// is Good only if a stall would have been seen: in the band in every trial, with deletes enough, none of
// them over a second.
func Gate(arms []ArmSummary) (GateWord, string) {
	if len(arms) != 1 || len(arms[0].Trials) == 0 {
		return Undecided, "no trial gave data"
	}
	a := arms[0]
	switch {
	case a.Stalled > 0 && a.inBandAtAll():
		return Bad, a.conditions() + ": " + a.proofWords()
	case a.Stalled > 0:
		return Undecided, a.proofWords() + ", but not in the band: " + a.bandEvidence()
	case a.Band != In:
		return Undecided, "no stall, but its load was not in the band: " + a.bandEvidence()
	case a.tooLittle() != "":
		return Undecided, "no stall, which says nothing yet: " + a.tooLittle()
	case a.Hold.Over.K > 0:
		return Undecided, "no stall, but " + a.slowWords()
	}
	return Good, a.conditions() + ": " + a.proofWords()
}
