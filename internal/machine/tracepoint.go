package machine

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/cilium/ebpf/asm"
)

// A PollCount is what a program at the tracepoint napi:napi_poll keeps for each CPU: polls, those of them that used
// their whole budget, and packets. Its layout is the program's too.
type PollCount struct{ Polls, Full, Packets uint64 }

// PollCountSize is the size of a PollCount, in bytes.
const PollCountSize = 24

// Offsets in PollCount.
const (
	countPolls   = 0
	countFull    = 8
	countPackets = 16
)

// SumPolls adds up what the CPUs have counted.
func SumPolls(each []PollCount) PollCount {
	var sum PollCount
	for _, c := range each {
		sum.Polls += c.Polls
		sum.Full += c.Full
		sum.Packets += c.Packets
	}
	return sum
}

// PollFields are where a program finds what it reads of the tracepoint napi:napi_poll, as offsets in its record.
type PollFields struct{ Name, Work, Budget int }

// NAPIPollFields reads them from tracefs. The error matches errors.ErrUnsupported where the tracepoint can't be seen.
func NAPIPollFields() (PollFields, error) {
	for _, root := range []string{"/sys/kernel/tracing", "/sys/kernel/debug/tracing"} {
		if b, err := os.ReadFile(root + "/events/napi/napi_poll/format"); err == nil {
			return ParsePollFields(string(b))
		}
	}
	return PollFields{}, fmt.Errorf("the tracepoint napi:napi_poll is not there (CONFIG_EVENT_TRACING, tracefs mounted, root): %w", errors.ErrUnsupported)
}

// ParsePollFields finds them in the tracepoint's format; the offsets differ between 32 and 64 bits.
func ParsePollFields(text string) (PollFields, error) {
	fields, err := parseFormat(text)
	if err != nil {
		return PollFields{}, err
	}
	var p PollFields
	for _, f := range []struct {
		name string
		to   *int
	}{{"dev_name", &p.Name}, {"work", &p.Work}, {"budget", &p.Budget}} {
		got, ok := fields[f.name]
		if !ok || got.size != 4 {
			return p, fmt.Errorf("tracepoint napi_poll: no field %s of 4 bytes: %w", f.name, errors.ErrUnsupported)
		}
		*f.to = got.offset
	}
	return p, nil
}

// Count is the end of a program: it adds the poll whose record R6 points to, to the PollCount that R0 points to. Its last
// two instructions, with the symbol "out", return.
func (f PollFields) Count() asm.Instructions {
	return asm.Instructions{
		// Nothing else on this CPU writes the element: a poll runs with softirqs off.
		asm.LoadMem(asm.R7, asm.R6, int16(f.Work), asm.Word),
		asm.LoadMem(asm.R8, asm.R6, int16(f.Budget), asm.Word),
		asm.LoadMem(asm.R1, asm.R0, countPolls, asm.DWord),
		asm.Add.Imm(asm.R1, 1),
		asm.StoreMem(asm.R0, countPolls, asm.R1, asm.DWord),
		asm.LoadMem(asm.R1, asm.R0, countPackets, asm.DWord),
		asm.Add.Reg(asm.R1, asm.R7),
		asm.StoreMem(asm.R0, countPackets, asm.R1, asm.DWord),
		asm.JLT.Reg(asm.R7, asm.R8, "out"),
		asm.LoadMem(asm.R1, asm.R0, countFull, asm.DWord),
		asm.Add.Imm(asm.R1, 1),
		asm.StoreMem(asm.R0, countFull, asm.R1, asm.DWord),
		asm.Mov.Imm(asm.R0, 0).WithSymbol("out"),
		asm.Return(),
	}
}

// A field is where one field of a tracepoint's record lies.
type field struct{ offset, size int }

// parseFormat returns the fields of a tracepoint by name, from the text of its format file.
func parseFormat(text string) (map[string]field, error) {
	fields := map[string]field{}
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if !strings.HasPrefix(line, "field:") {
			continue
		}
		var f field
		var name string
		for part := range strings.SplitSeq(line, ";") {
			key, value, _ := strings.Cut(strings.TrimSpace(part), ":")
			var err error
			switch key {
			case "field":
				words := strings.Fields(value)
				if len(words) == 0 {
					return nil, fmt.Errorf("tracepoint format: no name in %q", line)
				}
				name, _, _ = strings.Cut(strings.TrimLeft(words[len(words)-1], "*"), "[")
			case "offset":
				f.offset, err = parseOffset(value)
			case "size":
				f.size, err = parseOffset(value)
			}
			if err != nil {
				return nil, fmt.Errorf("tracepoint format: %q: %w", line, err)
			}
		}
		fields[name] = f
	}
	if len(fields) == 0 {
		return nil, errors.New("tracepoint format: no fields")
	}
	return fields, nil
}

// parseOffset reads a place in a tracepoint's record, which is shorter than a page.
func parseOffset(s string) (int, error) {
	n, err := strconv.ParseUint(s, 10, 12)
	return int(n), err
}
