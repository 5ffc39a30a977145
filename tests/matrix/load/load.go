// SPDX-License-Identifier: MIT OR Apache-2.0

//go:build cgo && linux

// Package load keeps Go threads busy in the ways that the matrix asks for.
package load

/*
#cgo CFLAGS: -O2 -fno-omit-frame-pointer
#cgo LDFLAGS: -lpthread
#include "native.h"
*/
import "C"

import (
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
)

const workers = 2

var (
	quit    atomic.Bool
	running sync.WaitGroup
	foreign bool
	// Rust burns in Rust, where the program imports package loadrust.
	Rust func()
)

// Start begins to burn: "pure" Go, "short" goroutines with stacks that grow, "native" C calls, "rust" calls into Rust and
// from there into C, "foreign" (a goroutine only; the thread beside it is StartForeign's or the host's), "callin" (nothing:
// the host's threads call Spin).
func Start(mix string) error {
	body, count := burn, workers
	switch mix {
	case "pure":
	case "short":
		body = short
	case "native":
		body = func() { Native(500) }
	case "rust":
		body = Rust
	case "foreign":
		count = 1
	case "callin":
		count = 0
	default:
		return fmt.Errorf("no such mix: %s", mix)
	}
	quit.Store(false)
	for range count {
		running.Add(1)
		go func() {
			defer running.Done()
			for !quit.Load() {
				body()
			}
		}()
	}
	return nil
}

// Stop returns when nothing burns any more.
func Stop() {
	quit.Store(true)
	running.Wait()
	if foreign {
		foreign = false
		C.matrix_load_foreign_stop()
	}
}

// StartForeign adds a thread that Go does not know.
func StartForeign() error {
	if code := C.matrix_load_foreign_start(); code != 0 {
		return syscall.Errno(code)
	}
	foreign = true
	return nil
}

// Native burns in C.
func Native(microseconds int) { C.matrix_load_native(C.int(microseconds)) }

var sink atomic.Uint64

func burn() {
	x := uint64(1)
	for range 20000 {
		x = x*6364136223846793005 + 1442695040888963407
	}
	if x == 0 {
		sink.Add(1)
	}
}

// short runs goroutines that start on small stacks, grow them and end: a signal frame on the goroutine's stack instead
// of the signal stack destroys them soonest.
func short() {
	var all sync.WaitGroup
	for i := range 8 {
		all.Add(1)
		go func() {
			defer all.Done()
			if deep(10+i*10, 0) == 0 {
				sink.Add(1)
			}
		}()
	}
	all.Wait()
}

//go:noinline
func deep(left int, x uint64) uint64 {
	var room [32]uint64
	for i := range room {
		room[i] = x + uint64(left*i)
	}
	if left > 0 {
		room[left%len(room)] += deep(left-1, x+1)
	}
	for _, value := range room {
		x = x*31 + value
	}
	return x | 1
}

// Health fails when the runtime no longer computes, schedules or collects as it should.
func Health() error {
	want := deep(40, 7)
	results := make(chan uint64, 64)
	for range cap(results) {
		go func() { results <- deep(40, 7) }()
	}
	runtime.GC()
	for range cap(results) {
		if got := <-results; got != want {
			return fmt.Errorf("a goroutine computed %d instead of %d", got, want)
		}
	}
	runtime.GC()
	return nil
}
