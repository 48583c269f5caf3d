package probe

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/cilium/ebpf/asm"
)

// License of our BPF programs: bpf_probe_read is for GPL-compatible programs only.
const license = "Dual MIT/GPL"

// counts is what the program keeps for each CPU. Its layout is the program's too, below.
type counts struct{ Polls, Full, Packets uint64 }

// Offsets in counts.
const (
	countPolls   = 0
	countFull    = 8
	countPackets = 16
	countsSize   = 24
)

// nameLen is how much of a device's name is compared: names have at most 15 bytes and a zero.
const nameLen = 16

// pollFields are what the program reads of the tracepoint napi:napi_poll.
type pollFields struct{ devName, work, budget int }

// pollFormat finds them in the tracepoint's format; the offsets differ between 32 and 64 bits.
func pollFormat(text string) (pollFields, error) {
	fields, err := parseFormat(text)
	if err != nil {
		return pollFields{}, err
	}
	var p pollFields
	for _, f := range []struct {
		name string
		to   *int
	}{{"dev_name", &p.devName}, {"work", &p.work}, {"budget", &p.budget}} {
		got, ok := fields[f.name]
		if !ok || got.size != 4 {
			return p, fmt.Errorf("tracepoint napi_poll: no field %s of 4 bytes: %w", f.name, errors.ErrUnsupported)
		}
		*f.to = got.offset
	}
	return p, nil
}

// pollProgram counts the polls of device, those of them that used their whole budget, and their
// packets, in the element 0 of a per-CPU array of counts.
func pollProgram(device string, f pollFields, mapFD int) asm.Instructions {
	const stack = -nameLen // the name, on the program's stack
	const key = stack - 8  // the array's index
	name := make([]byte, nameLen)
	copy(name, device)
	p := asm.Instructions{
		asm.Mov.Reg(asm.R6, asm.R1),
		// The name is in the record's dynamic part: the low half of the field is its place.
		asm.LoadMem(asm.R3, asm.R6, int16(f.devName), asm.Word),
		asm.And.Imm(asm.R3, 0xffff),
		asm.Add.Reg(asm.R3, asm.R6),
		asm.Mov.Reg(asm.R1, asm.R10),
		asm.Add.Imm(asm.R1, stack),
		asm.Mov.Imm(asm.R2, int32(len(device)+1)),
		asm.Mov.Imm(asm.R4, 0),
		asm.StoreMem(asm.R10, stack, asm.R4, asm.DWord),
		asm.StoreMem(asm.R10, stack+8, asm.R4, asm.DWord),
		asm.StoreMem(asm.R10, key, asm.R4, asm.DWord),
		asm.FnProbeRead.Call(),
		asm.JNE.Imm(asm.R0, 0, "out"),
	}
	for at := 0; at < nameLen; at += 8 {
		p = append(p,
			asm.LoadMem(asm.R1, asm.R10, int16(stack+at), asm.DWord),
			asm.LoadImm(asm.R2, int64(binary.NativeEndian.Uint64(name[at:])), asm.DWord),
			asm.JNE.Reg(asm.R1, asm.R2, "out"))
	}
	return append(p,
		asm.LoadMapPtr(asm.R1, mapFD),
		asm.Mov.Reg(asm.R2, asm.R10),
		asm.Add.Imm(asm.R2, key),
		asm.FnMapLookupElem.Call(),
		asm.JEq.Imm(asm.R0, 0, "out"),
		// Nothing else on this CPU writes the element: a poll runs with softirqs off.
		asm.LoadMem(asm.R7, asm.R6, int16(f.work), asm.Word),
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
