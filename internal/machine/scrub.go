package machine

import (
	"fmt"
	"net/netip"
	"regexp"
	"strings"
)

// A scrubber takes out of a text what says whose machine it is: hardware and IP addresses, names made of
// one (enx001122334455), and the host's name. The same thing always becomes the same word.
type scrubber struct {
	host  *regexp.Regexp // nil without a host name
	words map[string]string
	count map[string]int
}

// newScrubber returns one for a host of that name. A name of one or two letters can't be told from a word.
func newScrubber(hostname string) *scrubber {
	s := &scrubber{words: map[string]string{}, count: map[string]int{}}
	short, _, _ := strings.Cut(hostname, ".")
	if len(short) > 2 && short != "localhost" {
		s.host = regexp.MustCompile(`(?i)\b` + regexp.QuoteMeta(short) + `(\.[a-z0-9-]+)*\b`)
	}
	return s
}

var (
	hardware = regexp.MustCompile(`(?i)\b[0-9a-f]{2}([:-][0-9a-f]{2}){5,19}\b`)
	// byHardware are device names that udev or a driver made of an address.
	byHardware = regexp.MustCompile(`(?i)\b(enx|wlx|wwx|ibx|slx)[0-9a-f]{12}`)
	address4   = regexp.MustCompile(`\b(\d{1,3}\.){3}\d{1,3}\b`)
	address6   = regexp.MustCompile(`[0-9a-fA-F:]*:[0-9a-fA-F:.]*[0-9a-fA-F:]`)
)

func (s *scrubber) text(text string) string {
	text = byHardware.ReplaceAllStringFunc(text, func(name string) string { return s.word(name[:3], name) })
	text = hardware.ReplaceAllStringFunc(text, func(a string) string { return s.word("MAC", a) })
	for _, form := range []*regexp.Regexp{address6, address4} {
		text = form.ReplaceAllStringFunc(text, func(a string) string {
			ip, err := netip.ParseAddr(a)
			if err != nil || len(a) < 3 {
				return a
			}
			return s.word("IP", ip.String())
		})
	}
	return s.names(text)
}

// names takes out the host's name alone: four numbers in a kernel's release are no address.
func (s *scrubber) names(text string) string {
	if s.host == nil {
		return text
	}
	return s.host.ReplaceAllString(text, "HOST")
}

func (s *scrubber) word(kind, secret string) string {
	key := kind + strings.ToLower(secret)
	if s.words[key] == "" {
		s.count[kind]++
		s.words[key] = fmt.Sprintf("%s%d", kind, s.count[kind])
	}
	return s.words[key]
}

// keptArguments returns the words of a kernel's command line that decide how it schedules, polls and reports stalls.
// Whatever else stands there can be a password or a name, and is dropped.
func keptArguments(line string) string {
	var kept []string
	for word := range strings.FieldsSeq(line) {
		if word == "--" { // what follows is for init
			break
		}
		if keepsArgument(word) {
			kept = append(kept, word)
		}
	}
	return strings.Join(kept, " ")
}

func keepsArgument(word string) bool {
	name, value, _ := strings.Cut(word, "=")
	if len(value) > 64 {
		return false
	}
	for _, prefix := range []string{"rcupdate.", "rcutree.", "rcu_nocb", "srcutree.", "workqueue."} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	switch name {
	case "preempt", "threadirqs", "thread_backlog_napi", "nohz", "nohz_full", "isolcpus", "irqaffinity", "skew_tick", "idle", "clocksource",
		"nosmp", "maxcpus", "nr_cpus", "possible_cpus", "nosoftlockup", "nowatchdog", "nmi_watchdog", "watchdog_thresh", "hung_task_panic",
		"softlockup_panic", "mitigations", "quiet", "highres", "cpu_isolated", "sched_verbose", "lapic", "tsc":
		return true
	}
	return false
}
