package backendtest

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/napistall/napistall/internal/experiment"
	"github.com/napistall/napistall/internal/rcu"
)

// Check returns what is wrong with recs as the whole stream of one trial of arm, or nil: they are
// numbered from 0 without a gap, each has one part, the phases come in their order, facts that meet the arm's wishes
// come before the first sample, a sample's phase is the one in which it began, and the one End is the last.
func Check(recs []experiment.Record, arm experiment.Arm) error {
	c := checker{arm: arm, began: map[string]rcu.Ktime{}}
	var errs []error
	for i, r := range recs {
		if err := c.record(i, r, i == len(recs)-1); err != nil {
			errs = append(errs, fmt.Errorf("record %d: %w", i, err))
		}
	}
	if len(recs) == 0 || recs[len(recs)-1].End == nil {
		errs = append(errs, errors.New("the last record is no End"))
	}
	if !c.facts {
		errs = append(errs, errors.New("no Facts"))
	}
	return errors.Join(errs...)
}

type checker struct {
	arm   experiment.Arm
	facts bool
	phase int                  // index into phases of the newest, -1 before
	began map[string]rcu.Ktime // each phase's At
}

// skew is how far a phase's record may be from its instant: a target tells of it when it gets to run,
// which an emulated CPU on a busy host may do late.
const skew = time.Second

func phases() []string {
	return []string{experiment.Boot, experiment.Setup, experiment.Hold, experiment.Tail}
}

func (c *checker) record(i int, r experiment.Record, last bool) error {
	if r.N != i {
		return fmt.Errorf("is numbered %d", r.N)
	}
	if n, err := parts(r); err != nil || n != 1 {
		return fmt.Errorf("has %d parts, want 1 (%v)", n, err)
	}
	switch {
	case r.Facts != nil:
		return c.seeFacts(*r.Facts)
	case r.Phase != nil:
		return c.seePhase(*r.Phase, r.At)
	case r.Sample != nil:
		return c.seeSample(*r.Sample)
	case r.End != nil:
		return c.seeEnd(*r.End, i, last)
	}
	return nil
}

// parts counts r's parts by what it looks like as JSON, where each has a key beside "n" and "at".
func parts(r experiment.Record) (int, error) {
	text, err := json.Marshal(r)
	if err != nil {
		return 0, err
	}
	var keys map[string]json.RawMessage
	if err := json.Unmarshal(text, &keys); err != nil {
		return 0, err
	}
	delete(keys, "n")
	delete(keys, "at")
	return len(keys), nil
}

func (c *checker) seeFacts(f experiment.Facts) error {
	c.facts = true
	switch {
	case f.Release == "":
		return errors.New("facts without a release")
	case c.arm.Preempt != "" && f.Preempt != c.arm.Preempt:
		return fmt.Errorf("facts say %q, the arm wishes %q", f.Preempt, c.arm.Preempt)
	case f.CPUs < c.arm.VCPUs:
		return fmt.Errorf("facts say %d CPUs, the arm wishes %d", f.CPUs, c.arm.VCPUs)
	}
	return nil
}

func (c *checker) seePhase(p experiment.Phase, at rcu.Ktime) error {
	i := slices.Index(phases(), p.Name)
	if i < 0 {
		return fmt.Errorf("unknown phase %q", p.Name)
	}
	if _, again := c.began[p.Name]; again || i < c.phase {
		return fmt.Errorf("phase %s after phase %s", p.Name, phases()[c.phase])
	}
	c.phase, c.began[p.Name] = i, at
	return nil
}

func (c *checker) seeSample(s experiment.Sample) error {
	if !c.facts {
		return errors.New("a sample before the facts")
	}
	if s.Phase != experiment.Hold && s.Phase != experiment.Tail {
		return fmt.Errorf("a sample in phase %q", s.Phase)
	}
	hold, ok := c.began[experiment.Hold]
	switch {
	case !ok:
		return errors.New("a sample before the hold")
	case s.Op == "" || s.Took < 0:
		return fmt.Errorf("a sample of %q that took %v", s.Op, s.Took)
	case s.Start < hold.Add(-skew):
		return fmt.Errorf("a sample that began %v before the hold", hold.Sub(s.Start))
	}
	tail, ok := c.began[experiment.Tail]
	switch {
	case ok && s.Phase == experiment.Hold && s.Start > tail.Add(skew):
		return fmt.Errorf("a sample of the hold that began %v after it", s.Start.Sub(tail))
	case ok && s.Phase == experiment.Tail && s.Start < tail.Add(-skew):
		return fmt.Errorf("a sample of the tail that began %v before it", tail.Sub(s.Start))
	}
	return nil
}

func (c *checker) seeEnd(end experiment.End, i int, last bool) error {
	switch {
	case !last:
		return errors.New("an End before the last record")
	case end.Records != i:
		return fmt.Errorf("the End counts %d records before it", end.Records)
	case !slices.Contains([]string{experiment.Completed, experiment.Panicked, experiment.Silent}, end.Outcome):
		return fmt.Errorf("unknown outcome %q", end.Outcome)
	}
	return nil
}
