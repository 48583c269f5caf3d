package probe

import (
	"encoding/binary"

	"github.com/cilium/ebpf/asm"

	"github.com/napistall/napistall/internal/machine"
)

// License of our BPF programs: bpf_probe_read is for GPL-compatible programs only.
const license = "Dual MIT/GPL"

// nameLen is how much of a device's name is compared: names have at most 15 bytes and a zero.
const nameLen = 16

// pollProgram counts the polls of device, those of them that used their whole budget, and their
// packets, in the element 0 of a per-CPU array of counts.
func pollProgram(device string, f machine.PollFields, mapFD int) asm.Instructions {
	const stack = -nameLen // the name, on the program's stack
	const key = stack - 8  // the array's index
	name := make([]byte, nameLen)
	copy(name, device)
	p := asm.Instructions{
		asm.Mov.Reg(asm.R6, asm.R1),
		// The name is in the record's dynamic part: the low half of the field is its place.
		asm.LoadMem(asm.R3, asm.R6, int16(f.Name), asm.Word),
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
	p = append(p,
		asm.LoadMapPtr(asm.R1, mapFD),
		asm.Mov.Reg(asm.R2, asm.R10),
		asm.Add.Imm(asm.R2, key),
		asm.FnMapLookupElem.Call(),
		asm.JEq.Imm(asm.R0, 0, "out"))
	return append(p, f.Count()...)
}
