// SPDX-License-Identifier: MIT OR Apache-2.0

package onstack

import (
	"cmp"
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

// Advice says what would keep most of the stacks that were lost in the module; "" where none was.
func (m ModuleStats) Advice() string {
	var worst string
	var most uint64
	for reason, lost := range m.LostBy {
		if text := advice(Truncation(reason).key()); text != "" && lost > most {
			worst, most = text, lost
		}
	}
	return worst
}

// optionNames are what the core's texts advise to change, in this package's words.
var optionNames = strings.NewReplacer("max_depth", "WithMaxDepth", "buffer_bytes", "WithBufferSize", "frequency", "WithRate")

// String is a line for people: the path and the advice.
func (m ModuleStats) String() string {
	path := cmp.Or(m.Path, "code generated at run time")
	return path + ": " + cmp.Or(m.Advice(), "nothing was lost there")
}

// byLoss puts those that lost most first.
func byLoss(modules []ModuleStats) {
	slices.SortStableFunc(modules, func(a, b ModuleStats) int { return cmp.Compare(b.Lost, a.Lost) })
}
