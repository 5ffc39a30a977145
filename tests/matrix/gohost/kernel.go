// SPDX-License-Identifier: MIT OR Apache-2.0

//go:build cgo && linux

package main

import (
	"errors"
	"os"
	"runtime"
	"slices"
	"strconv"
	"syscall"
	"time"
	"unsafe"
)

// action is SIGPROF's, as the kernel keeps it.
type action struct{ handler, flags, restorer, mask uint64 }

func currentAction() (a action) {
	syscall.RawSyscall6(syscall.SYS_RT_SIGACTION, uintptr(syscall.SIGPROF), 0, uintptr(unsafe.Pointer(&a)), 8, 0, 0)
	return a
}

func (a action) fields() (hex [4]string) {
	for i, value := range []uint64{a.handler, a.flags, a.restorer, a.mask} {
		hex[i] = strconv.FormatUint(value, 16)
	}
	return hex
}

// ourMark and a version's byte stand before the entry of every handler of onstack's. Those of others are code as well,
// with code before it.
const ourMark = "onstack-handler"

func (a action) isOurs() bool {
	if a.handler <= 4096 {
		return false
	}
	entry := *(*unsafe.Pointer)(unsafe.Pointer(&a.handler)) // code does not move
	return unsafe.String((*byte)(unsafe.Add(entry, -len(ourMark)-1)), len(ourMark)) == ourMark
}

func clockNow(clock uintptr) int64 {
	var now syscall.Timespec // stays zero where there is no such clock
	syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, clock, uintptr(unsafe.Pointer(&now)), 0)
	return now.Nano()
}

func cpuTime() int64 {
	const clockProcessCPU = 2
	return clockNow(clockProcessCPU)
}

// watcher is the runtime's sysmon, the first thread that the one makes which initializes packages (runtime/proc.go, main). It
// runs no goroutine, has no timer of Go's profile, and never a sample; while one C call follows the other, it looks at them
// every 20 us.
var watcher = func() int {
	for _, thread := range threads() {
		if thread > syscall.Gettid() {
			return thread
		}
	}
	return 0
}()

// threads are the ids of those that live, in rising order.
func threads() (ids []int) {
	tasks, _ := os.ReadDir("/proc/self/task")
	for _, task := range tasks {
		if thread, err := strconv.Atoi(task.Name()); err == nil {
			ids = append(ids, thread)
		}
	}
	slices.Sort(ids)
	return ids
}

// sampledCPU is the CPU time of the threads that live now and that Go's profile can have samples of.
func sampledCPU() (total int64) {
	for _, thread := range threads() {
		if thread != watcher {
			total += clockNow(uintptr(uint32(^thread)<<3 | 6))
		}
	}
	return total
}

// waitForCPU waits until the process has used so much CPU time: the same work on an idle machine and on a busy one.
func waitForCPU(cpu time.Duration) error {
	end, patience := cpuTime()+int64(cpu), time.Now().Add(20*cpu)
	for ; cpuTime() < end; time.Sleep(2 * time.Millisecond) {
		if time.Now().After(patience) {
			return errors.New("nothing burns")
		}
	}
	return nil
}

// waitUntilOnTop returns the microseconds until our handler was installed; a million and more when it was not within a
// second.
func waitUntilOnTop() int64 {
	for begin := time.Now(); ; time.Sleep(200 * time.Microsecond) {
		waited := time.Since(begin)
		if currentAction().isOurs() || waited >= time.Second {
			return waited.Microseconds()
		}
	}
}

func sendSignals(count int) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for range count {
		if err := syscall.Tgkill(syscall.Getpid(), syscall.Gettid(), syscall.SIGPROF); err != nil {
			return err
		}
	}
	return nil
}
