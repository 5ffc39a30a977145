// SPDX-License-Identifier: MIT OR Apache-2.0

package main

import (
	"io"
	"time"
)

const (
	words       = 1 << 17 // 1 MiB: more than the innermost cache holds, as with the programs in C
	depth       = 20
	blockLength = 100 * time.Millisecond
)

var touched [words]uint64

//go:noinline
func touchUnder(frames int, seed uint64) uint64 {
	if frames > 0 {
		return touchUnder(frames-1, seed) + 1
	}
	for range 64 {
		seed = seed*6364136223846793005 + 1442695040888963407
		touched[(seed>>33)%words] += seed
	}
	return seed
}

func block(calls int) float64 {
	begin := cpuTime(clockProcessCPU)
	for i := range calls {
		touchUnder(depth, uint64(i))
	}
	return float64(cpuTime(clockProcessCPU) - begin)
}

// measureOverhead compares the same work without, with and again without the profiler: the middle against the mean of its
// neighbours, so that a machine that slows down weighs on both.
func measureOverhead(p profiler, asked *options) error {
	const trial = 20000
	block(trial)
	calls := int(float64(trial)*float64(blockLength)/block(trial)) + 1
	shares := make([]float64, 1+int(asked.length()/(2*blockLength)))
	before := block(calls)
	for i := range shares {
		if err := p.start(asked.hz, io.Discard); err != nil {
			return err
		}
		with := block(calls)
		if err := p.stop(); err != nil {
			return err
		}
		after := block(calls)
		shares[i] = 100 * (with/((before+after)/2) - 1)
		before = after
	}
	return emit("overhead", "% CPU time", median(shares))
}
