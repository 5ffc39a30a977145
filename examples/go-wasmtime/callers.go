// SPDX-License-Identifier: MIT OR Apache-2.0

package main

import (
	"strings"
	"time"

	"github.com/google/pprof/profile"
)

// callers is native CPU time on the threads that run goroutines, and how much of it has the Go functions that called it.
type callers struct {
	native, withGo time.Duration
}

// nativeCallers leaves out threads that native code made for itself: no Go function called what they run.
func nativeCallers(p *profile.Profile, cpuIndex int) callers {
	var c callers
	for _, sample := range p.Sample {
		if len(sample.Location) == 0 || isGo(sample.Location[0]) {
			continue
		}
		goFrames, madeByGo, nativeThread := false, false, false
		for _, location := range sample.Location {
			name := functionName(location)
			goFrames = goFrames || isGo(location)
			// Where the runtime's threads begin, all threads (a name that needs debug symbols of the C library), and Rust's.
			madeByGo = madeByGo || name == "threadentry"
			nativeThread = nativeThread || name == "start_thread" || strings.HasSuffix(name, "thread_start")
		}
		if nativeThread && !madeByGo && !goFrames {
			continue
		}
		cpu := time.Duration(sample.Value[cpuIndex])
		c.native += cpu
		if goFrames {
			c.withGo += cpu
		}
	}
	return c
}

// functionName is the function that holds the code, not those that were inlined there.
func functionName(location *profile.Location) string {
	if len(location.Line) == 0 || location.Line[len(location.Line)-1].Function == nil {
		return ""
	}
	return location.Line[len(location.Line)-1].Function.Name
}

// isGo goes by the source file; the runtime's assembly has names like its Go code.
func isGo(location *profile.Location) bool {
	if len(location.Line) == 0 || location.Line[0].Function == nil {
		return false
	}
	function := location.Line[0].Function
	return strings.HasSuffix(function.Filename, ".go") || strings.HasPrefix(function.Name, "runtime.")
}
