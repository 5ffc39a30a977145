// SPDX-License-Identifier: MIT OR Apache-2.0

package main

// With and without frame pointers, by CGO_CFLAGS: without, the walk has to use .eh_frame, and x29 says nothing where C
// calls Go.

/*
#include "native.h"
*/
import "C"

import "time"

var sink uint64

// goLeaf has no frame.
//
//go:noinline
func goLeaf(x uint64) uint64 {
	for range 2000 {
		x = x*6364136223846793005 + 1442695040888963407
	}
	return x
}

// goSmall is mostly prologue and epilogue, and has a frame.
//
//go:noinline
func goSmall(x uint64) uint64 {
	if x%7 == 8 {
		panic(x)
	}
	return goTiny(x) + 1
}

//go:noinline
func goTiny(x uint64) uint64 { return x ^ x>>7 }

// goZero makes the compiler clear and copy by the runtime's duffzero and duffcopy, and has a large frame.
//
//go:noinline
func goZero(x uint64) uint64 {
	var words [100]uint64
	words[x%100] = x
	copied := words
	return goSum(&copied) + goSum(&words)
}

//go:noinline
func goSum(words *[100]uint64) uint64 { return words[3] + words[97] }

//go:noinline
func goMiddle(end time.Time) {
	x := sink
	for time.Now().Before(end) {
		for range 50 {
			x = goLeaf(x)
			for range 200 {
				x = goSmall(x) + goZero(x)
			}
		}
	}
	sink = x
}

//go:noinline
func goOuter(d time.Duration) {
	goMiddle(time.Now().Add(d))
	sink++
}

//go:noinline
func callNative(d time.Duration) {
	C.native_outer(C.int(d.Milliseconds()))
	sink++
}

//go:noinline
func callBridge(depth int, d time.Duration) {
	C.native_bridge(C.int(depth), C.int(d.Milliseconds()))
	sink++
}

// grow makes the goroutine's stack larger than it was when it entered C: the old one is freed.
//
//go:noinline
func grow(levels int, then func()) byte {
	var block [1024]byte
	block[levels%1024] = byte(levels)
	if levels == 0 {
		then()
	} else {
		block[0] = grow(levels-1, then)
	}
	return block[0] + block[levels%1024]
}

//go:noinline
func growOnce() { sink += uint64(grow(40, func() {})) }

//go:noinline
func callNothing(times int) {
	for range times {
		C.native_nothing()
	}
}

//export goCallback
func goCallback(depth, milliseconds C.int) {
	d := time.Duration(milliseconds) * time.Millisecond
	if depth > 0 {
		grow(12, func() { callBridge(int(depth)-1, d) })
		return
	}
	grow(12, func() { goOuter(d / 2) })
	callNative(d / 2)
}

// onGoroutine runs f on a fresh goroutine, whose stack begins small.
func onGoroutine(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	<-done
}
