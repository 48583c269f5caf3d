/*
 * The poll loop under PREEMPT_NONE with an expedited grace period, for SPIN: what napistall's model does for one
 * probe that calls synchronize_rcu_expedited on a 6.12 kernel with a NIC whose interrupt latches. It has the same
 * variables, so SPIN stores as many states as `napistall check --fine --property expedited-gp` finds.
 *
 * -DRING=n descriptors and -DWEIGHT=n packets a poll (2 and 2), -DYIELD=1 for the loop variant yield-on-exit.
 * Who has to go on is a process, so that SPIN's weak fairness (pan -f) is ours; packets and probes
 * come from a process that may do nothing instead.
 */
#ifndef RING
#define RING 2
#endif
#ifndef WEIGHT
#define WEIGHT 2
#endif
#ifndef YIELD
#define YIELD 0
#endif

/* The NAPI thread's next step. One that sleeps is at WokeSet. */
#define WaitSet   0
#define WaitTest  1
#define Schedule  2
#define WokeSet   3
#define WokeTest  4
#define Entry     5
#define Poll      6
#define Complete  7
#define Unmask    8
#define BHEnable  9
#define PeriodicQS 10
#define CondResched 11
#define Again     12

/* The probe: between rounds, about to call, waiting, about to return. */
#define Out      0
#define Calls    1
#define Waits    2
#define Returns  3

/* The expedited grace period: none, handed to the worker, CPUs selected. */
#define None     0
#define Queued   1
#define Active   2

byte pc = WokeSet;
bool runs, queued, interruptible = true;           /* the NAPI thread: current, on the runqueue, its state */
bool sched, missed, threaded, repoll, masked, cause;
short ring;
bool need_resched, urgent, exp_wanted, exp_ipi;    /* CPU 0 */
bool stamp_old;
byte exp = None;
bool owed, worker;                                 /* CPU 0 owes its report; the worker is runnable */
byte probe = Out;

/* rcu_report_exp_rdp, of a quiescent state that was asked for. */
inline report() {
	if
	:: exp_wanted -> exp_wanted = false; if :: owed -> owed = false; worker = true :: else fi
	:: else
	fi
}

/* __schedule: the note of the quiescent state, then the pick. */
inline schedule(sleeps) {
	report();
	urgent = false;
	if :: sleeps -> queued = false :: else fi;
	need_resched = false;
	runs = queued
}

inline leave() {
	if
	:: repoll -> repoll = false; pc = Again
	:: else -> stamp_old = false; pc = WaitSet
	fi
}

active proctype cpu0() {
	do
	:: d_step { runs && (pc == WaitSet || pc == WokeSet) -> interruptible = true; pc++ }
	:: d_step { runs && (pc == WaitTest || pc == WokeTest) ->
		if :: threaded -> interruptible = false; pc = Entry :: else -> pc = Schedule fi }
	:: d_step { runs && pc == Schedule -> pc = WokeSet; schedule(interruptible) }
	:: d_step { runs && pc == Entry -> stamp_old = false; pc = Poll }
	:: d_step { runs && pc == Poll ->
		if
		:: ring < WEIGHT -> ring = 0; pc = Complete
		:: else -> ring = ring - WEIGHT; repoll = true; pc = BHEnable
		fi }
	:: d_step { runs && pc == Complete ->
		if
		:: missed -> missed = false; pc = BHEnable
		:: else -> sched = false; threaded = false; pc = Unmask
		fi }
	:: d_step { runs && pc == Unmask -> masked = false; pc = BHEnable }
	:: d_step { runs && pc == BHEnable ->
		if :: repoll || YIELD -> pc = PeriodicQS :: else -> leave() fi }
	:: d_step { runs && pc == PeriodicQS ->
		if :: stamp_old -> stamp_old = false; report() :: else fi;
		pc = CondResched }
	:: d_step { runs && pc == CondResched ->
		if
		:: need_resched -> schedule(false)
		:: !need_resched && urgent -> urgent = false; report()
		:: else
		fi;
		leave() }
	:: d_step { runs && pc == Again -> pc = Poll }
	:: d_step { !runs && need_resched -> schedule(false) }
	od
}

active proctype tick() {
	do
	:: d_step {
		true ->
		if :: urgent && runs -> need_resched = true :: else fi;
		urgent = false;
		if :: !runs -> report() :: else fi }
	od
}

active proctype interrupt() {
	do
	:: d_step { cause && !masked ->
		cause = false; masked = true;
		if
		:: sched -> missed = true
		:: else ->
			sched = true; threaded = true;
			if
			:: interruptible ->
				interruptible = false;
				if :: !runs -> queued = true; need_resched = true :: else fi
			:: else
			fi
		fi }
	od
}

active proctype ipi() {
	do
	:: d_step { exp_ipi ->
		exp_ipi = false;
		if
		:: owed && !exp_wanted && !runs -> owed = false; worker = true
		:: owed && !exp_wanted && runs -> exp_wanted = true; urgent = true; need_resched = true
		:: else
		fi }
	od
}

active proctype cpu1() {
	do
	:: d_step { worker && exp == Queued ->
		exp = Active;
		if :: runs -> owed = true; worker = false; exp_ipi = true :: else fi }
	:: d_step { worker && exp == Active -> exp = None; worker = false; probe = Returns }
	:: d_step { !worker && probe == Calls -> probe = Waits; exp = Queued; worker = true }
	:: d_step { !worker && probe == Returns -> probe = Out }
	od
}

active proctype time() {
	do
	:: d_step { !stamp_old && pc >= Poll -> stamp_old = true }
	od
}

active proctype world() {
	do
	:: d_step { ring < RING -> ring++; cause = true }
	:: d_step { probe == Out -> probe = Calls }
	:: d_step { ring >= 0 -> skip }
	od
}

ltl ends { [] (exp != None -> <> (exp == None)) }
