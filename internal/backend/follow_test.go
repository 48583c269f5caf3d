package backend

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/napistall/napistall/internal/experiment"
)

// said is what an agent says, one after the other, and then nothing.
func said(records ...Incoming) <-chan Incoming {
	c := make(chan Incoming, len(records))
	for _, r := range records {
		c <- r
	}
	return c
}

func phase(name string) Incoming {
	return Incoming{Record: experiment.Record{N: 7, Phase: &experiment.Phase{Name: name}}}
}

func end(outcome, why string) Incoming {
	return Incoming{Record: experiment.Record{End: &experiment.End{Outcome: outcome, Why: why}}}
}

func facts() Incoming {
	return Incoming{Record: experiment.Record{Facts: &experiment.Facts{Release: "6.12"}}}
}

// follow runs Follow over records and returns what was emitted.
func follow(ctx context.Context, f Following, records ...Incoming) (got []experiment.Record, err error) {
	f.Records = said(records...)
	if f.Facts == nil {
		f.Facts = func(*experiment.Facts) error { return nil }
	}
	err = Follow(ctx, f, func(r experiment.Record) error { got = append(got, r); return nil })
	return got, err
}

func TestFollowNumbersAnew(t *testing.T) {
	f := Following{
		First: []experiment.Record{{Command: &experiment.Command{}}},
		Facts: func(f *experiment.Facts) error { f.Kernel = "host"; return nil },
	}
	got, err := follow(t.Context(), f, facts(), phase(experiment.Hold), end(experiment.Completed, ""))
	if err != nil || len(got) != 4 {
		t.Fatalf("Follow = %v with %d records; want 4", err, len(got))
	}
	for i, r := range got {
		if r.N != i {
			t.Errorf("record %d is numbered %d", i, r.N)
		}
	}
	if got[1].Facts.Kernel != "host" || got[3].End.Records != 3 {
		t.Errorf("facts %+v, end %+v", got[1].Facts, got[3].End)
	}
}

func TestFollowEnds(t *testing.T) {
	cut := errors.New("connection reset")
	for _, tc := range []struct {
		name    string
		records []Incoming
		want    func(error) bool
	}{
		{"lost", []Incoming{facts(), {Err: cut}}, func(err error) bool { return isBroken(err) && errors.Is(err, cut) }},
		{"failed", []Incoming{end(experiment.Failed, "no memory")}, func(err error) bool { return isBroken(err) && strings.Contains(err.Error(), "no memory") }},
		{"unsupported", []Incoming{end(experiment.Failed, experiment.UnsupportedWhy+"no veth")}, func(err error) bool {
			return !isBroken(err) && errors.Is(err, errors.ErrUnsupported) && strings.Contains(err.Error(), "no veth")
		}},
		{"never starts", []Incoming{facts()}, func(err error) bool { return isBroken(err) && strings.Contains(err.Error(), "did not start the load") }},
	} {
		synctest.Test(t, func(t *testing.T) {
			if _, err := follow(t.Context(), Following{Arm: idle()}, tc.records...); !tc.want(err) {
				t.Errorf("%s: Follow = %v", tc.name, err)
			}
		})
	}
}

func isBroken(err error) bool {
	_, is := errors.AsType[*MachineError](err)
	return is
}

// Silence while the load may still be on is no end; after that, the backend says what it is.
func TestFollowLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		arm := idle()
		arm.Duration = time.Minute
		began := time.Now()
		f := Following{Arm: arm, Grace: time.Second, Late: func(quiet time.Duration) (experiment.End, error) {
			return experiment.End{Outcome: experiment.Silent, Why: quiet.String()}, nil
		}}
		got, err := follow(t.Context(), f, facts(), phase(experiment.Hold))
		if err != nil || got[len(got)-1].End == nil || got[len(got)-1].End.Outcome != experiment.Silent {
			t.Fatalf("Follow = %v, %+v", err, got)
		}
		if took := time.Since(began); took < 61*time.Second || took > 62*time.Second {
			t.Errorf("after %v; want 61 s", took)
		}
		f.Late = func(time.Duration) (experiment.End, error) { return experiment.End{}, errors.New("no answer") }
		if _, err := follow(t.Context(), f, facts(), phase(experiment.Hold)); !isBroken(err) {
			t.Errorf("Follow = %v; want a MachineError", err)
		}
	})
}

func TestSaidKeepsTheEnd(t *testing.T) {
	var s Said
	for range 1000 {
		_, _ = s.Write([]byte("line\n"))
	}
	_, _ = s.Write([]byte("\x1b[31mlast"))
	got := s.Lines(2)
	if len(got) != 2 || got[0] != "line" || got[1] != "\uFFFD[31mlast" {
		t.Errorf("Lines = %q", got)
	}
}
