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
	"sync/atomic"
)

// tracebackMu lets a second caller wait for the first, where the core would send it away.
var tracebackMu sync.Mutex

// PrepareTraceback reads what package cgotraceback needs of the libraries that are loaded now: unwind tables and names.
// That package calls it by itself; call it again after dlopen to have names for the new library at once. It costs
// some ten milliseconds the first time.
func PrepareTraceback() error {
	if err := prepareTraceback(); err != nil {
		return err
	}
	// Without the lock: the runtime walks stacks of ours meanwhile, and others may prepare.
	if !printerAsked.Swap(true) {
		learnPrinter()
	}
	return nil
}

func prepareTraceback() error {
	tracebackMu.Lock()
	defer tracebackMu.Unlock()
	return coreError("prepare traceback", int(C.onstack_traceback_prepare()))
}

var printerAsked atomic.Bool

// learnPrinter finds out how to tell the passes of the runtime's printer apart, once: in the first text here it prints,
// in the second it counts and skips as well, and a word of its frame says which. Without such a word stacks are printed as the
// runtime does it alone. Nothing is asked of ours, and nothing learned, where package cgotraceback is not in use.
func learnPrinter() {
	var printing, skipping, unused [C.ONSTACKGO_PRINTER_WORDS]C.uintptr_t
	if C.onstackgo_printer_watch(0, &printing[0], &unused[0]) == 0 {
		return
	}
	if C.onstackgo_printer_watch(printerDepth, &skipping[0], &unused[0]) == 0 {
		return
	}
	for i, prints := range printing {
		f := runtime.FuncForPC(uintptr(prints))
		if f == nil || !strings.HasPrefix(f.Name(), "runtime.traceback1") || runtime.FuncForPC(uintptr(skipping[i])) != f ||
			runtime.FuncForPC(uintptr(unused[i])) != f || prints == skipping[i] || prints == unused[i] {
			continue
		}
		high := f.Entry()
		for runtime.FuncForPC(high) == f {
			high++
		}
		C.onstackgo_printer_known(C.uint32_t(i), prints, C.uintptr_t(f.Entry()), C.uintptr_t(high))
		return
	}
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
