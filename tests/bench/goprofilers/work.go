// SPDX-License-Identifier: MIT OR Apache-2.0

package main

import (
	"runtime"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"
)

const (
	clockProcessCPU = 2
	clockThreadCPU  = 3
)

// cpuTime asks the kernel's clock, which is exact; getrusage lags behind by up to a tick on other threads.
func cpuTime(clock uintptr) time.Duration {
	var now syscall.Timespec
	if _, _, errno := syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, clock, uintptr(unsafe.Pointer(&now)), 0); errno != 0 {
		panic(errno)
	}
	return time.Duration(now.Nano())
}

//go:noinline
func chunk(x uint64) uint64 {
	for range 10000 {
		x = x*6364136223846793005 + 1442695040888963407
		x ^= x >> 29
	}
	return x
}

func burnUntil(finished *atomic.Bool) (x uint64) {
	for !finished.Load() {
		x = chunk(x)
	}
	return x
}

// burnCPU burns CPU time of the calling thread, which no other goroutine may use meanwhile.
func burnCPU(length time.Duration) (x uint64) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for end := cpuTime(clockThreadCPU) + length; cpuTime(clockThreadCPU) < end; {
		x = chunk(x)
	}
	return x
}
