// SPDX-License-Identifier: MIT OR Apache-2.0

package onstack

import (
	"bytes"
	"fmt"
	"io"
	"runtime/pprof"
	"strconv"
	"strings"
	"time"

	"github.com/onstack-profiler/onstack/bindings/go/internal/optional"
)

// noNativeHeap is no error: a service may serve its heap profile whether it watches native memory or not.
const noNativeHeap = "onstack.heap native=none (no profile with ClockHeap is open: this is Go's heap alone)"

type heapQuestion struct {
	age time.Duration
}

// HeapOption is an option of WriteHeapProfile.
type HeapOption func(*heapQuestion)

// WithHeapAge counts native blocks as in use only if they were allocated that long ago or earlier: what a service keeps, and
// not what its last requests need. Go's part is as without it, since Go's heap profile has no times.
func WithHeapAge(age time.Duration) HeapOption {
	return func(asked *heapQuestion) { asked.age = age }
}

// WriteHeapProfile writes Go's heap and the native one as one compressed pprof profile: inuse_space (the default),
// inuse_objects, alloc_space, alloc_objects. The label "heap" tells "go" from "native". The native part is that of the
// profile with ClockHeap, running or stopped, that was started last and is not closed. Without one the profile is Go's heap alone,
// and the comment "onstack.heap native=none" says so.
//
// Go's part is runtime/pprof's: as of its last garbage collection. The native part has goroutines above native frames.
// The comments have the lines of WriteMemory.
//
// Package nativeheap and package onstackhttp bring the code that merges the two. If the program imports neither, Go's heap
// alone is written as runtime/pprof writes it, and a profile with ClockHeap is an error.
//
// Errors: those of w, of a profile that cannot be read back, and ErrUnsupported.
func WriteHeapProfile(w io.Writer, opts ...HeapOption) error {
	var asked heapQuestion
	for _, opt := range opts {
		opt(&asked)
	}
	var goHeap, native bytes.Buffer
	if err := pprof.Lookup("heap").WriteTo(&goHeap, 0); err != nil {
		return fmt.Errorf("onstack: Go's heap profile: %w", err)
	}
	there, err := writeNativeHeap(&native, asked.age)
	switch {
	case err != nil:
		return err
	case optional.MergeHeaps == nil && there:
		return fmt.Errorf("onstack: heap profile: import package nativeheap, which merges both heaps: %w", ErrUnsupported)
	case optional.MergeHeaps == nil:
		_, err = goHeap.WriteTo(w)
		return err
	case there:
		return optional.MergeHeaps(w, goHeap.Bytes(), native.Bytes(), nil)
	}
	comments := []string{noNativeHeap}
	if lines, err := memory(); err == nil {
		comments = append(comments, strings.Split(strings.TrimSpace(string(lines)), "\n")...)
	}
	return optional.MergeHeaps(w, goHeap.Bytes(), nil, comments)
}

// memoryPrefix begins a line of the account; " of=" and the part's name follow the number.
const memoryPrefix = "onstack.memory bytes="

// WriteMemory writes a table of what the process's resident memory is made of: Go's objects, stacks and free memory, native
// blocks in use that are in the heap profile (see WriteHeapProfile) or not, what malloc keeps free, stacks of threads, code,
// files, and what is left unexplained. The parts add up to the first line. It takes milliseconds for each GiB.
//
// Errors: those of w, a syscall.Errno where /proc cannot be read, ErrUnsupported.
func WriteMemory(w io.Writer) error {
	lines, err := memory()
	if err != nil {
		return err
	}
	var table bytes.Buffer
	whole := 0.0
	for _, line := range strings.Split(string(lines), "\n") {
		number, part, found := strings.Cut(strings.TrimPrefix(line, memoryPrefix), " of=")
		value, err := strconv.ParseFloat(number, 64)
		if !found || err != nil {
			continue
		}
		if whole == 0 {
			whole = max(value, 1)
		}
		fmt.Fprintf(&table, "%10.2f MiB %6.2f%%  %s\n", value/(1<<20), 100*value/whole, part)
	}
	_, err = w.Write(table.Bytes())
	return err
}
