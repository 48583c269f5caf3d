package doctor

import (
	"fmt"
	"strings"

	"github.com/napistall/napistall/klog"
)

// A Log is what the kernel log of this boot reports.
type Log struct {
	Read     bool     `json:"read"`               // it could be read
	Events   int      `json:"events"`             // stalls, lockups, hung tasks
	Threaded int      `json:"threaded"`           // incidents that were judged threaded NAPI
	Last     *float64 `json:"last_sec,omitempty"` // of the newest of these, seconds since boot
	Summary  string   `json:"summary,omitempty"`  // of the newest of these
	Others   []string `json:"others,omitempty"`   // classes of the other incidents
}

// ReadLog judges the text of a kernel log; an empty one was not read.
func ReadLog(text string) Log {
	l := Log{Read: text != ""}
	var together []klog.Event
	flush := func() {
		if len(together) > 0 {
			l.add(together, klog.Judge(together))
			together = nil
		}
	}
	for e, err := range klog.Events(strings.NewReader(text)) {
		if err != nil {
			break // a reader of a string has no errors
		}
		l.Events++
		if !klog.Together(together, e) {
			flush()
		}
		together = append(together, e)
	}
	flush()
	return l
}

func (l *Log) add(events []klog.Event, v klog.Verdict) {
	if v.Class != klog.ThreadedNAPI {
		if class := string(v.Class); len(l.Others) < maxListed {
			l.Others = append(l.Others, class)
		}
		return
	}
	l.Threaded++
	l.Summary = v.Summary
	if e := events[len(events)-1]; e.HasTime {
		l.Last = new(e.Last.Seconds())
	}
}

// logFindings says what the kernel log already has of it.
func logFindings(l Log) []Finding {
	if l.Threaded == 0 {
		return nil
	}
	when := ""
	if l.Last != nil {
		when = fmt.Sprintf(", the last %.0f s after boot", *l.Last)
	}
	return []Finding{{ID: "log", State: Note, Title: fmt.Sprintf("The kernel log reports it: %s of this class since boot%s", plural(l.Threaded, "incident"), when),
		Evidence: []string{l.Summary}, Remedies: []Remedy{{What: "Read the whole report", Commands: []string{"dmesg | napistall parse"}}}}}
}

func plural(n int, word string) string {
	if n == 1 {
		return "1 " + word
	}
	return fmt.Sprintf("%d %ss", n, word)
}
