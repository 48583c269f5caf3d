package model

// A Model is one variant, ready to run.
type Model struct {
	cfg   Config
	progs [MaxProbes]Program // as given, with SyncTasks spelled out and what never waits left out

	// What follows from the build (New).
	preemption   bool // CONFIG_PREEMPTION
	preemptCount bool // CONFIG_PREEMPT_COUNT
	preemptRCU   bool // CONFIG_PREEMPT_RCU
	points       bool // preempt_enable, local_bh_enable and interrupt exit reschedule
	lazy         bool // fair requests set the lazy flag
	cond         bool // cond_resched has a body
	allQS        bool // … which calls rcu_all_qs
	bhPreempts   bool // points at local_bh_enable, unless broken
	irqPreempts  bool // points at interrupt exit, unless broken
	threaded     bool
	backlog      bool // BacklogThread
	veth, nic    bool
	busy         bool // a busy-poll loop
	localStamp   bool // last_qs is the entry's own
	normalWake   bool // rcu_normal_wake_from_gp
	ownQS        bool // rcu_gp_init reports for its own CPU
	expFrees     bool // an expedited grace period releases callbacks
	expUrgent    bool // an expedited IPI sets rcu_urgent_qs under PREEMPT_RCU, too
	hrtick       bool
	alone        bool // nobody can ever compete with the NAPI thread

	// Where the thread goes from local_bh_enable, the periodic report and cond_resched. Index: repoll | busy<<1.
	afterBH, afterQS, afterCond [4]uint8
	leave                       uint16 // flags of the CPU that end with an entry
	next                        [16][numTasks]Task
	online                      uint8
	layout                      layout
}

// A Key is a State packed: equal keys of one Model mean equal states. Models whose states fit into 128 bits leave
// the last word zero.
type Key [3]uint64

// New returns the model of cfg, with its defaults filled in. A variant that the generation or architecture can't have is
// an error that matches errors.ErrUnsupported and says what would do; other contradictions are plain errors.
func New(cfg Config) (*Model, error) {
	cfg = cfg.withDefaults()
	if err := cfg.check(); err != nil {
		return nil, err
	}
	m := &Model{cfg: cfg}
	m.build()
	m.wire()
	m.progs = m.compile()
	m.alone = m.threaded && !cfg.User && !cfg.Others && !m.uses(Work) && !(cfg.Backlog && m.uses(Flush))
	m.layout = m.newLayout()
	return m, nil
}

// build derives the kernel's configuration (kernel/Kconfig.preempt, kernel/rcu/Kconfig).
func (m *Model) build() {
	c := &m.cfg
	preempts := c.Preempt.Preempts()
	m.preemption = c.Dynamic || preempts
	m.preemptCount = m.preemption || c.PreemptCount
	m.preemptRCU = c.Dynamic || c.Preempt == full // 6.12 has no other way to get PREEMPTION
	m.points = preempts
	m.bhPreempts = preempts && c.Break&BreakBHCheck == 0
	m.irqPreempts = preempts && c.Break&BreakIRQExit == 0
	m.lazy = c.Preempt == lazy
	m.cond = !preempts
	m.allQS = m.cond && !m.preemptRCU
	m.normalWake = c.Generation >= V618
	m.ownQS = c.Generation >= V618
	m.expFrees = c.Generation >= V73
	m.expUrgent = c.Generation >= V73
	m.hrtick = c.Generation >= V73 && c.Arch == AMD64
	m.online = 1<<c.CPUs - 1
}

// wire derives the loop's paths and the scheduler's table.
func (m *Model) wire() {
	c := &m.cfg
	m.threaded = !c.Softirq
	m.backlog = c.Loop == BacklogThread
	m.veth = c.Device == Veth
	m.nic = !m.veth && !m.backlog
	m.busy = c.Loop == BusyPoll || c.Loop == BusyPollResetStamp
	m.localStamp = c.Loop != QSPersistentStamp && c.Loop != BusyPoll
	if m.localStamp {
		m.leave = cStampOld
	}
	for i := range m.afterBH {
		again := i&1 != 0
		qs := again || c.Loop == YieldOnExit || c.Loop == QSLocalStamp || c.Loop == QSPersistentStamp || i&2 != 0
		cond := again || c.Loop == YieldOnExit || c.Loop == CondReschedOnly || i&2 != 0
		last := pcWaitSet
		if again {
			last = pcAgain
		}
		m.afterCond[i] = last
		m.afterQS[i] = last
		if cond && m.cond {
			m.afterQS[i] = pcCond
		}
		m.afterBH[i] = m.afterQS[i]
		if qs {
			m.afterBH[i] = pcQS
		}
	}
	m.wirePick()
}

// wirePick tabulates who follows whom in the round robin, the kworker first. Index: runnable tasks without Idle, last
// picked.
func (m *Model) wirePick() {
	order := []Task{NAPIThread, Ksoftirqd, User}
	for run := range m.next {
		for last := range m.next[run] {
			at := 2
			for i, t := range order {
				if int(t) == last {
					at = i
				}
			}
			for i := range order {
				t := order[(at+3-i)%3]
				if run<<1&int(bit(t)) != 0 {
					m.next[run][last] = t
				}
			}
			if run<<1&int(bit(Kworker)) != 0 && m.cfg.Break&BreakPickKworker == 0 {
				m.next[run][last] = Kworker
			}
		}
	}
}

// Config returns what the model was made from, defaults filled in.
func (m *Model) Config() Config { return m.cfg }

// Initial returns the state after boot: nothing to do anywhere, except under busy poll, whose thread already spins.
func (m *Model) Initial() State {
	s := State{pc: pcWokeSet, rr: NAPIThread}
	if m.threaded {
		s.napi |= nInt
	}
	if m.cfg.User {
		s.curr, s.rr = User, User
		s.run = bit(User)
	}
	if m.busy {
		s.napi = nSched | nThr | nMask
		s.curr, s.rr = NAPIThread, NAPIThread
		s.run |= bit(NAPIThread)
	}
	return s
}

// broken reports whether rule b is broken.
func (m *Model) broken(b Break) bool { return m.cfg.Break&b != 0 }
