package load

import (
	"encoding/binary"
	"time"

	"github.com/cilium/ebpf/asm"

	"github.com/napistall/napistall/internal/rcu"
)

// License of our BPF programs. bpf_ktime_get_ns is for GPL-compatible programs only before 5.8.
const license = "Dual MIT/GPL"

// What an XDP program returns (include/uapi/linux/bpf.h).
const (
	xdpDrop = 1
	xdpPass = 2
)

// Offsets in struct xdp_md, which is kernel ABI.
const (
	xdpData    = 0
	xdpDataEnd = 4
)

// ownFrame jumps to "drop" for whatever is none of the load's frames.
func ownFrame() asm.Instructions {
	own := int32(binary.NativeEndian.Uint16([]byte{etherType >> 8, etherType & 0xff}))
	return asm.Instructions{
		asm.LoadMem(asm.R2, asm.R1, xdpData, asm.Word),
		asm.LoadMem(asm.R3, asm.R1, xdpDataEnd, asm.Word),
		asm.Mov.Reg(asm.R4, asm.R2),
		asm.Add.Imm(asm.R4, headerLen),
		asm.JGT.Reg(asm.R4, asm.R3, "drop"),
		asm.LoadMem(asm.R5, asm.R2, 12, asm.Half),
		asm.JNE.Imm(asm.R5, own, "drop"),
	}
}

