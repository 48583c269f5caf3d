package experiment

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// The bounds of the loads, the NIC and the simulator's knobs.
const (
	minSize, maxSize = 60, 9000 // of a frame without its checksum: Ethernet's shortest, a jumbo frame
	maxBatch         = 4096
	maxWindow        = 65536
	maxRing          = 65536
	minRTT, maxRTT   = time.Microsecond, 10 * time.Second
	maxModeration    = time.Second
	maxReport        = 10 * time.Minute
	maxCost          = time.Second
	maxNeighbour     = time.Hour
	// fastest is the speed of the fastest NIC, in bits per second; what a frame takes on the wire besides its
	// own bytes are its checksum, preamble and gap (IEEE 802.3).
	fastest      = 100e9
	wireOverhead = 4 + 8 + 12
)

// What a load and its NIC have when nothing is said.
const (
	defaultBatch  = 1
	defaultWindow = 64
	defaultSize   = 60
	tcpSize       = 1514
	defaultRTT    = 100 * time.Microsecond
	defaultRing   = 1024
)

// LoadKinds lists the loads.
func LoadKinds() []LoadKind {
	return []LoadKind{Bounce, Flood, Paced, Windowed, TCP, Recorded, External, NoLoad}
}

// OnNIC reports whether a load of the kind arrives at a device that the arm can describe with nic:.
func (k LoadKind) OnNIC() bool {
	return slices.Contains([]LoadKind{Paced, Windowed, TCP, Recorded, External}, k)
}

// Circulates reports whether frames of the kind go round inside the kernel by themselves until the load's deadline:
// nothing else then gets the CPU that they are on, but where the kernel lets it.
func (k LoadKind) Circulates() bool { return k == Bounce || k == Windowed }

// has reports whether a load of the kind has the knob.
func (k LoadKind) has(knob string) bool { return slices.Contains(owners(knob), k) }

// owners lists the loads that have the knob.
func owners(knob string) []LoadKind {
	switch knob {
	case "inflight":
		return []LoadKind{Bounce}
	case "rate":
		return []LoadKind{Paced, TCP, Recorded}
	case "batch":
		return []LoadKind{Paced}
	case "window", "rtt":
		return []LoadKind{Windowed, TCP}
	case "size", "band":
		return []LoadKind{Paced, Windowed, TCP}
	case "from":
		return []LoadKind{Recorded}
	}
	return LoadKinds()
}

// A loadText is a load as written.
type loadText struct {
	kind, from, band                    opt[string]
	inflight, rate, batch, window, size opt[int]
	hold, rtt                           opt[time.Duration]
	cpu                                 opt[int]
}

func (s *source) load(v value, l *loadText) {
	s.mapping(v, "load", []field{
		{"kind", func(v value) { l.kind = s.word(v, words(LoadKinds())) }},
		{"inflight", func(v value) { l.inflight = s.count(v, 1, maxInflight) }},
		{"rate", func(v value) { l.rate = s.rate(v) }},
		{"batch", func(v value) { l.batch = s.count(v, 1, maxBatch) }},
		{"window", func(v value) { l.window = s.count(v, 1, maxWindow) }},
		{"size", func(v value) { l.size = s.count(v, minSize, maxSize) }},
		{"rtt", func(v value) { l.rtt = s.duration(v, minRTT, maxRTT, time.Nanosecond) }},
		{"from", func(v value) { l.from = s.text(v, "a trial such as RUN/TRIAL, or a file of arrival instants") }},
		{"band", func(v value) { l.band = s.word(v, []string{HoldBand}) }},
		{"hold", func(v value) { l.hold = s.duration(v, minHold, maxHold, time.Millisecond) }},
		{"cpu", func(v value) { l.cpu = s.cpu(v) }},
	})
}

// rate reads a number of packets per second, which is written with its unit.
func (s *source) rate(v value) opt[int] {
	t := s.text(v, rateForm)
	if !t.set {
		return opt[int]{}
	}
	n, msg, want := parseRate(t.v)
	if msg != "" {
		s.mistake(t.at, "want "+want, "%s is %s%s", v.key, clip(t.v), msg)
		return opt[int]{}
	}
	return opt[int]{n, t.at, true}
}

