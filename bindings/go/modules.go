// SPDX-License-Identifier: MIT OR Apache-2.0

package onstack

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// ModuleStats tells how the frames in one program or library led to their callers, and what was lost there.
type ModuleStats struct {
	Path         string // as the loader names it; "" for code in no file (generated at run time)
	Rules        uint64 // frames left by unwind tables
	Go           uint64 // frames left by Go's own tables
	FramePointer uint64 // frames left by the chain of frame pointers
	Ended        uint64 // stacks whose root lies here
	Lost         uint64 // stacks that were cut behind a frame that lies here
	LostBy       [truncationCount]uint64
}

const adviceFramePointers = "it has neither unwind tables nor frame pointers: build it with " +
	"-fasynchronous-unwind-tables or -fno-omit-frame-pointer (for generated code: let the compiler keep frame pointers)"

// lossAdvice has no entry for what is no fault of the module.
var lossAdvice = map[Truncation]string{
	TruncatedDepth: "stacks there are deeper than the profile keeps: raise WithMaxDepth",
	TruncatedUnreadable: "its frames lead to memory that cannot be read: wrong unwind information, or code without frame " +
		"pointers; build it with -fasynchronous-unwind-tables",
	TruncatedMisaligned: adviceFramePointers,
	TruncatedNotRising:  adviceFramePointers,
	TruncatedBadReturn: "its callers lie in no code that was known: it was generated or loaded in the last moments, or has " +
		"wrong unwind information",
	TruncatedStackSwitch: "it changes stacks in a way that is not known (coroutines, fibers)",
	TruncatedUnwinder:    "the unwinder ended there",
	TruncatedNoRule: "parts of it have no unwind information (assembly, most often): .cfi directives there, or -g for the " +
		"assembler",
	TruncatedPending: "its unwind information was still being read, as in the first moments after it is loaded or a profile " +
		"begins: later samples have their callers",
}

// Advice says what would keep most of the stacks that were lost in the module; "" where none was.
func (m ModuleStats) Advice() string {
	worst := Truncation(0)
	for reason := range m.LostBy {
		if lossAdvice[Truncation(reason)] != "" && m.LostBy[reason] > m.LostBy[worst] {
			worst = Truncation(reason)
		}
	}
	return lossAdvice[worst]
}

// String is a line for people: the path and the advice.
func (m ModuleStats) String() string {
	path := cmp.Or(m.Path, "code generated at run time")
	return path + ": " + cmp.Or(m.Advice(), "nothing was lost there")
}

// mostComments is how many modules a profile's comments name.
const mostComments = 20

// comments are the counters and the modules that lost stacks, as the command-line tool `onstack stat` reads them.
func comments(s Stats, modules []ModuleStats) []string {
	lines := []string{fmt.Sprintf("onstack.stats clock=%s unwinder=%s reader=%s period_ns=%d ticks=%d recorded=%d samples=%d "+
		"unattributed=%d dropped_ring_full=%d dropped_no_stack=%d dropped_unwinder=%d dropped_stopping=%d dropped_sink=%d "+
		"blocked=%d truncated=%d threads_seen=%d threads_unarmed=%d forwarded=%d", s.Clock, s.Unwinder, s.Reader, s.Period.Nanoseconds(), s.Ticks,
		s.Recorded, s.Samples, s.Unattributed, s.DroppedRingFull, s.DroppedNoStack, s.DroppedUnwinder, s.DroppedStopping,
		s.DroppedSink, s.Blocked, s.Truncated, s.ThreadsSeen, s.ThreadsUnarmed, s.Forwarded)}
	for _, m := range modules {
		if m.Lost == 0 || len(lines) > mostComments {
			continue
		}
		line := fmt.Sprintf("onstack.module lost=%d", m.Lost)
		for reason, n := range m.LostBy {
			if n > 0 && lossAdvice[Truncation(reason)] != "" {
				line += fmt.Sprintf(" %s=%d", strings.ReplaceAll(Truncation(reason).String(), " ", "_"), n)
			}
		}
		lines = append(lines, line+" path="+strings.Map(oneLine, m.Path))
	}
	return lines
}

func oneLine(r rune) rune {
	if r == '\n' || r == '\r' {
		return ' '
	}
	return r
}

// byLoss puts those that lost most first.
func byLoss(modules []ModuleStats) {
	slices.SortStableFunc(modules, func(a, b ModuleStats) int { return cmp.Compare(b.Lost, a.Lost) })
}
