// SPDX-License-Identifier: MIT OR Apache-2.0

//go:build cgo && linux

package main

import "C"

// matrixGoHost is main for a C program that has this one as its library. The calling thread only waits: Go drops the ticks
// that meet such a thread in C.
//
//export matrixGoHost
func matrixGoHost() {
	done := make(chan struct{})
	go func() {
		defer close(done)
		main()
	}()
	<-done
}
