package machine

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"github.com/cilium/ebpf/rlimit"
)

// pollCount is what the program keeps for each CPU and device.
type pollCount struct{ Polls, Full, Packets uint64 }

// Offsets in pollCount.
const (
	countPolls   = 0
	countFull    = 8
	countPackets = 16
	countSize    = 24
)

const (
	deviceName = 16 // IFNAMSIZ
	maxCounted = 1024
)

// tellPolls counts the polls of every device at the tracepoint napi:napi_poll and tells them four times a second, as long
// as emit takes them. Detaching waits for grace periods: that is for a process that may hang.
func tellPolls(emit func(Beat) error) error {
	counts, closing, err := attachPolls()
	if err != nil {
		return emit(Beat{Why: err.Error()})
	}
	defer closing()
	start := time.Now()
	for next := start; ; next = next.Add(pollsEvery) {
		time.Sleep(time.Until(next))
		var name [deviceName]byte
		var each []pollCount
		took := time.Since(start)
		for all := counts.Iterate(); all.Next(&name, &each); {
			p := Polls{Device: string(name[:]), Took: took}
			p.Device, _, _ = strings.Cut(p.Device, "\x00")
			for _, c := range each {
				p.Polls += c.Polls
				p.Full += c.Full
				p.Packets += c.Packets
			}
			if err := emit(Beat{Polls: &p}); err != nil {
				return err
			}
		}
		if err := emit(Beat{Begin: &Wait{Took: took}}); err != nil { // also the sign that it is attached
			return err
		}
	}
}

// pollsEvery is how often the counts are told: a short watch wants some, too.
const pollsEvery = 250 * time.Millisecond

func attachPolls() (counts *ebpf.Map, closing func(), err error) {
	if runtime.GOARCH == "arm" {
		return nil, nil, errNotHere
	}
	fields, err := pollFormat()
	if err != nil {
		return nil, nil, err
	}
	if err := rlimit.RemoveMemlock(); err != nil {
		return nil, nil, fmt.Errorf("lift the limit on locked memory: %w", err)
	}
	counts, err = ebpf.NewMap(&ebpf.MapSpec{Name: "napi_polls", Type: ebpf.PerCPUHash, KeySize: deviceName, ValueSize: countSize, MaxEntries: maxCounted})
	if err != nil {
		return nil, nil, fmt.Errorf("make the count of polls: %w", err)
	}
	program, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Name: "napi_polls", Type: ebpf.TracePoint, License: "Dual MIT/GPL", Instructions: pollProgram(fields, counts.FD()),
	})
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("load the count of polls: %w", err), counts.Close())
	}
	l, err := link.Tracepoint("napi", "napi_poll", program, nil)
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("attach the count of polls: %w", err), program.Close(), counts.Close())
	}
	return counts, func() { _ = errors.Join(l.Close(), program.Close(), counts.Close()) }, nil // the process ends with it
}

// pollFields are where the program finds what it reads of the tracepoint.
type pollFields struct{ name, work, budget int }

var formatField = regexp.MustCompile(`field:[^;]*\b(dev_name|work|budget);\s*offset:(\d{1,3});\s*size:4;`)

func pollFormat() (pollFields, error) {
	for _, root := range []string{"/sys/kernel/tracing", "/sys/kernel/debug/tracing"} {
		if b, err := os.ReadFile(root + "/events/napi/napi_poll/format"); err == nil {
			return parsePollFormat(string(b))
		}
	}
	return pollFields{}, errors.New("the tracepoint napi:napi_poll is not there (CONFIG_EVENT_TRACING, tracefs mounted, root)")
}

func parsePollFormat(text string) (pollFields, error) {
	at := map[string]int{}
	for _, m := range formatField.FindAllStringSubmatch(text, -1) {
		n, err := strconv.Atoi(m[2])
		if err != nil {
			return pollFields{}, fmt.Errorf("tracepoint napi:napi_poll: %w", err)
		}
		at[m[1]] = n
	}
	if len(at) != 3 {
		return pollFields{}, errors.New("tracepoint napi:napi_poll: no dev_name, work and budget of 4 bytes")
	}
	return pollFields{at["dev_name"], at["work"], at["budget"]}, nil
}

// pollProgram adds one poll to its device's count, and makes that first where it is new.
func pollProgram(f pollFields, mapFD int) asm.Instructions {
	const name = -deviceName
	const zero = name - countSize
	var p asm.Instructions
	p = append(p, asm.Mov.Reg(asm.R6, asm.R1), asm.Mov.Imm(asm.R4, 0))
	for at := int16(zero); at < 0; at += 8 {
		p = append(p, asm.StoreMem(asm.R10, at, asm.R4, asm.DWord))
	}
	lookup := func(out string) asm.Instructions {
		return asm.Instructions{
			asm.LoadMapPtr(asm.R1, mapFD),
			asm.Mov.Reg(asm.R2, asm.R10),
			asm.Add.Imm(asm.R2, name),
			asm.FnMapLookupElem.Call(),
			asm.JNE.Imm(asm.R0, 0, out),
		}
	}
	p = append(p,
		// The name is in the record's dynamic part: the low half of the field is its place.
		asm.LoadMem(asm.R3, asm.R6, int16(f.name), asm.Word),
		asm.And.Imm(asm.R3, 0xffff),
		asm.Add.Reg(asm.R3, asm.R6),
		asm.Mov.Reg(asm.R1, asm.R10),
		asm.Add.Imm(asm.R1, name),
		asm.Mov.Imm(asm.R2, deviceName),
		asm.FnProbeReadStr.Call())
	p = append(p, lookup("count")...)
	p = append(p,
		asm.LoadMapPtr(asm.R1, mapFD),
		asm.Mov.Reg(asm.R2, asm.R10),
		asm.Add.Imm(asm.R2, name),
		asm.Mov.Reg(asm.R3, asm.R10),
		asm.Add.Imm(asm.R3, zero),
		asm.Mov.Imm(asm.R4, 1), // BPF_NOEXIST
		asm.FnMapUpdateElem.Call())
	p = append(p, lookup("count")...)
	return append(p,
		asm.Ja.Label("out"),
		// Nothing else on this CPU writes the element: a poll runs with softirqs off.
		asm.LoadMem(asm.R7, asm.R6, int16(f.work), asm.Word).WithSymbol("count"),
		asm.LoadMem(asm.R8, asm.R6, int16(f.budget), asm.Word),
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
	)
}
