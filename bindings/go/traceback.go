// SPDX-License-Identifier: MIT OR Apache-2.0

//go:build cgo && linux

package onstack

// #include "bridge.h"
// #include "cgotraceback.h"
import "C"

import (
	"runtime"
	"strings"
	"sync"
)

// tracebackMu lets a second caller wait for the first, where the core would send it away. The learner under it asks
// nothing that takes it: stacks that the runtime prints go into C alone.
var tracebackMu sync.Mutex

// printerKnown belongs to tracebackMu.
var printerKnown bool

// PrepareTraceback reads what package cgotraceback needs of the libraries that are loaded now: unwind tables and names.
// That package calls it by itself; call it again after dlopen to have names for the new library at once. It costs
// some ten milliseconds the first time.
func PrepareTraceback() error {
	tracebackMu.Lock()
	defer tracebackMu.Unlock()
	// Before the tables: without them no text has native frames, and none takes the time that an unknown printer takes.
	if !printerKnown {
		done := make(chan bool)
		go func() { done <- learnPrinter() }() // on a stack whose height is known
		printerKnown = <-done
	}
	return coreError("prepare traceback", int(C.onstack_traceback_prepare()))
}

// printerTrials is how often another question on the learner's thread may get in between: a tick of Go's own profile.
const printerTrials = 5

// learnPrinter finds out how to tell the passes of the runtime's printer apart: in the first text here it prints, in the
// second it skips at last, and a word of its frame says which. Without such a word stacks are printed as the runtime does it
// alone. Nothing is asked of ours, and nothing learned, where package cgotraceback is not in use.
func learnPrinter() bool {
	for range printerTrials {
		var printing, skipping [C.ONSTACKGO_PRINTER_WORDS]C.uintptr_t
		if C.onstackgo_printer_watch(0, &printing[0]) == 0 || C.onstackgo_printer_watch(printerDepth, &skipping[0]) == 0 {
			return false
		}
		for i, prints := range printing {
			f := runtime.FuncForPC(uintptr(prints))
			if f == nil || !strings.HasPrefix(f.Name(), "runtime.traceback1") || runtime.FuncForPC(uintptr(skipping[i])) != f ||
				prints == skipping[i] {
				continue
			}
			high := f.Entry()
			for runtime.FuncForPC(high) == f {
				high++
			}
			C.onstackgo_printer_known(C.uint32_t(i), prints, C.uintptr_t(f.Entry()), C.uintptr_t(high))
			return true
		}
	}
	return false
}

// printerDepth is more frames than the runtime prints of either end.
const printerDepth = 120

//export onstackgoPrint
func onstackgoPrint(depth C.int) {
	if depth == 0 {
		var text [64]byte // the runtime goes through the whole stack, whatever has room
		runtime.Stack(text[:], false)
		return
	}
	onstackgoPrintBelow(depth)
}

//go:noinline
func onstackgoPrintBelow(depth C.int) { onstackgoPrint(depth - 1) }
