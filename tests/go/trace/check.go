// SPDX-License-Identifier: MIT OR Apache-2.0

package trace

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
)

// Truncations are the names of ONSTACK_TRUNCATED_*.
var Truncations = []string{"not", "depth", "unreadable", "misaligned", "not_rising", "bad_return", "stack_switch",
	"by_design", "unwinder", "no_rule", "pending"}

// Verdict is what is right and wrong about a trace.
type Verdict struct {
	Samples, Rooted int
	Returns         int            // return addresses that were checked
	BadReturns      int            // of these, without a call in front
	Direct          int            // direct calls whose target is known
	Strangers       int            // of these, those that do not lead to the frame below
	Truncated       map[string]int // by reason
	FalseRoots      map[string]int // complete stacks that end elsewhere, by their last function
	Sites           map[string]int // truncated stacks, by their last two functions
	Wrong           map[string]int // bad returns and strangers, by what is wrong
	Leaves          map[string]int
}

// roots are where stacks begin.
var roots = map[string]bool{
	"runtime.goexit": true, "runtime.mstart": true, "runtime.mcall": true, "runtime.rt0_go": true,
	"_start": true, "clone3": true, "__clone3": true, "__GI___clone3": true, "clone": true, "__clone": true,
	"__GI___clone": true,
}

// exactAbove are functions that nothing called: the address above them is an interrupted one, written plus 1.
var exactAbove = map[string]bool{
	"runtime.asyncPreempt": true, "runtime.sigpanic": true, "runtime.sigpanic0": true, "runtime.debugCallV2": true,
	"runtime.sigreturn__sigaction": true, "__restore_rt": true,
}

// movesStack are functions of libgcc that end by dropping their callers' frames (eh_return).
var movesStack = map[string]bool{"_Unwind_RaiseException": true, "_Unwind_Resume": true, "_Unwind_ForcedUnwind": true}

// Check looks at all samples.
func Check(t *Trace, s *Symbols) *Verdict {
	v := &Verdict{Samples: len(t.Samples), Truncated: map[string]int{}, FalseRoots: map[string]int{},
		Sites: map[string]int{}, Wrong: map[string]int{}, Leaves: map[string]int{}}
	for _, sample := range t.Samples {
		v.checkEnd(t, sample, s)
		v.Leaves[plain(s.Name(sample.Frames[0]))]++
		for i := 1; i < len(sample.Frames); i++ {
			v.checkPair(t, s, sample.Frames[i-1], sample.Frames[i], i == 1)
		}
	}
	return v
}

// plain takes Go's ABI suffix off.
func plain(name string) string {
	name = strings.TrimSuffix(name, ".abi0")
	return name
}

func (v *Verdict) checkEnd(t *Trace, sample Sample, s *Symbols) {
	end := func(i int) string {
		i = len(sample.Frames) - 1 - i
		switch {
		case i < 0:
			return "-"
		case i == 0:
			f := s.Find(sample.Frames[0])
			if f != nil {
				return fmt.Sprintf("%s+%#x", plain(f.Name), sample.Frames[0]-f.Low)
			}
			return s.Name(sample.Frames[0])
		}
		return plain(s.Name(sample.Frames[i] - 1))
	}
	if sample.Truncation != 0 {
		v.Truncated[Truncations[sample.Truncation]]++
		v.Sites[Truncations[sample.Truncation]+" at "+end(0)+" < "+end(1)]++
		return
	}
	last := strings.Split(end(0), "+0x")[0]
	if last == "runtime.morestack" { // a goroutine that was preempted where it wanted stack; the thread has left it
		for _, address := range sample.Frames {
			if plain(s.Name(address-1)) == "runtime.schedule" || plain(s.Name(address)) == "runtime.schedule" {
				v.Rooted++
				return
			}
		}
	}
	// libc's own thread start has no name without its debug symbols.
	if roots[last] || last == "[unnamed]" && strings.Contains(t.file(sample.Frames[len(sample.Frames)-1]), "/libc.so") {
		v.Rooted++
		return
	}
	v.FalseRoots[end(0)+" < "+end(1)+" < "+end(2)]++
}

