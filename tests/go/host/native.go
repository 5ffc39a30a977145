// SPDX-License-Identifier: MIT OR Apache-2.0

package main

// The C code has no frame pointers: what lies in RBP at the way back into Go is chance.

/*
#cgo CFLAGS: -O2 -fomit-frame-pointer
#include "native.h"
*/
import "C"

import (
	"sync"
)

func native() { C.native_work(20000) }

// onNewStack runs work on a goroutine of its own, whose stack is small at first.
func onNewStack(work func()) {
	var done sync.WaitGroup
	done.Add(1)
	go func() { defer done.Done(); work() }()
	done.Wait()
}

// growInCallback: C calls Go, which moves the goroutine's stack, and burns afterwards.
func growInCallback() {
	onNewStack(func() { C.native_call_back(C.int(30), C.int(40000)) })
}

//export goGrow
func goGrow(depth C.int) {
	deep(int(depth), [16]uint64{})
	// The stack that was left is somebody else's from here on: who still believes in it finds other frames.
	for i := range 6 {
		onNewStack(func() { stir(4 + 8*i) })
	}
}

//go:noinline
func stir(n int) int {
	if n == 0 {
		return 1
	}
	return n + stir(n-1)
}

func nest() {
	onNewStack(func() { nestLevel(5) })
}

func nestLevel(level int) {
	C.native_nest(C.int(level), C.int(20000))
}

//export goNest
func goNest(level C.int) {
	deep(int(level)*12, [16]uint64{})
	nestLevel(int(level))
}

func tinyCalls() {
	x := C.int(1)
	for range 3000 {
		x = C.native_tiny(x)
	}
}

func tinyCallbacks() {
	for range 1000 {
		C.native_tiny_callback(1)
	}
}

//export goTiny
func goTiny(x C.int) C.int { return x + 1 }
