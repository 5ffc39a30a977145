// SPDX-License-Identifier: MIT OR Apache-2.0

//go:build cgo && linux

package nativeheap_test

import (
	"bytes"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/pprof/profile"

	onstack "github.com/onstack-profiler/onstack/bindings/go"
	"github.com/onstack-profiler/onstack/bindings/go/internal/pprofcheck"
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

// start is a heap profile that is closed with the test.
func start(t *testing.T, interval int, opts ...onstack.Option) *onstack.Profile {
	t.Helper()
	heap, err := onstack.Start(append(opts, onstack.WithClock(onstack.ClockHeap), onstack.WithHeapInterval(interval))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { heap.Close() })
	want := onstack.Period{Amount: uint64(interval), Unit: onstack.UnitBytes}
	if period := heap.Stats().Period; period != want || period.Duration() != 0 {
		t.Errorf("an interval of %d bytes is shown as %v, which is %v long", interval, period, period.Duration())
	}
	return heap
}

func write(t *testing.T, opts ...onstack.HeapOption) *profile.Profile {
	t.Helper()
	var out bytes.Buffer
	if err := onstack.WriteHeapProfile(&out, opts...); err != nil {
		t.Fatal(err)
	}
	parsed, err := pprofcheck.Parse(out.Bytes())
	if err != nil {
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
	heap := start(t, 1)
	leaks()
	givesBack()
	allocatesInGo()
	runtime.GC()
	runtime.GC()
	asked := time.Now()
	both := write(t)
	runtime.KeepAlive(kept)
	// It is of this moment, not of the time since the start, as profile servers tell snapshots from changes.
	if both.DurationNanos != 0 || time.Unix(0, both.TimeNanos).Before(asked) {
		t.Errorf("a profile of %v, %v long", time.Unix(0, both.TimeNanos), time.Duration(both.DurationNanos))
	}
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

// What the profiler itself allocates, by the program's threads, is in no profile.
func TestTheProfilersOwnIsNotThere(t *testing.T) {
	start(t, 100)
	leaks()
	for range 3 {
		write(t)
	}
	profile := write(t)
	for _, call := range []string{"_session_poll", "go_write", "go_stats_text", "go_memory_text"} {
		if got := sum(profile, "alloc_space", "native", "._Cfunc_onstack"+call); got != 0 {
			t.Errorf("%d bytes allocated in %s", got, call)
		}
	}
	if got := sum(profile, "alloc_space", "native", "leaktest_keep", "nativeheap_test.leaks"); got < 900_000 {
		t.Errorf("%d bytes allocated by leaks, not about a million", got)
	}
}

// A newer profile that is closed leaves the older one, which was stopped.
func TestTheOlderProfileComesBack(t *testing.T) {
	older := start(t, 1)
	leaks()
	if err := older.Stop(); err != nil {
		t.Fatal(err)
	}
	if err := start(t, 1).Close(); err != nil {
		t.Fatal(err)
	}
	if got := sum(write(t), "inuse_space", "native", "leaktest_keep", "nativeheap_test.leaks"); got != 1000*1000 {
		t.Errorf("%d bytes in use by leaks, not 1000000", got)
	}
}

// The account adds up, knows Go's memory and the native one, and is in the profile.
func TestMemory(t *testing.T) {
	start(t, 1000)
	leaks()
	allocatesInGo()
	for i := range kept {
		kept[i] = 1
	}
	parts := map[string]int64{}
	var whole, sum int64
	for _, line := range write(t).Comments {
		var bytes int64
		rest, found := strings.CutPrefix(line, "onstack.memory bytes=")
		if !found {
			continue
		}
		number, part, _ := strings.Cut(rest, " of=")
		if _, err := fmt.Sscan(number, &bytes); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		if parts[part] = bytes; part == "resident" {
			whole = bytes
		} else {
			sum += bytes
		}
	}
	if whole == 0 || sum != whole {
		t.Errorf("the parts add up to %d of %d bytes: %v", sum, whole, parts)
	}
	if parts["Go, in use"] < int64(len(kept)) || parts["native, in use, in the profile"] < 500*1000 || parts["code"] == 0 {
		t.Errorf("%v", parts)
	}
	if parts["unexplained"] > whole/10 && !sanitized { // a detector has shadow memory
		t.Errorf("%d of %d bytes are not explained: %v", parts["unexplained"], whole, parts)
	}
	runtime.KeepAlive(kept)
	var table bytes.Buffer
	if err := onstack.WriteMemory(&table); err != nil || !strings.Contains(table.String(), "MiB 100.00%  resident\n") {
		t.Errorf("%v\n%s", err, &table)
	}
}

// What is younger than asked for does not count as in use.
func TestHeapAge(t *testing.T) {
	heap := start(t, 1)
	leaks()
	gap := 300 * time.Millisecond
	if sanitized { // to write a profile takes longer than that
		gap = 6 * time.Second
	}
	time.Sleep(gap)
	begun := time.Now()
	leaks()
	if err := heap.Stop(); err != nil { // all is in the profile
		t.Fatal(err)
	}
	const one = 1000 * 1000
	if got := sum(write(t), "inuse_space", "native", "nativeheap_test.leaks"); got != 2*one {
		t.Errorf("%d bytes in use, of any age", got)
	}
	between := write(t, onstack.WithHeapAge(time.Since(begun)+gap/3))
	if got := sum(between, "inuse_space", "native", "nativeheap_test.leaks"); got != one {
		t.Errorf("%d bytes in use since before the second round", got)
	}
	if got := sum(between, "alloc_space", "native", "nativeheap_test.leaks"); got != 2*one {
		t.Errorf("%d bytes allocated", got)
	}
	if got := sum(write(t, onstack.WithHeapAge(time.Hour)), "inuse_space", "native"); got != 0 {
		t.Errorf("%d bytes in use for an hour", got)
	}
}

// Native samples that lead to a goroutine, of many goroutines and threads at once.
func TestStacksAreRooted(t *testing.T) {
	heap := start(t, 100000)
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
