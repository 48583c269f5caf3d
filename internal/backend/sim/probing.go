package sim

import (
	"time"

	"github.com/napistall/napistall/internal/experiment"
	"github.com/napistall/napistall/internal/model"
	"github.com/napistall/napistall/internal/rcu"
)

// A probing is what a probe's turn at its operation is known of.
type probing struct {
	op      string
	every   int64
	running bool
	start   int64
	program model.Program
	sample  experiment.Sample // what the stack samples have seen
	wait    int               // the place in rcu.Waits of what it waits for since …
	from    int64
	in      model.Op // … which is this
	site    string   // … entered there
	entered [model.Barrier + 1]int
	stack   model.Op // what its newest stack sample saw it in
}

const numWaits = 6

// besides is the pause of the operations beside the one asked for, as the agent makes it.
const besides = second

// slow is from when on a sample keeps its newest stack.
const slow = time.Second

// probesOf returns the operations of a trial, the arm's own first, and their programs.
func probesOf(arm experiment.Arm, g model.Generation) (p [model.MaxProbes]probing, programs [model.MaxProbes]model.Program) {
	ops := []string{arm.Probe.Op}
	for _, op := range []string{experiment.LinkDel, experiment.Membarrier, experiment.RCUBarrier} {
		if op != arm.Probe.Op && op != experiment.LinkDel {
			ops = append(ops, op)
		}
	}
	for i, op := range ops {
		p[i] = probing{op: op, every: besides}
		switch op {
		case experiment.Membarrier:
			programs[i] = model.Membarrier()
		case experiment.RCUBarrier:
			programs[i] = model.RCUBarrier()
		default:
			programs[i] = model.LinkDel(g, linkOf(arm.Probe.Device))
		}
		p[i].program = programs[i]
	}
	p[0].every = int64(arm.Probe.Every)
	return p, programs
}

func linkOf(device string) model.Link {
	if device == "veth" {
		return model.VethPlain
	}
	return model.Dummy
}

// began notes that probe p begins its operation.
func (r *recorder) began(p int, now int64) {
	x := &r.probing[p]
	x.running, x.start, x.from, x.wait, x.in, x.stack = true, now, now, numWaits-1, model.End, model.End
	x.sample, x.site, x.entered = experiment.Sample{}, "", [model.Barrier + 1]int{}
}

// waits notes that probe p now waits in op.
func (r *recorder) waits(p int, op model.Op, now int64) {
	r.look(p, now)
	x := &r.probing[p]
	x.wait, x.in, x.site = waitOf(op), op, ""
	if int(op) < len(x.entered) {
		x.entered[op]++
		x.site = site(x.op, op, x.entered[op], calls(x.program, op))
	}
}

// look takes the stack samples that fell due since the last look: one each StackEvery, counted from the load's start.
func (r *recorder) look(p int, now int64) {
	x := &r.probing[p]
	every := int64(experiment.StackEvery)
	if from, to := (x.from-r.begin)/every+1, (now-r.begin)/every+1; to > from {
		x.sample.SeeMany(r.seen(x, from, to))
		x.stack = x.in
	}
	x.from = now
}

// waitOf is the place in rcu.Waits of what a task in op waits for.
func waitOf(op model.Op) int {
	switch op {
	case model.Lock:
		return 0
	case model.SyncNet, model.SyncRCU, model.SyncExp:
		return 1
	case model.Flush, model.Work:
		return 2
	case model.Barrier:
		return 3
	}
	return numWaits - 1
}

// stackOf is the stack of a task that waits in op, innermost function first.
func stackOf(probe string, op model.Op) []string {
	caller := []string{"unregister_netdevice_many_notify", "rtnl_dellink", "rtnetlink_rcv_msg"}
	switch {
	case op == model.Lock:
		return []string{"mutex_lock", "rtnl_lock", "rtnetlink_rcv_msg"}
	case op == model.Flush:
		return append([]string{"__flush_work", "flush_all_backlogs"}, caller...)
	case op == model.Barrier && probe == experiment.LinkDel:
		return []string{"rcu_barrier", "netdev_run_todo", "rtnl_dellink", "rtnetlink_rcv_msg"}
	case op == model.Barrier:
		return []string{"rcu_barrier", "param_set_do_rcu_barrier"}
	case op == model.SyncNet:
		return append([]string{"synchronize_rcu_expedited", "synchronize_net"}, caller...)
	case op == model.SyncRCU:
		return []string{"synchronize_rcu_normal", "synchronize_rcu", "__do_sys_membarrier"}
	case op == model.Sleep:
		return append([]string{"schedule_timeout", "dev_deactivate_many", "__dev_close_many"}, caller...)
	}
	return nil
}

// sample makes a record of probe p's operation, which ended now or is cut there.
func (r *recorder) sample(p int, now int64, censored bool) experiment.Sample {
	r.look(p, now)
	x := &r.probing[p]
	x.running = false
	s := experiment.Sample{
		Op: x.op, Start: rcu.Ktime(x.start), Took: time.Duration(now - x.start), Censored: censored, Phase: experiment.Hold,
		Waits: x.sample.Waits, Runs: x.sample.Runs,
	}
	if x.start >= r.hold {
		s.Phase = experiment.Tail
	}
	if s.Took >= slow {
		s.Stack = stackOf(x.op, x.stack)
	}
	return s
}

// done ends probe p's operation and sets when the next one begins.
func (r *recorder) done(e *engine, p int) {
	s := r.sample(p, e.now, false)
	if err := r.put(experiment.Record{Sample: &s}, e.now); err != nil {
		e.err = err
	}
	e.q.set(slotBegin+p, e.now+r.probing[p].every)
}
