// SPDX-License-Identifier: MIT OR Apache-2.0

package main

import (
	"io"
	"runtime"
	"runtime/pprof"

	onstack "github.com/onstack-profiler/onstack/bindings/go"
)

// profiler writes a finished profile at its stop.
type profiler interface {
	start(hz int, w io.Writer) error
	stop() error
}

var profilers = map[string]profiler{"pprof": goProfiler{}, "onstack": onstackProfiler{}}

type goProfiler struct{}

// The profiler of Go has 100 Hz. Another rate is to be had only by setting it first; StartCPUProfile then says on standard
// error that it cannot change it, and goes on with it.
func (goProfiler) start(hz int, w io.Writer) error {
	if hz != 100 {
		runtime.SetCPUProfileRate(hz)
	}
	return pprof.StartCPUProfile(w)
}

func (goProfiler) stop() error {
	pprof.StopCPUProfile()
	return nil
}

type onstackProfiler struct{}

func (onstackProfiler) start(hz int, w io.Writer) error {
	return onstack.StartCPUProfile(w, onstack.WithRate(hz))
}

func (onstackProfiler) stop() error { return onstack.StopCPUProfile() }
