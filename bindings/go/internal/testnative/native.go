// SPDX-License-Identifier: MIT OR Apache-2.0

//go:build cgo && linux

// Package testnative runs C code that is built as most C libraries are, without frame pointers, under names that tests
// look for: testnative_outer calls testnative_middle calls testnative_inner, and that does the job.
package testnative

/*
#cgo CFLAGS: -O2 -fomit-frame-pointer
// The test command links without a symbol table; exported functions keep their names in .dynsym.
#cgo LDFLAGS: -lpthread -rdynamic
#include "native.h"
*/
import "C"

import (
	"fmt"
	"os"
	"runtime"
	"runtime/cgo"
	"syscall"
	"time"
)

// SampledFromTheStart in the environment has every allocation and a good part of the CPU time sampled by the runtime.
// This package is initialized before package onstack, which imports more.
const SampledFromTheStart = "ONSTACK_TEST_SAMPLED_FROM_THE_START"

func init() {
	if os.Getenv(SampledFromTheStart) != "" {
		runtime.MemProfileRate = 1
		runtime.SetCPUProfileRate(1000)
	}
}

// Chain is the names of the C functions above each job, innermost first.
var Chain = []string{"testnative_inner", "testnative_middle", "testnative_outer"}

// Spin spends real time in testnative_spin.
func Spin(d time.Duration) { C.testnative_run_spin(C.int(d.Milliseconds())) }

// Malloc spends it in testnative_churn, most of that inside malloc and free.
func Malloc(d time.Duration) { C.testnative_run_malloc(C.int(d.Milliseconds())) }

// Sleep waits in testnative_sleep.
func Sleep(d time.Duration) { C.testnative_run_sleep(C.int(d.Milliseconds())) }

// Thread is Spin on a thread that Go does not know.
func Thread(d time.Duration) error {
	if code := C.testnative_run_thread(C.int(d.Milliseconds())); code != 0 {
		return fmt.Errorf("testnative: thread: %w", syscall.Errno(code))
	}
	return nil
}

// Crash writes to address 0 in testnative_crash. It does not return.
func Crash() { C.testnative_run_crash() }

// Callback calls f from testnative_call.
func Callback(f func()) {
	handle := cgo.NewHandle(f)
	defer handle.Delete()
	C.testnative_run_callback(C.size_t(handle))
}

//export testnativeCallback
func testnativeCallback(handle C.size_t) { cgo.Handle(handle).Value().(func())() }
