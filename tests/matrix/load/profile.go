// SPDX-License-Identifier: MIT OR Apache-2.0

package load

import (
	"bytes"
	"runtime/pprof"

	"github.com/google/pprof/profile"
)

var profiled bytes.Buffer

// StartProfile starts Go's own CPU profile.
func StartProfile() error {
	profiled.Reset()
	return pprof.StartCPUProfile(&profiled)
}

// StopProfile ends it and counts its samples.
func StopProfile() (int64, error) {
	pprof.StopCPUProfile()
	parsed, err := profile.Parse(&profiled)
	if err != nil {
		return 0, err
	}
	var samples int64
	for _, sample := range parsed.Sample {
		samples += sample.Value[0]
	}
	return samples, nil
}