const rateForm = "packets per second with their unit, such as 80862/s, 80k/s or 1.5M/s"

// ParseRate reads packets per second as experiment files have them: 80862/s, 80k/s, 1.5M/s. Its error says
// what was expected.
func ParseRate(text string) (int, error) {
	n, msg, want := parseRate(text)
	if msg != "" {
		return 0, fmt.Errorf("%s%s: want %s", clip(text), msg, want)
	}
	return n, nil
}

// parseRate returns what goes behind the text in a message, and what was expected, where it is no rate.
func parseRate(text string) (n int, msg, want string) {
	number, ok := strings.CutSuffix(text, "/s")
	if !ok {
		return 0, " without its unit", rateForm
	}
	n, ok = wholeRate(number)
	switch {
	case !ok:
		return 0, ", which is no whole number of packets a second", rateForm
	case n < 1 || n > maxRate(minSize):
		return 0, ", which is out of range", fmt.Sprintf("1/s to %d/s, which 100 Gbit/s carry of the shortest frames", maxRate(minSize))
	}
	return n, "", ""
}

// wholeRate reads digits with at most one dot, and k or M behind them.
func wholeRate(t string) (int, bool) {
	factor := 1.0
	for unit, f := range map[string]float64{"k": 1e3, "M": 1e6} {
		if digits, ok := strings.CutSuffix(t, unit); ok {
			t, factor = digits, f
			break
		}
	}
	if t == "" || strings.Trim(t, "0123456789.") != "" {
		return 0, false
	}
	x, err := strconv.ParseFloat(t, 64)
	if err != nil || x*factor > math.MaxInt32 {
		return math.MaxInt32, err == nil
	}
	n := math.Round(x * factor)
	return int(n), math.Abs(x*factor-n) < 1e-6
}

// maxRate is how many frames of size bytes 100 Gbit/s carry in a second.
func maxRate(size int) int { return int(fastest / 8 / float64(size+wireOverhead)) }

// only returns what of l a load of the kind has.
func (l loadText) only(kind LoadKind) loadText {
	for knob, clear := range map[string]func(){
		"inflight": func() { l.inflight = opt[int]{} },
		"rate":     func() { l.rate = opt[int]{} },
		"batch":    func() { l.batch = opt[int]{} },
		"window":   func() { l.window = opt[int]{} },
		"size":     func() { l.size = opt[int]{} },
		"rtt":      func() { l.rtt = opt[time.Duration]{} },
		"from":     func() { l.from = opt[string]{} },
		"band":     func() { l.band = opt[string]{} },
	} {
		if !kind.has(knob) {
			clear()
		}
	}
	return l
}

// over returns l with what it doesn't state taken from base, as far as l's kind of load has it.
func (l loadText) over(base loadText) loadText {
	if l.kind.set {
		base = base.only(LoadKind(l.kind.v))
	}
	return loadText{
		kind: l.kind.or(base.kind), inflight: l.inflight.or(base.inflight), rate: l.rate.or(base.rate),
		batch: l.batch.or(base.batch), window: l.window.or(base.window), size: l.size.or(base.size), rtt: l.rtt.or(base.rtt),
		from: l.from.or(base.from), band: l.band.or(base.band), hold: l.hold.or(base.hold), cpu: l.cpu.or(base.cpu),
	}
}

// load fills in the defaults.
func (l loadText) load() Load {
	load := Load{
		Kind: LoadKind(l.kind.or(opt[string]{v: string(Bounce)}).v), Inflight: l.inflight.v, Rate: l.rate.v, Batch: l.batch.v,
		Window: l.window.v, Size: l.size.v, RTT: l.rtt.v, From: l.from.v, Band: l.band.v,
		Hold: l.hold.v, CPU: l.cpu.or(opt[int]{v: LastCPU}).v,
	}
	size := defaultSize
	if load.Kind == TCP {
		size = tcpSize
	}
	for _, d := range []struct {
		knob  string
		field *int
		value int
	}{
		{"inflight", &load.Inflight, defaultInflight}, {"batch", &load.Batch, defaultBatch},
		{"window", &load.Window, defaultWindow}, {"size", &load.Size, size},
	} {
		if load.Kind.has(d.knob) && *d.field == 0 {
			*d.field = d.value
		}
	}
	if load.Kind.has("rtt") && load.RTT == 0 {
		load.RTT = defaultRTT
	}
	if load.Kind != NoLoad && load.Hold == 0 {
		load.Hold = defaultHold
	}
	return load
}

