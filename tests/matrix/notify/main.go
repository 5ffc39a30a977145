// SPDX-License-Identifier: MIT OR Apache-2.0

//go:build cgo && linux

// Command notify profiles beside os/signal. The Go runtime keeps SIGPROF for its profiler: Notify, Ignore and Reset do
// nothing with it, and no channel gets it. So beside us all of it must be as without us, each signal that is sent
// forwarded once, and sampling go on.
package main

import (
	"fmt"
	"maps"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"

	onstack "github.com/onstack-profiler/onstack/bindings/go"
	"github.com/onstack-profiler/onstack/tests/matrix/load"
)

const sent = 20

func main() {
	received := make(chan os.Signal, 1000)
	signal.Notify(received, syscall.SIGPROF)
	alone := count(received)
	check("alone", alone == 0 || alone == sent, fmt.Sprintf("%d of %d signals arrive", alone, sent))
	calls := map[string]func(){
		"Notify before us": func() {},
		"Notify under us":  func() { signal.Stop(received); signal.Notify(received, syscall.SIGPROF) },
		"Ignore under us":  func() { signal.Ignore(syscall.SIGPROF); signal.Notify(received, syscall.SIGPROF) },
		"Reset under us":   func() { signal.Reset(syscall.SIGPROF); signal.Notify(received, syscall.SIGPROF) },
	}
	for _, name := range slices.Sorted(maps.Keys(calls)) {
		beside(name, calls[name], received, alone)
	}
	after := count(received)
	check("after", after == alone, fmt.Sprintf("%d of %d signals arrive", after, sent))
}

func beside(name string, call func(), received chan os.Signal, alone int) {
	profile, err := onstack.Start(onstack.WithRate(500))
	if err != nil {
		check(name, false, err.Error())
		return
	}
	defer profile.Close()
	call()
	if err := load.Start("pure"); err != nil {
		check(name, false, err.Error())
	}
	time.Sleep(300 * time.Millisecond)
	got := count(received)
	load.Stop()
	err = profile.Stop()
	stats := profile.Stats()
	// Signals of kill are not queued: one that comes while a process tick is pending is merged with it by the kernel. The
	// exact counts are those of tests/core/test_forward.c, which queues them.
	off := int64(stats.Forwarded) - sent
	check(name, err == nil && got == alone && -2 <= off && off <= 2 && stats.Ticks > 50,
		fmt.Sprintf("%d of %d arrive, %d forwarded, %d ticks of ours", got, sent, stats.Forwarded, stats.Ticks))
}

// count sends signals one after the other, and returns how many came.
func count(received chan os.Signal) int {
	for range sent {
		syscall.Kill(syscall.Getpid(), syscall.SIGPROF)
		time.Sleep(5 * time.Millisecond)
	}
	return len(drain(received))
}

func drain(received chan os.Signal) (all []os.Signal) {
	for {
		select {
		case one := <-received:
			all = append(all, one)
		case <-time.After(20 * time.Millisecond):
			return all
		}
	}
}

func check(name string, good bool, why string) {
	verdict := "ok"
	if !good {
		verdict = "not ok"
	}
	fmt.Printf("%s notify, %s: %s\n", verdict, name, why)
}