// bounceProgram sends each of the load's frames back into device ifindex until deadline, and drops
// every frame after it, and every other frame at any time. The deadline is part of the program, so
// that the loop ends whatever becomes of us.
func bounceProgram(ifindex int, deadline rcu.Ktime) asm.Instructions {
	return append(ownFrame(),
		asm.FnKtimeGetNs.Call(),
		asm.LoadImm(asm.R1, int64(deadline), asm.DWord),
		asm.JGE.Reg(asm.R0, asm.R1, "drop"),
		asm.Mov.Imm(asm.R1, int32(ifindex)),
		asm.Mov.Imm(asm.R2, 0),
		asm.FnRedirect.Call(),
		asm.Return(),
		asm.Mov.Imm(asm.R0, xdpDrop).WithSymbol("drop"),
		asm.Return(),
	)
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

// consumeProgram gives the load's frames to the program in devmap, which runs once they have all been taken
// from the ring, and drops every other frame. first is done for each of the load's frames before that.
func consumeProgram(devmapFD int, first asm.Instructions) asm.Instructions {
	return append(append(ownFrame(), first...),
		asm.LoadMapPtr(asm.R1, devmapFD),
		asm.Mov.Imm(asm.R2, 0),
		asm.Mov.Imm(asm.R3, xdpDrop), // where the map has no device
		asm.FnRedirectMap.Call(),
		asm.Return(),
		asm.Mov.Imm(asm.R0, xdpDrop).WithSymbol("drop"),
		asm.Return(),
	)
}

// countRung counts a frame that is taken from the ring, in settingFD.
func countRung(settingFD int) asm.Instructions {
	return append(setting(settingFD, -4),
		asm.LoadMem(asm.R1, asm.R0, settingRung, asm.DWord), // no other CPU writes it: a NAPI runs on one at a time
		asm.Add.Imm(asm.R1, 1),
		asm.StoreMem(asm.R0, settingRung, asm.R1, asm.DWord))
}

// burnRounds and pollRounds bound how often workProgram and pollProgram look whether they are done. The verifier
// follows every round, and gives up beyond 8192 open branches (BPF_COMPLEXITY_LIMIT_JMP_SEQ) and a million
// instructions.
const (
	burnRounds = 4000
	pollRounds = 1000
)

// readCost is what reading the clock takes on a fast machine.
const readCost = 20 * time.Nanosecond

// burnReads is how many readings of the clock a round has, so that all rounds last for work at least.
func burnReads(work time.Duration, rounds int) int {
	return 1 + int(work/(time.Duration(rounds)*readCost))
}

// burn reads the clock n times.
func burn(n int) asm.Instructions {
	var p asm.Instructions
	for range n {
		p = append(p, asm.FnKtimeGetNs.Call())
	}
	return p
}

// Offsets in what workProgram and its frames share with us: a setting, and for each frame of a window its own
// counts. A frame's number is right behind its Ethernet header.
const (
	settingWindow   = 0  // frames with a smaller number go round again
	settingDeadline = 8  // until then, on CLOCK_MONOTONIC
	settingRung     = 16 // frames taken from the ring, where countRung counts them
	settingSent     = 24 // frames put into the ring, where the sender counts them
	settingSize     = 32

	countTaken = 0 // how often the frame was taken from the ring
	countGone  = 8 // how often it was dropped after that
	countSize  = 16

	frameNumber = headerLen
)

// workProgram takes a frame that was redirected, works for as long as work, and lets it go on to the target if its
// number is within the window and the deadline is not over; else it drops it. XDP runs it when it flushes what
// was redirected, 16 frames at once or at the end of a poll: what arrives during that work, or is sent back
// after it, is in the ring when the NAPI completes, as with a driver whose packets go up the stack when it
// completes. settingFD is an array of one setting, countsFD one of counts by number.
func workProgram(settingFD, countsFD int, work time.Duration) asm.Instructions {
	const key, number = -4, -8
	p := append(takenFrame(countsFD, number),
		asm.FnKtimeGetNs.Call(),
		asm.Mov.Reg(asm.R6, asm.R0),
		asm.Add.Imm(asm.R6, int32(work)),
		asm.Mov.Imm(asm.R7, 0),
		asm.FnKtimeGetNs.Call().WithSymbol("burn"))
	p = append(p, burn(burnReads(work, burnRounds)-1)...)
	p = append(p,
		asm.JGE.Reg(asm.R0, asm.R6, "burnt"),
		asm.Add.Imm(asm.R7, 1),
		asm.JLT.Imm(asm.R7, burnRounds, "burn"))
	found := setting(settingFD, key)
	found[0] = found[0].WithSymbol("burnt")
	p = append(p, found...)
	return append(p,
		asm.LoadMem(asm.R1, asm.R0, settingWindow, asm.DWord),
		asm.JGE.Reg(asm.R8, asm.R1, "gone"),
		asm.LoadMem(asm.R1, asm.R0, settingDeadline, asm.DWord),
		asm.JGE.Reg(asm.R6, asm.R1, "gone"),
		asm.Mov.Imm(asm.R0, xdpPass),
		asm.Return(),
		asm.LoadMem(asm.R1, asm.R9, countGone, asm.DWord).WithSymbol("gone"),
		asm.Add.Imm(asm.R1, 1),
		asm.StoreMem(asm.R9, countGone, asm.R1, asm.DWord),
		asm.Mov.Imm(asm.R0, xdpDrop).WithSymbol("drop"),
		asm.Return())
}

// takenFrame counts a frame that was redirected. It leaves the frame's number in R8, its counts in R9, how often it was
// taken in R7.
func takenFrame(countsFD int, number int16) asm.Instructions {
	return asm.Instructions{
		asm.LoadMem(asm.R2, asm.R1, xdpData, asm.Word),
		asm.LoadMem(asm.R3, asm.R1, xdpDataEnd, asm.Word),
		asm.Mov.Reg(asm.R4, asm.R2),
		asm.Add.Imm(asm.R4, frameNumber+4),
		asm.JGT.Reg(asm.R4, asm.R3, "drop"),
		asm.LoadMem(asm.R8, asm.R2, frameNumber, asm.Word),
		asm.StoreMem(asm.R10, number, asm.R8, asm.Word),
		asm.LoadMapPtr(asm.R1, countsFD),
		asm.Mov.Reg(asm.R2, asm.R10),
		asm.Add.Imm(asm.R2, int32(number)),
		asm.FnMapLookupElem.Call(),
		asm.JEq.Imm(asm.R0, 0, "drop"),
		asm.Mov.Reg(asm.R9, asm.R0),
		asm.LoadMem(asm.R7, asm.R9, countTaken, asm.DWord), // no other CPU writes it: a NAPI runs on one at a time
		asm.Add.Imm(asm.R7, 1),
		asm.StoreMem(asm.R9, countTaken, asm.R7, asm.DWord),
	}
}

// setting points R0 to the setting. Its key goes on the stack.
func setting(settingFD int, key int16) asm.Instructions {
	return asm.Instructions{
		asm.Mov.Imm(asm.R1, 0),
		asm.StoreMem(asm.R10, key, asm.R1, asm.Word),
		asm.LoadMapPtr(asm.R1, settingFD),
		asm.Mov.Reg(asm.R2, asm.R10),
		asm.Add.Imm(asm.R2, int32(key)),
		asm.FnMapLookupElem.Call(),
		asm.JEq.Imm(asm.R0, 0, "drop"),
	}
}

// pollProgram is workProgram for frames that all have number 0, were counted by countRung, and are all dropped. It
// works once in each poll, for its last frame: while XDP flushes 16 in the middle of a poll, the one that has made it do
// so is counted and not yet here. It works for as long as work, and goes on until the next frame is in the ring, by the
// sender's count, or for as long as maxWait in all.
func pollProgram(settingFD, countsFD int, work time.Duration) asm.Instructions {
	const key, number = -4, -8
	p := append(takenFrame(countsFD, number), setting(settingFD, key)...)
	p = append(p,
		asm.Mov.Reg(asm.R8, asm.R0),
		asm.LoadMem(asm.R9, asm.R8, settingRung, asm.DWord),
		asm.JNE.Reg(asm.R9, asm.R7, "drop"),
		asm.FnKtimeGetNs.Call(),
		asm.Mov.Reg(asm.R6, asm.R0),
		asm.Mov.Imm(asm.R7, 0),
		asm.FnKtimeGetNs.Call().WithSymbol("burn"))
	p = append(p, burn(burnReads(sureWait, pollRounds)-1)...)
	return append(p,
		asm.Sub.Reg(asm.R0, asm.R6),
		asm.JLT.Imm(asm.R0, int32(work), "on"),
		asm.LoadMem(asm.R1, asm.R8, settingSent, asm.DWord),
		asm.JGT.Reg(asm.R1, asm.R9, "drop"),
		asm.JGE.Imm(asm.R0, int32(maxWait), "drop"),
		asm.Add.Imm(asm.R7, 1).WithSymbol("on"),
		asm.JLT.Imm(asm.R7, pollRounds, "burn"),
		asm.Mov.Imm(asm.R0, xdpDrop).WithSymbol("drop"),
		asm.Return())
}

// passProgram lets every frame go up the stack.
func passProgram() asm.Instructions {
	return asm.Instructions{asm.Mov.Imm(asm.R0, xdpPass), asm.Return()}
}
