package load

import (
	"encoding/binary"

	"github.com/cilium/ebpf/asm"

	"github.com/napistall/napistall/internal/rcu"
)

// License of our BPF programs. bpf_ktime_get_ns is for GPL-compatible programs only before 5.8.
const license = "Dual MIT/GPL"

// What an XDP program returns (include/uapi/linux/bpf.h).
const xdpDrop = 1

// Offsets in struct xdp_md, which is kernel ABI.
const (
	xdpData    = 0
	xdpDataEnd = 4
)

// bounceProgram sends each of the load's frames back into device ifindex until deadline, and drops
// every frame after it, and every other frame at any time. The deadline is part of the program, so
// that the loop ends whatever becomes of us.
func bounceProgram(ifindex int, deadline rcu.Ktime) asm.Instructions {
	own := int32(binary.NativeEndian.Uint16([]byte{etherType >> 8, etherType & 0xff}))
	return asm.Instructions{
		asm.LoadMem(asm.R2, asm.R1, xdpData, asm.Word),
		asm.LoadMem(asm.R3, asm.R1, xdpDataEnd, asm.Word),
		asm.Mov.Reg(asm.R4, asm.R2),
		asm.Add.Imm(asm.R4, 14), // an Ethernet header
		asm.JGT.Reg(asm.R4, asm.R3, "drop"),
		asm.LoadMem(asm.R5, asm.R2, 12, asm.Half),
		asm.JNE.Imm(asm.R5, own, "drop"),
		asm.FnKtimeGetNs.Call(),
		asm.LoadImm(asm.R1, int64(deadline), asm.DWord),
		asm.JGE.Reg(asm.R0, asm.R1, "drop"),
		asm.Mov.Imm(asm.R1, int32(ifindex)),
		asm.Mov.Imm(asm.R2, 0),
		asm.FnRedirect.Call(),
		asm.Return(),
		asm.Mov.Imm(asm.R0, xdpDrop).WithSymbol("drop"),
		asm.Return(),
	}
}

// dropProgram drops every frame after reading the clock burn times, which stands for the work of a
// real receive path: without it, the receiver outruns any sender that makes a system call a frame.
func dropProgram(burn int) asm.Instructions {
	var p asm.Instructions
	for range burn {
		p = append(p, asm.FnKtimeGetNs.Call())
	}
	return append(p, asm.Mov.Imm(asm.R0, xdpDrop), asm.Return())
}
