// SPDX-License-Identifier: MIT OR Apache-2.0

//go:build cgo && linux

// Command archive is the Go part of the hosts whose main program is C or Rust: a c-archive or c-shared library without
// onstack in it.
package main

import "C"

import (
	"fmt"
	"os"

	"github.com/onstack-profiler/onstack/tests/matrix/load"
	_ "github.com/onstack-profiler/onstack/tests/matrix/loadrust"
)

// code says the error on the standard error stream and turns it into a C result.
func code(err error) C.int {
	if err == nil {
		return 0
	}
	fmt.Fprintln(os.Stderr, err)
	return -1
}

//export matrixGoProfileStart
func matrixGoProfileStart() C.int { return code(load.StartProfile()) }

//export matrixGoProfileStop
func matrixGoProfileStop() C.longlong {
	samples, err := load.StopProfile()
	if err != nil {
		return C.longlong(code(err))
	}
	return C.longlong(samples)
}

//export matrixGoExternal
func matrixGoExternal() C.longlong { return C.longlong(load.External()) }

//export matrixGoLoadStart
func matrixGoLoadStart(mix *C.char) C.int { return code(load.Start(C.GoString(mix))) }

//export matrixGoLoadStop
func matrixGoLoadStop() { load.Stop() }

//export matrixGoHealth
func matrixGoHealth() C.int { return code(load.Health()) }

// matrixGoSpin is for threads that the host made: C or Rust, Go, and C again on one stack.
//
//export matrixGoSpin
func matrixGoSpin() { load.Native(200) }

func main() {}
