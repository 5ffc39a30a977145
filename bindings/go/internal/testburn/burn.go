// SPDX-License-Identifier: MIT OR Apache-2.0

//go:build cgo && linux

// Package testburn spends CPU time under names that the tests look for. It is a package of its own since cgo is not
// allowed in test files.
package testburn

/*
#cgo CFLAGS: -O1 -fno-omit-frame-pointer
// The test command links without a symbol table; exported functions keep their names in .dynsym.
#cgo LDFLAGS: -lpthread -rdynamic
#include <stdlib.h>
#include "burn.h"
*/
import "C"

import (
	"fmt"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"
)

// Native spends CPU time in the C function testburn_leaf, under testburn_caller.
//
//go:noinline
func Native(d time.Duration) {
	C.testburn_caller(C.int(d.Milliseconds()))
}

// Mangled does so under functions of C++ and Rust: testburn::cxx(int, char const*), two of the name testburn::rust, and
// testburn::v0.
func Mangled(d time.Duration) {
	C.testburn_mangled(C.int(d.Milliseconds()))
}

// NativeThread does so on a thread that Go does not know and returns when it has ended. Names have at most 15 bytes.
func NativeThread(name string, d time.Duration) error {
	cName := C.CString(name)
	defer C.free(unsafe.Pointer(cName))
	if code := C.testburn_on_thread(cName, C.int(d.Milliseconds())); code != 0 {
		return fmt.Errorf("testburn: thread: %w", syscall.Errno(code))
	}
	return nil
}

var sink atomic.Uint64

// Go spends d of the process's CPU time in goInlined, which the compiler inlines into Go.
//
//go:noinline
func Go(d time.Duration) {
	x := sink.Load()
	for end := CPUTime() + d; CPUTime() < end; {
		for range 2000 {
			x = goInlined(x)
		}
	}
	sink.Store(x)
}

// goInlined touches no memory: the race detector's calls would be the leaves otherwise.
func goInlined(x uint64) uint64 {
	for range 100 {
		x = x*6364136223846793005 + 1442695040888963407
	}
	return x
}

// CPUTime is the CPU time of the process so far.
func CPUTime() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		panic(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// BesideSleepers calls work while threads that Go does not know wait in poll, and tells how many of their polls ended early
// (EINTR), of how many.
func BesideSleepers(work func()) (early, all int, err error) {
	if C.testburn_begin_polls(8) != 0 {
		return 0, 0, fmt.Errorf("testburn: no thread for polling")
	}
	work()
	var cEarly, cAll C.long
	C.testburn_end_polls(&cEarly, &cAll)
	return int(cEarly), int(cAll), nil
}
