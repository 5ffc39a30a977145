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
	"by_design", "unwinder"}

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
	"_start": true, "clone3": true, "__clone3": true, "clone": true, "__clone": true, "__GI___clone": true,
	"__restore_rt": false,
}

// exactAbove are functions that nothing called: the address above them is an interrupted one, written plus 1.
var exactAbove = map[string]bool{
	"runtime.asyncPreempt": true, "runtime.sigpanic": true, "runtime.debugCallV2": true,
	"runtime.sigreturn__sigaction": true, "__restore_rt": true,
}

// Check judges all samples.
func Check(t *Trace, s *Symbols) *Verdict {
	v := &Verdict{Samples: len(t.Samples), Truncated: map[string]int{}, FalseRoots: map[string]int{},
		Sites: map[string]int{}, Wrong: map[string]int{}, Leaves: map[string]int{}}
	for _, sample := range t.Samples {
		v.checkEnd(sample, s)
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

func (v *Verdict) checkEnd(sample Sample, s *Symbols) {
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
	if roots[last] || last == "[unnamed]" && len(sample.Frames) > 1 && roots[end(1)] {
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
	if !direct || callee == nil || s.inPLT(target) {
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
	for i := 0; i+5 <= len(called.Code); i++ {
		target := called.Low + uint64(i)
		switch {
		case called.Code[i] == 0xe9:
			target += 5 + uint64(int64(int32(binary.LittleEndian.Uint32(called.Code[i+1:]))))
		case called.Code[i] == 0x0f && called.Code[i+1]&0xf0 == 0x80 && i+6 <= len(called.Code):
			target += 6 + uint64(int64(int32(binary.LittleEndian.Uint32(called.Code[i+2:]))))
		case called.Code[i] == 0xeb:
			target += 2 + uint64(int64(int8(called.Code[i+1])))
		case called.Code[i] == 0xff && called.Code[i+1]>>3&7 == 4: // through a register or memory: anywhere
			return true
		default:
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
