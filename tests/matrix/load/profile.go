// SPDX-License-Identifier: MIT OR Apache-2.0

package load

import (
	"bytes"
	"runtime/pprof"

	"github.com/google/pprof/profile"
)

var (
	profiled bytes.Buffer
	external int64
)

// StartProfile starts Go's own CPU profile.
func StartProfile() error {
	profiled.Reset()
	return pprof.StartCPUProfile(&profiled)
}

// StopProfile ends it and counts the samples of Go's own threads. The others come from the process-wide timer, whose ticks
// the kernel likes to give to the main thread: in a program that is not Go's they can be a fifth of all, on top of the
// truth.
func StopProfile() (int64, error) {
	pprof.StopCPUProfile()
	parsed, err := profile.Parse(&profiled)
	if err != nil {
		return 0, err
	}
	var samples int64
	external = 0
	for _, sample := range parsed.Sample {
		if isExternal(sample) {
			external += sample.Value[0]
		} else {
			samples += sample.Value[0]
		}
	}
	return samples, nil
}

// External is the number of samples that the last StopProfile left out.
func External() int64 { return external }

// isExternal knows the names under which the runtime puts threads that are not its own, and code of its own threads that
// it cannot name.
func isExternal(sample *profile.Sample) bool {
	if len(sample.Location) == 0 {
		return false
	}
	root := sample.Location[len(sample.Location)-1]
	for _, line := range root.Line {
		if line.Function.Name == "runtime._ExternalCode" || line.Function.Name == "runtime._LostExternalCode" {
			return true
		}
	}
	return false
}