// checkLoad checks that the load has the knobs it is given and those it needs, and ends within the trial.
func (s *source) checkLoad(a armText, arm Arm) {
	l := a.load
	s.checkKnobs(l, arm)
	if arm.Load.CPU >= arm.VCPUs {
		s.mistake(l.cpu.at, fmt.Sprintf("want 0 to %d, or last", arm.VCPUs-1), "arm %s: load on CPU %d of %d virtual ones", arm.Name, arm.Load.CPU, arm.VCPUs)
	}
	if arm.Load.Hold <= arm.Duration {
		return
	}
	at := l.hold.or(opt[time.Duration]{at: a.duration.at}).at
	s.mistake(at, "the load has to end before the trial does, or the trial can't show what ends with it",
		"arm %s: hold %s is longer than duration %s", arm.Name, short(arm.Load.Hold), short(arm.Duration))
}

func (s *source) checkKnobs(l loadText, arm Arm) {
	kind := arm.Load.Kind
	for _, k := range []struct {
		name string
		at   pos
		set  bool
	}{
		{"inflight", l.inflight.at, l.inflight.set}, {"rate", l.rate.at, l.rate.set}, {"batch", l.batch.at, l.batch.set},
		{"window", l.window.at, l.window.set}, {"size", l.size.at, l.size.set}, {"rtt", l.rtt.at, l.rtt.set},
		{"from", l.from.at, l.from.set}, {"band", l.band.at, l.band.set},
	} {
		if k.set && !kind.has(k.name) {
			noun := "load "
			if len(owners(k.name)) > 1 {
				noun = "loads "
			}
			s.mistake(k.at, k.name+" belongs to the "+noun+andList(words(owners(k.name))), "arm %s: the load %s has no %s", arm.Name, kind, k.name)
		}
	}
	switch {
	case kind == Paced && !l.rate.set:
		s.mistake(l.kind.at, "add rate: and packets per second, such as rate: 80862/s", "arm %s: the load paced has no rate", arm.Name)
	case kind == Recorded && !l.from.set:
		s.mistake(l.kind.at, "add from: and a trial such as RUN/TRIAL, or a file of arrival instants", "arm %s: the load recorded says not from where", arm.Name)
	case arm.Load.Size != 0 && arm.Load.Rate > maxRate(arm.Load.Size):
		s.mistake(l.rate.at, fmt.Sprintf("want at most %d/s of them", maxRate(arm.Load.Size)),
			"arm %s: %d/s of %d bytes are more than 100 Gbit/s carry", arm.Name, arm.Load.Rate, arm.Load.Size)
	}
}

func andList(names []string) string {
	if n := len(names); n > 1 {
		return strings.Join(names[:n-1], ", ") + " and " + names[n-1]
	}
	return strings.Join(names, "")
}

// InFlight is how many packets the load keeps in flight: a bounce's frames or a closed loop's window; 0
// for a load that bounds nothing.
func (l Load) InFlight() int { return max(l.Inflight, l.Window) }

// String says what the load is, without how long it lasts: "paced 80862/s in batches of 8, 60 bytes".
func (l Load) String() string {
	var b strings.Builder
	b.WriteString(string(l.Kind))
	if l.Inflight > 0 {
		fmt.Fprintf(&b, " of %d", l.Inflight)
	}
	if l.Rate > 0 {
		fmt.Fprintf(&b, " %d/s", l.Rate)
	}
	if l.Batch > 1 {
		fmt.Fprintf(&b, " in batches of %d", l.Batch)
	}
	for _, part := range []struct {
		n      int
		format string
	}{{l.Window, ", %d in flight"}, {l.Size, ", %d bytes"}} {
		if part.n > 0 {
			fmt.Fprintf(&b, part.format, part.n)
		}
	}
	if l.From != "" {
		fmt.Fprintf(&b, ", from %s", l.From)
	}
	if l.Band != "" {
		b.WriteString(", steered to stay in the band")
	}
	return b.String()
}
