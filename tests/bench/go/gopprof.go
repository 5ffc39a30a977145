// SPDX-License-Identifier: MIT OR Apache-2.0

//go:build gopprof

package main

/*
#include <stdint.h>
*/
import "C"

import (
	"bytes"
	"runtime"
	"runtime/pprof"

	"github.com/google/pprof/profile"
)

var written bytes.Buffer

// The profiler of Go has 100 Hz; where another rate is set first, its start complains and keeps that.
//
//export goProfileStart
func goProfileStart(hz C.uint32_t) C.int {
	written.Reset()
	if hz != 100 {
		runtime.SetCPUProfileRate(int(hz))
	}
	if pprof.StartCPUProfile(&written) != nil {
		return -1
	}
	return 0
}

//export goProfileStop
func goProfileStop(samples, frames *C.uint64_t) C.int {
	pprof.StopCPUProfile()
	parsed, err := profile.ParseData(written.Bytes())
	if err != nil {
		return -1
	}
	for _, sample := range parsed.Sample {
		*samples += C.uint64_t(sample.Value[0])
		*frames += C.uint64_t(sample.Value[0]) * C.uint64_t(len(sample.Location))
	}
	return 0
}
