// SPDX-License-Identifier: MIT OR Apache-2.0

//go:build cgo && linux

package onstack

// #include "bridge.h"
import "C"

import "sync"

// tracebackMu lets a second caller wait for the first, where the core would send it away.
var tracebackMu sync.Mutex

// PrepareTraceback reads what package cgotraceback needs of the libraries that are loaded now: unwind tables and names.
// That package calls it by itself; call it again after dlopen to have names for the new library at once. It costs
// some ten milliseconds the first time.
func PrepareTraceback() error {
	tracebackMu.Lock()
	defer tracebackMu.Unlock()
	return coreError("prepare traceback", int(C.onstack_traceback_prepare()))
}
