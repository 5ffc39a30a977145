// SPDX-License-Identifier: MIT OR Apache-2.0

//go:build cgo && linux

// A Go runtime that comes late: opened by a C program while its sessions tick.
package main

import "C"

import (
	"bytes"
	"os"
	"os/signal"
	"runtime/pprof"
	"sync/atomic"
	"syscall"
	"time"
)

var (
	channel  = make(chan os.Signal, 1024)
	notified atomic.Int64
	profile  bytes.Buffer
	sink     atomic.Uint64
)

func init() {
	go func() {
		for range channel {
			notified.Add(1)
		}
	}()
}

//export lateNotify
func lateNotify(number C.int) { signal.Notify(channel, syscall.Signal(number)) }

//export lateNotified
func lateNotified() C.long { return C.long(notified.Load()) }

//export lateReset
func lateReset(number C.int) { signal.Reset(syscall.Signal(number)) }

//export lateProfile
func lateProfile(on C.int) C.int {
	if on == 0 {
		pprof.StopCPUProfile()
		return C.int(profile.Len())
	}
	profile.Reset()
	if pprof.StartCPUProfile(&profile) != nil {
		return -1
	}
	return 0
}

// grow needs a stack that grows and moves: what is written below a goroutine's stack pointer without SA_ONSTACK would
// hit the heap.
func grow(depth int) uint64 {
	var room [64]uint64
	if depth == 0 {
		return sink.Load()
	}
	room[depth%64] = grow(depth - 1)
	return room[depth%64] + uint64(depth)
}

//export lateBurn
func lateBurn(milliseconds C.int) {
	end := time.Now().Add(time.Duration(milliseconds) * time.Millisecond)
	done := make(chan bool)
	for i := 0; i < 3; i++ {
		go func() {
			for time.Now().Before(end) {
				step := make(chan uint64)
				for j := 0; j < 8; j++ {
					go func() { step <- grow(200) }()
				}
				for j := 0; j < 8; j++ {
					sink.Add(<-step)
				}
			}
			done <- true
		}()
	}
	for i := 0; i < 3; i++ {
		<-done
	}
}

func main() {}
