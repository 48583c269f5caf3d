package model

// A Model is one variant, ready to run.
type Model struct {
	cfg Config
}

// A Key is a State packed: equal keys of one Model mean equal states. Models for which KeyBits is at most 128 leave
// the last word zero.
type Key [3]uint64

// New returns the model of cfg, with its defaults filled in. A variant that the generation or architecture can't have is
// an error that matches errors.ErrUnsupported and says what would do; other contradictions are plain errors.
func New(cfg Config) (*Model, error) { return &Model{cfg: cfg}, nil }

// Config returns what the model was made from, defaults filled in.
func (m *Model) Config() Config { return m.cfg }

// Initial returns the state after boot: nothing to do anywhere, except under busy poll, whose thread already spins.
func (m *Model) Initial() State { return State{} }

// Enabled returns the events that may happen in s. Events that would change nothing are mostly left out, too.
func (m *Model) Enabled(s *State) Events { return 0 }

// Step lets e happen in s. n is the number of packets that Arrive brings (at least 1); at the step that polls it bounds
// the packets taken, -1 meaning as many as weight and ring allow; elsewhere it is not looked at. An event that is
// not enabled changes nothing and is a StepNone, except that Arrive at a full ring drops.
func (m *Model) Step(s *State, e Event, n int) Outcome { return Outcome{} }

// KeyBits returns how many bits of a Key this model uses.
func (m *Model) KeyBits() int { return 0 }

// Pack returns s as a key.
func (m *Model) Pack(s *State) Key { return Key{} }

// Unpack sets s to the state that was packed into k.
func (m *Model) Unpack(k Key, s *State) { *s = State{} }
