package check

import "github.com/napistall/napistall/internal/model"

// A Property is what a loop variant is asked to let end, in a word of the --property flag.
type Property string

// The properties. Each is asked with a probe that does nothing else, so that nobody else's flags help.
const (
	NormalGP    Property = "normal-gp"    // every normal grace period ends
	ExpeditedGP Property = "expedited-gp" // every expedited grace period ends
	Kworker     Property = "kworker"      // the per-CPU kworker runs what is queued
	Callbacks   Property = "callbacks"    // callbacks queued on the NAPI's CPU run
	Barrier     Property = "barrier"      // rcu_barrier returns
	LinkDel     Property = "link-del"     // ip link del returns
	TasksGP     Property = "tasks-gp"     // Tasks RCU's grace period ends
	Packets     Property = "packets"      // packets are polled: no wake-up is lost
)

// A property is what a Property means to the search.
type property struct {
	name    Property
	text    string // what must happen
	program func(model.Config) model.Program
	mark    uint64
}

// properties are all of them.
func properties() []property {
	of := func(ops ...model.Op) func(model.Config) model.Program {
		return func(model.Config) model.Program { return model.Of(ops...) }
	}
	return []property{
		{NormalGP, "every normal grace period ends", of(model.SyncRCU), markGP},
		{ExpeditedGP, "every expedited grace period ends", of(model.SyncExp), markExp},
		{Kworker, "the kworker of the NAPI's CPU runs", of(model.Work), markWork},
		{Callbacks, "callbacks run on the NAPI's CPU", of(model.CallHot), markCallbacks},
		{Barrier, "rcu_barrier returns", of(model.Call, model.Barrier), markProbe},
		{LinkDel, "ip link del returns", linkDel, markProbe},
		{TasksGP, "every Tasks RCU grace period ends", of(model.TasksScan), markTasks},
		{Packets, "packets that have arrived are polled", of(), markPackets},
	}
}

// linkDel is the deletion of a device like the one under test, on another queue than the polled one.
func linkDel(cfg model.Config) model.Program {
	kind := model.Queueing
	if cfg.Device == model.Veth {
		kind = model.VethPlain
	}
	return model.LinkDel(cfg.Generation, kind)
}

// find returns the property that p names.
func (p Property) find() (property, error) {
	var words []word[property]
	for _, q := range properties() {
		words = append(words, word[property]{string(q.name), q})
	}
	return pick("property", string(p), words)
}

// Text says what must happen.
func (p Property) Text() string {
	q, err := p.find()
	if err != nil {
		return string(p)
	}
	return q.text
}

// Properties returns every Property.
func Properties() []Property {
	var out []Property
	for _, p := range properties() {
		out = append(out, p.name)
	}
	return out
}

func (p property) wait() Wait { return Wait{Name: p.text, Pending: p.mark, Done: p.mark} }

// weak are the events that happen if they could all along, as do ages. Arrivals, requests, other queues' interrupts and
// stall reports owe nothing to anybody.
const weak = 1<<model.Run0 | 1<<model.Run1 | 1<<model.Tick0 | 1<<model.Tick1 |
	1<<model.NICInterrupt | 1<<model.ExpIPI | 1<<model.ReschedIPI | 1<<model.OtherUnmask |
	1<<model.FQSTimer | 1<<model.ProbeWake0 | 1<<model.ProbeWake1 | 1<<model.ProbeWake2

// fairness returns the fairness under which everything is asked: what could happen all along does, and the task below
// softirq frames gets some way between two of them. With ticksOutside ticks that may land on the NAPI thread outside
// its BH-off part do so again and again. Where ages are delayed (not fine) theirs is strong: one that could happen just
// before it is noticed, again and again, does, or its time is measured from anew.
func fairness(fine, ticksOutside bool) *Fairness {
	f := &Fairness{Weak: weak, Strong: []Strong{{markTaskMay, markTaskDoes}}}
	if ticksOutside {
		f.Strong = append(f.Strong, Strong{markTickMay, markTickDoes})
	}
	if fine {
		f.Weak |= ages
		return f
	}
	f.Strong = append(f.Strong,
		Strong{markGPYoung, 1 << model.AgeGP}, Strong{markRecent, 1 << model.AgeResched}, Strong{markStampYoung, 1 << model.AgeStamp},
		Strong{markSliceMay, 1 << model.AgeSlice}, Strong{markSoftirqYoung, 1 << model.AgeSoftirq}, Strong{markNetRXYoung, 1 << model.AgeNetRX})
	return f
}

// pace returns what "in time" means when poll-loop entries are counted.
func pace() Pace {
	return Pace{Entry: markEntry, Once: weak &^ (1<<model.Run0 | 1<<model.Run1), Idle: 1 << model.Run1}
}
