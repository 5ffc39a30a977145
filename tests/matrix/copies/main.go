// SPDX-License-Identifier: MIT OR Apache-2.0

//go:build cgo && linux

// Command copies has three copies of onstack in one process: the Go package's, that of a Rust library which is linked
// in, and that of a plugin of another version. All profile at once, in every order of start and stop, and Go's own
// profile beside them. Usage: copies PLUGIN
package main

/*
#cgo LDFLAGS: -ldl -lm
#include <stdlib.h>
#include "copies.h"
*/
import "C"

import (
	"fmt"
	"os"
	"syscall"
	"time"
	"unsafe"

	onstack "github.com/onstack-profiler/onstack/bindings/go"
	"github.com/onstack-profiler/onstack/tests/matrix/load"
)

const (
	hertz  = 500
	window = 25 * time.Millisecond // of the process's CPU time
)

// one is a copy of the core.
type one struct {
	name  string
	start func() bool
	stop  func() int64 // ticks

	running     bool
	since, cpu  time.Duration
	ticks       int64
	least       float64 // share of the CPU time in its worst session
	sessions    int
	badSessions int
}

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: copies PLUGIN")
		os.Exit(2)
	}
	path := C.CString(os.Args[1])
	defer C.free(unsafe.Pointer(path))
	version := C.copies_plugin_open(path)
	if version == nil {
		os.Exit(2)
	}
	fmt.Printf("note: copies: Go's and Rust's, and a plugin's of version %s\n", C.GoString(version))
	if err := load.Start("pure"); err != nil {
		panic(err)
	}
	all := []*one{goCopy(), rustCopy(), pluginCopy()}
	orders := 0
	everyOrder(all, nil, func(steps []*one) {
		orders++
		for _, copy := range steps {
			copy.step()
			burn(window)
		}
	})
	for _, copy := range all {
		share := float64(copy.ticks) / hertz / copy.cpu.Seconds()
		check(copy.name, share > 0.85 && share < 1.1 && copy.badSessions == 0, fmt.Sprintf(
			"%.3f of the CPU time over %d orders, %.2f in the worst session", share, orders, copy.least))
	}
	besideGo(all)
	load.Stop()
	if err := load.Health(); err != nil {
		check("health", false, err.Error())
	}
}

// everyOrder calls take with each way in which all copies start and stop once.
func everyOrder(all, steps []*one, take func([]*one)) {
	if len(steps) == 2*len(all) {
		take(steps)
		return
	}
	for _, next := range all {
		taken := 0
		for _, step := range steps {
			if step == next {
				taken++
			}
		}
		if taken < 2 {
			everyOrder(all, append(steps[:len(steps):len(steps)], next), take)
		}
	}
}

func (c *one) step() {
	if !c.running {
		if !c.start() {
			check(c.name, false, "start failed")
			os.Exit(1)
		}
		c.running, c.since = true, cpuTime()
		return
	}
	cpu := cpuTime() - c.since
	ticks := c.stop()
	c.running = false
	c.cpu += cpu
	c.ticks += ticks
	share := float64(ticks) / hertz / cpu.Seconds()
	if c.sessions == 0 || share < c.least {
		c.least = share
	}
	c.sessions++
	if ticks <= 0 {
		c.badSessions++
	}
}

// besideGo has Go's own profile under and over all of them.
func besideGo(all []*one) {
	if err := load.StartProfile(); err != nil {
		panic(err)
	}
	begin := cpuTime()
	for _, copy := range all {
		copy.step()
	}
	burn(600 * time.Millisecond)
	for _, copy := range all {
		copy.step()
	}
	cpu := cpuTime() - begin
	samples, err := load.StopProfile()
	share := float64(samples) / 100 / cpu.Seconds()
	check("Go's own profile", err == nil && share > 0.6 && share < 1.15, fmt.Sprintf("%.3f of the CPU time", share))
}

func goCopy() *one {
	var profile *onstack.Profile
	return &one{
		name: "Go's copy",
		start: func() (good bool) {
			var err error
			profile, err = onstack.Start(onstack.WithRate(hertz))
			return err == nil
		},
		stop: func() int64 {
			defer profile.Close()
			if profile.Stop() != nil {
				return -1
			}
			return int64(profile.Stats().Ticks)
		},
	}
}

func rustCopy() *one {
	return &one{
		name:  "Rust's copy",
		start: func() bool { return C.coexist_rust_start(hertz) == 0 },
		stop:  func() int64 { return int64(C.coexist_rust_stop()) },
	}
}

func pluginCopy() *one {
	return &one{
		name:  "the plugin's copy",
		start: func() bool { return C.copies_plugin_start() == 0 },
		stop:  func() int64 { return int64(C.copies_plugin_stop()) / 2 }, // it runs at 1,000 Hz
	}
}

func burn(cpu time.Duration) {
	for end := cpuTime() + cpu; cpuTime() < end; {
		time.Sleep(time.Millisecond)
	}
}

func cpuTime() time.Duration {
	const clockProcessCPU = 2
	var now syscall.Timespec
	syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, clockProcessCPU, uintptr(unsafe.Pointer(&now)), 0)
	return time.Duration(now.Nano())
}

func check(name string, good bool, why string) {
	verdict := "ok"
	if !good {
		verdict = "not ok"
	}
	fmt.Printf("%s copies, %s: %s\n", verdict, name, why)
}
