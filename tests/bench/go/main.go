// SPDX-License-Identifier: MIT OR Apache-2.0

// Command go is the benchmark in a Go process: PROGRAM VARIANT CASE [key=value ...] as the programs in C, and
//
//	host=cgo       Go calls the case in C
//	host=nested    Go calls the case in C, which calls Go, which burns in C
//	host=go20      Go calls the case in C, which calls Go, which burns in Go under 20 frames; go100 alike
//	host=wasmtime  Go calls the case in C, which calls Go, which compiles WebAssembly in Rust (build tag wasmtime)
package main

/*
#cgo CFLAGS: -O2
#include <stdlib.h>
#include "bench.h"
#include "host.h"
*/
import "C"

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"unsafe"
)

const (
	framesBelowTheCase = 8 // of Go, between main and the first call into C
	framesBelowTheBurn = 4 // of Go, in a callback
	nativeFrames       = 6 // of C above them
)

func main() {
	runtime.LockOSThread() // the stopwatch looks at one thread
	host, arguments := takeHost(os.Args)
	switch host {
	case "cgo":
	case "nested":
		work = burnInC
		C.host_burn_in_go()
	case "go20":
		work = burnInGo(20)
		C.host_burn_in_go()
	case "go100":
		work = burnInGo(100)
		C.host_burn_in_go()
	case "wasmtime":
		if work == nil {
			exitOn(fmt.Errorf("built without the tag wasmtime"))
		}
		C.host_burn_in_go()
	default:
		exitOn(fmt.Errorf("host is cgo, nested, go20, go100 or wasmtime, not %q", host))
	}
	os.Exit(below(framesBelowTheCase, func() int { return runCase(arguments) }))
}

func exitOn(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func takeHost(arguments []string) (host string, rest []string) {
	for _, argument := range arguments {
		if value, found := strings.CutPrefix(argument, "host="); found {
			host = value
		} else {
			rest = append(rest, argument)
		}
	}
	return host, rest
}

//go:noinline
func below(frames int, call func() int) int {
	if frames > 0 {
		return below(frames-1, call)
	}
	return call()
}

func runCase(arguments []string) int {
	argv := C.malloc(C.size_t(len(arguments)+1) * C.size_t(unsafe.Sizeof(uintptr(0))))
	list := unsafe.Slice((**C.char)(argv), len(arguments)+1)
	for i, argument := range arguments {
		list[i] = C.CString(argument)
	}
	list[len(arguments)] = nil
	return int(C.bench_run(C.int(len(arguments)), (**C.char)(argv)))
}

// work is what a callback does until the time is over.
var work func(over C.uintptr_t, data unsafe.Pointer)

func burnInC(over C.uintptr_t, data unsafe.Pointer) {
	below(framesBelowTheBurn, func() int {
		C.host_burn(nativeFrames, over, data)
		return 0
	})
}

func burnInGo(frames int) func(over C.uintptr_t, data unsafe.Pointer) {
	return func(over C.uintptr_t, data unsafe.Pointer) {
		below(frames, func() int {
			x := uint64(1)
			for C.host_is_over(over, data) == 0 {
				x = chunk(x)
			}
			return int(x & 1)
		})
	}
}

// chunk burns for 20 us or so.
//
//go:noinline
func chunk(x uint64) uint64 {
	for range 10000 {
		x = x*6364136223846793005 + 1442695040888963407
		x ^= x >> 29
	}
	return x
}

//export goBurn
func goBurn(over C.uintptr_t, data unsafe.Pointer) {
	work(over, data)
}
