// SPDX-License-Identifier: MIT OR Apache-2.0

//go:build cgo && linux

package onstack

import (
	"bytes"
	"io"
	"testing"
	"time"

	"github.com/google/pprof/profile"
	"github.com/onstack-profiler/onstack/bindings/go/internal/pprofcheck"
)

// rawProfile is what the core might write: two stacks with a mapping, labels and mangled names.
func rawProfile(tb testing.TB, name, label string, period int64) []byte {
	mapping := &profile.Mapping{ID: 1, Start: 0x1000, Limit: 0x2000, File: "/lib/a.so", BuildID: "ab"}
	function := &profile.Function{ID: 1, Name: name, SystemName: name, Filename: "a.c", StartLine: 3}
	named := &profile.Location{ID: 1, Mapping: mapping, Address: 0x1010, Line: []profile.Line{{Function: function, Line: 7}}}
	bare := &profile.Location{ID: 2, Address: 0x9999}
	p := &profile.Profile{
		SampleType: []*profile.ValueType{{Type: "samples", Unit: "count"}, {Type: "cpu", Unit: "nanoseconds"}},
		PeriodType: &profile.ValueType{Type: "cpu", Unit: "nanoseconds"},
		Period:     period, TimeNanos: 1, DurationNanos: 2,
		Sample: []*profile.Sample{
			{Location: []*profile.Location{named, bare}, Value: []int64{3, 30}, Label: map[string][]string{"thread": {label}}},
			{Location: []*profile.Location{bare}, Value: []int64{1, 10}, NumLabel: map[string][]int64{"thread_id": {7}}},
		},
		Mapping: []*profile.Mapping{mapping}, Location: []*profile.Location{named, bare}, Function: []*profile.Function{function},
	}
	var out bytes.Buffer
	if err := p.WriteUncompressed(&out); err != nil {
		tb.Fatal(err)
	}
	return out.Bytes()
}

func sums(p *profile.Profile) (values []int64) {
	values = make([]int64, len(p.SampleType))
	for _, sample := range p.Sample {
		for i, value := range sample.Value {
			values[i] += value
		}
	}
	return values
}

// What the core hands over is trusted to be a profile, not to be a certain one: bytes of any kind end in an error or in a
// profile that pprof reads again, with the same sums, a period and the counters.
func FuzzFinish(f *testing.F) {
	f.Add(rawProfile(f, "_ZN1a1bE", "worker", 10), uint64(5), "/lib/a.so")
	f.Add(rawProfile(f, "_RNvC6_123foo3bar", "", 0), uint64(0), "a\nb")
	f.Add([]byte{}, uint64(1), "")
	f.Fuzz(func(t *testing.T, raw []byte, lost uint64, path string) {
		before, err := profile.ParseUncompressed(raw)
		modules := []ModuleStats{{Path: path, Lost: lost}}
		state := &profileState{session: &session{final: Stats{Period: time.Millisecond, Clock: "cpu"}, finalModules: modules}}
		var out bytes.Buffer
		written, finishErr := state.finish(raw, &out)
		if err != nil {
			if finishErr == nil {
				t.Fatal("a profile was made of what is none")
			}
			return
		}
		if finishErr != nil { // by pprof's own checks, such as a sample of too few values
			if before.CheckValid() == nil {
				t.Fatal(finishErr)
			}
			return
		}
		if written != int64(out.Len()) {
			t.Fatalf("%d bytes counted of %d", written, out.Len())
		}
		after, err := profile.ParseData(out.Bytes())
		if err != nil {
			t.Fatal(err)
		}
		if rules := pprofcheck.Check(out.Bytes()); rules != nil && pprofcheck.Check(raw) == nil {
			t.Fatalf("servers refuse what was made of a profile that they take: %v", rules)
		}
		if want, got := sums(before), sums(after); !equalSums(want, got) {
			t.Fatalf("sums %v, before %v", got, want)
		}
		if after.Period == 0 || len(after.Comments) <= len(before.Comments) {
			t.Fatalf("period %d, comments %q", after.Period, after.Comments)
		}
	})
}

func equalSums(a, b []int64) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}

// Writers that fail at any place get their error back, and what was counted is what they took.
func FuzzFinishToBrokenWriter(f *testing.F) {
	raw := rawProfile(f, "main", "worker", 10)
	f.Add(uint16(0))
	f.Add(uint16(100))
	f.Fuzz(func(t *testing.T, room uint16) {
		state := &profileState{session: &session{}}
		broken := &limitedWriter{room: int(room)}
		written, err := state.finish(raw, broken)
		if broken.failed != (err != nil) || written != int64(broken.taken) {
			t.Fatalf("failed %v, error %v, %d written, %d taken", broken.failed, err, written, broken.taken)
		}
	})
}

type limitedWriter struct {
	room, taken int
	failed      bool
}

func (w *limitedWriter) Write(b []byte) (int, error) {
	n := min(len(b), w.room-w.taken)
	w.taken += n
	if n < len(b) {
		w.failed = true
		return n, io.ErrShortWrite
	}
	return n, nil
}
