// SPDX-License-Identifier: MIT OR Apache-2.0

package onstack

import (
	"fmt"
	"strings"
	"time"
)

// Truncation says why a stack could not be followed to its root. The frames that are there are right.
type Truncation int

const (
	TruncatedNot         Truncation = iota // followed to its root
	TruncatedDepth                         // more frames than WithMaxDepth
	TruncatedUnreadable                    // the next frame cannot be read
	TruncatedMisaligned                    // the frame pointer is not one: code without frame pointers
	TruncatedNotRising                     // the frame pointer points backwards
	TruncatedBadReturn                     // the return address is not in code
	TruncatedStackSwitch                   // a switch of stacks that could not be followed
	TruncatedByDesign                      // the unwinder records no callers ("pc_only")
	TruncatedUnwinder                      // the unwinder said so
	TruncatedNoRule                        // code without unwind information: assembly, or generated without frame pointers
	TruncatedPending                       // code that is so new that its unwind information was still being read
	truncationCount
)

var truncationNames = [truncationCount]string{"not", "depth", "unreadable", "misaligned", "not rising", "bad return",
	"stack switch", "by design", "unwinder", "no rule", "pending"}

func (t Truncation) String() string {
	if t < 0 || t >= truncationCount {
		return "unknown"
	}
	return truncationNames[t]
}

// key is the core's word for it.
func (t Truncation) key() string { return strings.ReplaceAll(t.String(), " ", "_") }

// Unit is what a period is counted in.
type Unit uint32

const (
	UnitCount       Unit = 1
	UnitNanoseconds Unit = 2
	UnitBytes       Unit = 3
)

func (u Unit) String() string {
	switch u {
	case UnitCount:
		return "count"
	case UnitNanoseconds:
		return "nanoseconds"
	case UnitBytes:
		return "bytes"
	}
	return "unknown"
}

// Period is how much lies between one sample and the next.
type Period struct {
	Amount uint64
	Unit   Unit
}

// Duration returns a period of time; 0 for one of another unit.
func (p Period) Duration() time.Duration {
	if p.Unit != UnitNanoseconds {
		return 0
	}
	return time.Duration(p.Amount)
}

func (p Period) String() string {
	if p.Unit == UnitNanoseconds {
		return p.Duration().String()
	}
	return fmt.Sprintf("%d %v", p.Amount, p.Unit)
}

// Stats are the counters of a profile since its start. In ticks (a sample stands for one or more), exact once stopped:
//
//	Ticks == Recorded + Unattributed + DroppedRingFull + DroppedNoStack + DroppedUnwinder + DroppedStopping
type Stats struct {
	Running bool
	Period  Period // between two ticks of a thread; of ClockHeap the mean from one sample to the next

	Ticks     uint64 // recognized as this profile's
	Recorded  uint64 // ticks whose sample was kept
	Samples   uint64 // samples kept; Recorded / Samples is their mean weight
	Delivered uint64 // samples that have reached the profile

	Unattributed    uint64 // ticks that came more than 250 ms late: they belong to no stack
	DroppedRingFull uint64 // the buffer was full
	DroppedNoStack  uint64 // too little room on the signal stack
	DroppedUnwinder uint64 // the unwinder found no frame
	DroppedStopping uint64 // due, but not come when the profile was stopped, or come meanwhile
	Blocked         uint64 // of these: of threads that block SIGPROF, as libraries' own often do; they have no samples. While running: those that wait
	DroppedSink     uint64 // samples, not ticks, that found no memory in the profile

	Truncated   uint64 // samples whose stack did not reach its root
	TruncatedBy [truncationCount]uint64

	ThreadsSeen    uint64 // threads that got a timer
	ThreadsArmed   uint64 // of these, alive as far as known
	ThreadsUnarmed uint64 // attempts that found no timer (limits)

	// Of the signal action, which all profiles share, since it was installed:
	Forwarded      uint64 // foreign signals handed on, to runtime/pprof for the most part
	ForwardedTimer uint64 // of these, timers of others
	Swallowed      uint64 // foreign signals that nobody else wanted
	Late           uint64 // ticks of profiles that were over already
	Looped         uint64 // foreign signals that came back while being handed on, and were dropped

	// CPU is the process's CPU time while the profile ran, onstack's own left out: what Ticks * Period.Duration() comes to, give or take a
	// period a thread. Where that is less, threads have ended before a tick met them. 0 where it is not known: other clocks.
	CPU time.Duration

	HeapUntracked uint64 // sampled allocations that found no place among those in use: they count as allocated alone
	HeapInUse     uint64 // bytes that the sampled allocations in use stand for
	HeapReused    uint64 // blocks that were freed by ways that nobody saw, until their address came again

	WallRounds  uint64 // looks of ClockWall at all threads; with very many threads they come less often than asked for
	WallLooks   uint64 // at one thread that had run since the last look
	WallMoved   uint64 // of these, at threads that ran meanwhile: their stacks were not believed
	WallRefused uint64 // of these, that the kernel refused: the process has dropped its privileges without exec

	Interpreted          uint64 // samples with frames of an interpreter
	InterpretedCut       uint64 // of these, not with all: memory that could not be read, or too many
	InterpretedUnmatched uint64 // samples whose frames of an interpreter fit no native ones, and were left out
	InterpretedUnnamed   uint64 // of Interpreted, those with a function that was gone before it was named

	// GoroutineLabels says whether samples carry the labels of pprof.Do. It is false where WithGoroutineLabels said so,
	// and where this Go version keeps them in a way that is not known.
	GoroutineLabels bool

	Unwinder string // in use
	Reader   string // how memory is read: "probe", "copy", "none"
	Clock    string // what ticks: "cpu", "wall", "wall-signal", or "cpu-ticker" where timers are refused
}
