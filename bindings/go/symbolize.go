// SPDX-License-Identifier: MIT OR Apache-2.0

//go:build cgo && linux

package onstack

// #include "bridge.h"
import "C"

import (
	"runtime"
	"unsafe"

	"github.com/onstack-profiler/onstack/bindings/go/internal/nativelines"
)

// What runtime/pprof itself uses. The runtime promises other packages not to change these three (go.dev/issue/67401):
// the public runtime.CallersFrames does not expand the inlined callers of a bare PC.

//go:linkname expandFinalInlineFrame runtime/pprof.runtime_expandFinalInlineFrame
func expandFinalInlineFrame(stack []uintptr) []uintptr

//go:linkname frameStartLine runtime/pprof.runtime_FrameStartLine
func frameStartLine(f *runtime.Frame) int

//go:linkname frameSymbolName runtime/pprof.runtime_FrameSymbolName
func frameSymbolName(f *runtime.Frame) string

// onstackgoSymbolize names the addresses that lie in Go code, and in native code with debug information; the core's
// ELF symbols name the others.
//
//export onstackgoSymbolize
func onstackgoSymbolize(addresses *C.uint64_t, count C.size_t, table *C.onstack_symbol_table) C.int {
	s := symbolizer{table: table}
	var native []uint64
	numbers := map[uint64]int{}
	for i, address := range unsafe.Slice(addresses, int(count)) {
		frames := goFrames(uintptr(address))
		for _, frame := range frames {
			s.add(i, frameSymbolName(&frame), frame.File, int64(frame.Line), int64(frameStartLine(&frame)))
		}
		if len(frames) == 0 {
			native = append(native, uint64(address))
			numbers[uint64(address)] = i
		}
	}
	for address, frames := range nativelines.Find(native) {
		for _, frame := range frames {
			s.add(numbers[address], frame.Name, frame.File, frame.Line, frame.StartLine)
		}
	}
	return s.code
}

// symbolizer fills the core's table until an error.
type symbolizer struct {
	table *C.onstack_symbol_table
	names symbolNames
	code  C.int
}

func (s *symbolizer) add(number int, name, file string, line, startLine int64) {
	if s.code < 0 {
		return
	}
	cName, cFile := s.names.cStrings(name, file)
	s.code = C.onstackgo_symbol_add(s.table, C.size_t(number), cName, cFile, C.int64_t(line), C.int64_t(startLine))
}

// goFrames returns the functions at a look-up address, the innermost inlined one first; none where the code is not
// Go's.
func goFrames(address uintptr) []runtime.Frame {
	if runtime.FuncForPC(address) == nil {
		return nil
	}
	// The runtime expects a return address, and looks one byte before it.
	stack := expandFinalInlineFrame([]uintptr{address + 1})
	var found []runtime.Frame
	frames := runtime.CallersFrames(stack)
	for {
		frame, more := frames.Next()
		if frame.PC != 0 {
			found = append(found, frame)
		}
		if !more {
			return found
		}
	}
}

// symbolNames is scratch memory for two C strings. C may read it during the call only, as cgo's pointer rules have it.
type symbolNames []byte

func (s *symbolNames) cStrings(name, file string) (cName, cFile *C.char) {
	b := append((*s)[:0], name...)
	b = append(b, 0)
	fileAt := len(b)
	b = append(b, file...)
	b = append(b, 0)
	*s = b
	return (*C.char)(unsafe.Pointer(&b[0])), (*C.char)(unsafe.Pointer(&b[fileAt]))
}
