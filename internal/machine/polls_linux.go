package machine

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"github.com/cilium/ebpf/rlimit"
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
		var each []PollCount
		took := time.Since(start)
		for all := counts.Iterate(); all.Next(&name, &each); {
			p := Polls{Device: string(name[:]), Took: took}
			p.Device, _, _ = strings.Cut(p.Device, "\x00")
			sum := SumPolls(each)
			p.Polls, p.Full, p.Packets = sum.Polls, sum.Full, sum.Packets
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
	fields, err := NAPIPollFields()
	if err != nil {
		return nil, nil, err
	}
	counts, program, err := loadPolls(fields)
	if err != nil {
		return nil, nil, err
	}
	l, err := link.Tracepoint("napi", "napi_poll", program, nil)
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("attach the count of polls: %w", err), program.Close(), counts.Close())
	}
	return counts, func() { _ = errors.Join(l.Close(), program.Close(), counts.Close()) }, nil // the process ends with it
}

// loadPolls loads the program that counts, without attaching it.
func loadPolls(fields PollFields) (counts *ebpf.Map, program *ebpf.Program, err error) {
	if err := rlimit.RemoveMemlock(); err != nil {
		return nil, nil, fmt.Errorf("lift the limit on locked memory: %w", err)
	}
	counts, err = ebpf.NewMap(&ebpf.MapSpec{Name: "napi_polls", Type: ebpf.PerCPUHash, KeySize: deviceName, ValueSize: PollCountSize, MaxEntries: maxCounted})
	if err != nil {
		return nil, nil, fmt.Errorf("make the count of polls: %w", err)
	}
	program, err = ebpf.NewProgram(&ebpf.ProgramSpec{
		Name: "napi_polls", Type: ebpf.TracePoint, License: "Dual MIT/GPL", Instructions: pollProgram(fields, counts.FD()),
	})
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("load the count of polls: %w", err), counts.Close())
	}
	return counts, program, nil
}

// pollProgram adds one poll to its device's count, and makes that first where it is new.
func pollProgram(f PollFields, mapFD int) asm.Instructions {
	const name = -deviceName
	const zero = name - PollCountSize
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
		asm.LoadMem(asm.R3, asm.R6, int16(f.Name), asm.Word),
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
	p = append(p, asm.Ja.Label("out"))
	count := f.Count()
	count[0] = count[0].WithSymbol("count")
	return append(p, count...)
}
