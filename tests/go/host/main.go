// SPDX-License-Identifier: MIT OR Apache-2.0

// Command host does one kind of work while it records its own samples: host <work> <seconds> <frequency> <file>. Built
// as a C archive or shared library it exports RunWork instead, and its C main records.
package main

import "C"

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/onstack-profiler/onstack/tests/go/host/cxx"
	"github.com/onstack-profiler/onstack/tests/go/recorder"
)

// works are the kinds of work; each is a list of functions that run side by side, again and again.
var works = map[string][]func(){
	"pure":     {allocate, talk, wait, recurse, unwind, reflectively, format, clock, system, mapWork},
	"native":   {native, native},
	"callback": {growInCallback, growInCallback, growInCallback},
	"nested":   {nest, nest, nest},
	"cxx":      {cxx.Work, cxx.Work},
	"tiny":     {tinyCalls, tinyCallbacks, tinyCalls},
	"mixed":    {allocate, talk, native, growInCallback, tinyCalls, recurse},
}

func run(name string, duration time.Duration) error {
	list, ok := works[name]
	if !ok {
		return fmt.Errorf("no work of the name %q", name)
	}
	ctx, cancel := context.WithTimeout(context.Background(), duration)
	defer cancel()
	var running sync.WaitGroup
	for _, work := range list {
		running.Add(1)
		go func() {
			defer running.Done()
			for ctx.Err() == nil {
				work()
			}
		}()
	}
	running.Wait()
	return nil
}

//export RunWork
func RunWork(name *C.char, milliseconds C.int) C.int {
	if err := run(C.GoString(name), time.Duration(milliseconds)*time.Millisecond); err != nil {
		fmt.Fprintln(os.Stderr, "host:", err)
		return 1
	}
	return 0
}

func main() {
	if len(os.Args) != 5 {
		fmt.Fprintln(os.Stderr, "usage: host <work> <seconds> <frequency> <file>")
		os.Exit(2)
	}
	seconds, err := strconv.ParseFloat(os.Args[2], 64)
	frequency, bad := strconv.ParseUint(os.Args[3], 10, 32)
	if err == nil {
		err = bad
	}
	if err == nil {
		var failed error
		err = recorder.Record(os.Args[4], uint(frequency), func() {
			failed = run(os.Args[1], time.Duration(seconds*float64(time.Second)))
		})
		if failed != nil {
			err = failed
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "host:", err)
		os.Exit(1)
	}
}
