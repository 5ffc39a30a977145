// SPDX-License-Identifier: MIT OR Apache-2.0

//go:build cgo && linux

package nativeheap_test

import (
	"context"
	"runtime"
	"runtime/pprof"
	"strings"
	"testing"

	"github.com/google/pprof/profile"
	onstack "github.com/onstack-profiler/onstack/bindings/go"
	"github.com/onstack-profiler/onstack/bindings/go/nativeheap/internal/leaktest"
)

//go:noinline
func leaksDeep(depth int) {
	if depth > 0 {
		leaksDeep(depth - 1)
	} else {
		leaktest.Keep(1000)
	}
	runtime.KeepAlive(&depth) // no tail call
}

// A sample has as many frames as were asked for, of those near the allocation, and says that it is cut.
func TestDepthOfHeapProfiles(t *testing.T) {
	for _, depth := range []int{8, 300} {
		heap := start(t, 1, onstack.WithMaxDepth(depth))
		for range 100 {
			leaksDeep(200)
		}
		var cut, whole int64
		for _, sample := range write(t).Sample {
			if sample.Label["heap"][0] != "native" || !has(sample, "leaktest_keep") {
				continue
			}
			switch frames := len(sample.Location); {
			case has(sample, "[truncated"):
				cut += sample.Value[1]
				if frames != depth+1 { // the mark is one more
					t.Errorf("%d frames of a stack that is cut, at a depth of %d", frames, depth)
				}
			case frames > depth:
				t.Errorf("%d frames at a depth of %d", frames, depth)
			case has(sample, "runtime.goexit"):
				whole += sample.Value[1]
			}
		}
		if wantCut := depth == 8; wantCut != (cut == 100*1000) || wantCut != (whole == 0) || cut+whole != 100*1000 {
			t.Errorf("depth %d: %d bytes in stacks that are cut, %d in whole ones, of 100000", depth, cut, whole)
		}
		heap.Close()
	}
}

func has(sample *profile.Sample, function string) bool {
	for _, location := range sample.Location {
		for _, line := range location.Line {
			if strings.Contains(line.Function.Name, function) {
				return true
			}
		}
	}
	return false
}

// Native allocations carry the labels of the goroutine that they are made for, and those of no other.
func TestNativeBlocksCarryGoroutineLabels(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("goroutine labels are off on " + runtime.GOARCH)
	}
	for _, on := range []bool{true, false} {
		heap := start(t, 1, onstack.WithGoroutineLabels(on))
		for _, job := range []string{"one", "two"} {
			pprof.Do(context.Background(), pprof.Labels("job", job), func(context.Context) {
				for range 300 {
					leaktest.Keep(1000)
				}
			})
		}
		leaks()
		bytes := map[string]int64{}
		for _, sample := range write(t).Sample {
			if sample.Label["heap"][0] == "native" && has(sample, "leaktest_keep") {
				bytes[strings.Join(sample.Label["job"], ",")] += sample.Value[3]
			}
		}
		if wanted := (map[bool]int64{true: 300 * 1000})[on]; bytes["one"] != wanted || bytes["two"] != wanted ||
			bytes["one"]+bytes["two"]+bytes[""] != 1600*1000 {
			t.Errorf("labels on: %v; bytes in use by label: %v", on, bytes)
		}
		heap.Close()
	}
}
