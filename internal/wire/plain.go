package wire

import (
	"bytes"
	"time"

	"github.com/napistall/napistall/internal/experiment"
	"github.com/napistall/napistall/internal/rcu"
)

// plainSample reads the line of a sample that was not slow, as Writer writes it and as nearly every line of a long trial
// is: a report of 200,000 of them took 1.3 s of CPU time by package json, and takes 0.4 s by this. Whatever is not
// exactly so is json's: it returns false.
func plainSample(line []byte) (experiment.Record, bool) {
	p := plain{line, true}
	var s experiment.Sample
	r := experiment.Record{N: int(p.number(`{"n":`))}
	if p.has(`,"at":`) {
		r.At = rcu.Ktime(p.number(`,"at":`))
	}
	p.literal(`,"sample":{`)
	s.Op = p.word(`"op":"`, experiment.LinkDel, experiment.Membarrier, experiment.RCUBarrier)
	s.Start = rcu.Ktime(p.number(`,"start":`))
	s.Took = time.Duration(p.number(`,"took":`))
	if p.has(`,"censored":true`) {
		p.literal(`,"censored":true`)
		s.Censored = true
	}
	s.Phase = p.word(`,"phase":"`, experiment.Hold, experiment.Tail)
	p.literal(`}}`)
	r.Sample = &s
	return r, p.ok && len(p.rest) == 0
}

// plain is the rest of a line, as long as all before it was as expected.
type plain struct {
	rest []byte
	ok   bool
}

func (p *plain) has(text string) bool { return bytes.HasPrefix(p.rest, []byte(text)) }

// literal takes text away.
func (p *plain) literal(text string) {
	if p.ok = p.ok && p.has(text); p.ok {
		p.rest = p.rest[len(text):]
	}
}

// maxDigits of a whole number fit into 64 bits whatever they are.
const maxDigits = 18

// number takes away text and a whole number behind it, of which there are more ways to write it in JSON than this.
func (p *plain) number(text string) int64 {
	p.literal(text)
	n, i := int64(0), 0
	for i < len(p.rest) && p.rest[i] >= '0' && p.rest[i] <= '9' {
		n = n*10 + int64(p.rest[i]-'0')
		if i++; i > maxDigits {
			break
		}
	}
	if i == 0 || i > maxDigits || i > 1 && p.rest[0] == '0' {
		p.ok = false
	}
	p.rest = p.rest[i:]
	return n
}

// word takes away text, one of words and the quotation mark that ends it.
func (p *plain) word(text string, words ...string) string {
	p.literal(text)
	for _, w := range words {
		if p.has(w + `"`) {
			p.literal(w + `"`)
			return w
		}
	}
	p.ok = false
	return ""
}