func (v *Verdict) checkPair(t *Trace, s *Symbols, below, above uint64, first bool) {
	if !first {
		below--
	}
	callee := s.Find(below)
	if callee != nil && exactAbove[plain(callee.Name)] {
		return
	}
	if f := s.Find(above - 1); f != nil && plain(f.Name) == "runtime.goexit" {
		return // the goroutine's first frame: the runtime made up a return into goexit
	}
	code, known := t.Before[above]
	if !known {
		v.Returns++
		v.BadReturns++
		v.Wrong[fmt.Sprintf("unreadable %#x above %s", above, s.Name(below))]++
		return
	}
	v.Returns++
	target, direct, call := decodeCall(above, code)
	if !call {
		v.BadReturns++
		v.Wrong[fmt.Sprintf("no call (% x): %s above %s", code, s.Name(above-1), s.Name(below))]++
		return
	}
	if !direct || callee == nil || s.inPLT(target) || movesStack[callee.Name] {
		return
	}
	called := s.Find(target)
	if called == nil {
		return
	}
	v.Direct++
	if !leadsTo(s, called, callee, 3) {
		v.Strangers++
		v.Wrong[fmt.Sprintf("%s calls %s, below is %s", s.Name(above-1), called.Name, callee.Name)]++
	}
}

// decodeCall looks for a call that ends at `after`: E8 rel32, or FF /2 of any length.
func decodeCall(after uint64, code []byte) (target uint64, direct, call bool) {
	n := len(code)
	if code[n-5] == 0xe8 {
		return after + uint64(int64(int32(binary.LittleEndian.Uint32(code[n-4:])))), true, true
	}
	for length := 2; length <= 7; length++ {
		if code[n-length] != 0xff || code[n-length+1]>>3&7 != 2 {
			continue
		}
		if modrmLength(code[n-length+1:]) == length-1 {
			return 0, false, true
		}
	}
	return 0, false, false
}

// modrmLength is the length of ModRM, SIB and displacement.
func modrmLength(code []byte) int {
	mode, register := code[0]>>6, code[0]&7
	if mode == 3 {
		return 1
	}
	length := 1
	if register == 4 {
		length++
		if len(code) > 1 && mode == 0 && code[1]&7 == 5 {
			return length + 4
		}
	}
	switch {
	case mode == 1:
		return length + 1
	case mode == 2, mode == 0 && register == 5:
		return length + 4
	}
	return length
}

// leadsTo says whether a call of `called` can be in `callee`: it is the same function, or jumps there (tail calls,
// at most `steps` of them).
func leadsTo(s *Symbols, called, callee *Function, steps int) bool {
	if called.Low <= callee.Low && callee.High <= called.High || callee.Low <= called.Low && called.High <= callee.High {
		return true
	}
	if steps == 0 {
		return false
	}
	for i := range called.Code {
		target, anywhere := decodeJump(called.Low+uint64(i), called.Code[i:])
		if anywhere {
			return true
		}
		if target == 0 {
			continue
		}
		if s.inPLT(target) {
			return true
		}
		if next := s.Find(target); next != nil && next != called && leadsTo(s, next, callee, steps-1) {
			return true
		}
	}
	return false
}

// decodeJump is the target of a jump at `at`, 0 if there is none; a jump through a register or memory leads anywhere.
func decodeJump(at uint64, code []byte) (target uint64, anywhere bool) {
	relative := func(length int) uint64 {
		if len(code) < length {
			return 0
		}
		return at + uint64(length) + uint64(int64(int32(binary.LittleEndian.Uint32(code[length-4:]))))
	}
	switch {
	case code[0] == 0xe9:
		return relative(5), false
	case len(code) < 2:
		return 0, false
	case code[0] == 0xeb:
		return at + 2 + uint64(int64(int8(code[1]))), false
	case code[0] == 0x0f && code[1]&0xf0 == 0x80:
		return relative(6), false
	}
	return 0, code[0] == 0xff && code[1]>>3&7 == 4
}

// Top are the n largest entries, "count name".
func Top(counts map[string]int, n int) []string {
	names := make([]string, 0, len(counts))
	for name := range counts {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int {
		return cmp.Or(cmp.Compare(counts[b], counts[a]), cmp.Compare(a, b))
	})
	for i, name := range names[:min(n, len(names))] {
		names[i] = fmt.Sprintf("%d %s", counts[name], name)
	}
	return names[:min(n, len(names))]
}
