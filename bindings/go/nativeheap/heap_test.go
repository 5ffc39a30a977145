// SPDX-License-Identifier: MIT OR Apache-2.0

//go:build cgo && linux

package nativeheap_test

import (
	"bytes"
	"runtime"
	"strings"
	"testing"

	"github.com/google/pprof/profile"

	onstack "github.com/onstack-profiler/onstack/bindings/go"
	"github.com/onstack-profiler/onstack/bindings/go/nativeheap/internal/leaktest"
)

// sum is that of a column over the samples of one heap whose stack has these functions, leaf first.
func sum(p *profile.Profile, column, heap string, functions ...string) int64 {
	index, err := p.SampleIndexByName(column)
	if err != nil {
		panic(err)
	}
	var total int64
	for _, sample := range p.Sample {
		if sample.Label["heap"][0] != heap {
			continue
		}
		wanted := functions
		for _, location := range sample.Location {
			for _, line := range location.Line {
				if len(wanted) > 0 && strings.HasSuffix(line.Function.Name, wanted[0]) {
					wanted = wanted[1:]
				}
			}
		}
		if len(wanted) == 0 {
			total += sample.Value[index]
		}
	}
	return total
}

func write(t *testing.T) *profile.Profile {
	t.Helper()
	var out bytes.Buffer
	if err := onstack.WriteHeapProfile(&out); err != nil {
		t.Fatal(err)
	}
	parsed, err := profile.Parse(&out)
	if err != nil {
		t.Fatal(err)
	}
	if err := parsed.CheckValid(); err != nil {
		t.Fatal(err)
	}
	return parsed
}

//go:noinline
func leaks() {
	for range 1000 {
		leaktest.Keep(1000)
	}
}

//go:noinline
func givesBack() {
	for range 1000 {
		leaktest.KeepNothing(1000)
	}
}

var kept []byte

//go:noinline
func allocatesInGo() { kept = make([]byte, 8<<20) }

// One profile: Go's heap and C's, with the goroutine above the native frames.
func TestOneProfileOfBothHeaps(t *testing.T) {
	heap, err := onstack.Start(onstack.WithClock(onstack.ClockHeap), onstack.WithHeapInterval(1))
	if err != nil {
		t.Fatal(err)
	}
	defer heap.Close()
	leaks()
	givesBack()
	allocatesInGo()
	runtime.GC()
	runtime.GC()
	both := write(t)
	runtime.KeepAlive(kept)
	if got := sum(both, "inuse_space", "native", "malloc", "leaktest_keep", "nativeheap_test.leaks"); got != 1000*1000 {
		t.Errorf("%d bytes in use by leaks, not 1000000", got)
	}
	if got := sum(both, "alloc_space", "native", "leaktest_keep_nothing", "nativeheap_test.givesBack"); got != 1000*1000 {
		t.Errorf("%d bytes allocated by givesBack, not 1000000", got)
	}
	if got := sum(both, "inuse_space", "native", "nativeheap_test.givesBack"); got != 0 {
		t.Errorf("%d bytes in use by givesBack", got)
	}
	if got := sum(both, "inuse_space", "go", "nativeheap_test.allocatesInGo"); got < 8<<20 {
		t.Errorf("%d bytes in use by allocatesInGo, of %d", got, 8<<20)
	}
	if both.DefaultSampleType != "inuse_space" {
		t.Errorf("default sample type %q", both.DefaultSampleType)
	}
	if stats := heap.Stats(); stats.Clock != "heap" || stats.DroppedRingFull != 0 {
		t.Errorf("statistics: %+v", stats)
	}
}

// Native samples that lead to a goroutine, of many goroutines and threads at once.
func TestStacksAreRooted(t *testing.T) {
	heap, err := onstack.Start(onstack.WithClock(onstack.ClockHeap), onstack.WithHeapInterval(100000))
	if err != nil {
		t.Fatal(err)
	}
	defer heap.Close()
	done := make(chan bool)
	for range 8 {
		go func() {
			for range 20 {
				givesBack()
			}
			done <- true
		}()
	}
	for range 8 {
		<-done
	}
	if err := heap.Stop(); err != nil {
		t.Fatal(err)
	}
	both := write(t)
	all, rooted := sum(both, "alloc_space", "native", "leaktest_keep_nothing"),
		sum(both, "alloc_space", "native", "leaktest_keep_nothing", "nativeheap_test.givesBack", "runtime.goexit")
	if all == 0 || rooted*1000 < all*999 {
		t.Errorf("%d of %d bytes lead to their goroutine", rooted, all)
	}
	if dropped := heap.Stats().DroppedRingFull; dropped != 0 {
		t.Skipf("%d allocations found the buffer full", dropped)
	}
	const wanted = 8 * 20 * 1000 * 1000
	if all < wanted*85/100 || all > wanted*115/100 { // 1,600 samples: one standard deviation is 2.5 %
		t.Errorf("%d bytes of %d", all, wanted)
	}
}

// Without a native profile it is Go's alone.
func TestGoAlone(t *testing.T) {
	if got := sum(write(t), "alloc_space", "native"); got != 0 {
		t.Errorf("%d native bytes", got)
	}
}
