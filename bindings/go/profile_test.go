// SPDX-License-Identifier: MIT OR Apache-2.0

//go:build cgo && linux

package onstack_test

import (
	"bytes"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/pprof/profile"
	onstack "github.com/onstack-profiler/onstack/bindings/go"
	"github.com/onstack-profiler/onstack/bindings/go/internal/testburn"
)

func TestNativeStackReachesGo(t *testing.T) {
	_, p := take(t, func() { testburn.Native(time.Second) })
	leaf := func(s *profile.Sample) bool { return names(s)[0] == "testburn_leaf" }
	whole := func(s *profile.Sample) bool {
		return leaf(s) && hasInOrder(names(s), "testburn_leaf", "testburn_caller", "runtime.asmcgocall", "runtime.cgocall",
			"testburn.Native", "TestNativeStackReachesGo.func1", "testing.tRunner", "runtime.goexit")
	}
	wantMost(t, "samples in the C function", count(p, leaf), total(p))
	wantMost(t, "stacks from C to the goroutine's root", count(p, whole), count(p, leaf))
	if t.Failed() {
		t.Log(p)
	}
}

func TestGoStackHasInlinedFunctions(t *testing.T) {
	_, p := take(t, func() { testburn.Go(time.Second) })
	inlined := func(s *profile.Sample) bool {
		lines := s.Location[0].Line
		// A tick that comes with the scheduler's own signal, as a quarter do beside thirty busy processes, has that on top.
		if len(s.Location) > 1 && len(lines) == 1 && lines[0].Function.Name == "runtime.asyncPreempt" {
			lines = s.Location[1].Line
		}
		return len(lines) == 2 && strings.HasSuffix(lines[0].Function.Name, "testburn.goInlined") &&
			strings.HasSuffix(lines[1].Function.Name, "testburn.Go") &&
			lines[0].Line > lines[0].Function.StartLine && lines[0].Function.StartLine > 0 &&
			strings.HasSuffix(lines[0].Function.Filename, "burn.go")
	}
	rooted := func(s *profile.Sample) bool {
		return inlined(s) && hasInOrder(names(s), "testburn.Go", "TestGoStackHasInlinedFunctions.func1", "runtime.goexit")
	}
	wantMost(t, "samples in the inlined function", count(p, inlined), total(p))
	wantMost(t, "stacks to the goroutine's root", count(p, rooted), count(p, inlined))
	if t.Failed() {
		t.Log(p)
	}
}

func TestTimeAndHeader(t *testing.T) {
	before := testburn.CPUTime()
	begun := time.Now()
	session, p := take(t, func() { testburn.Go(time.Second) }, onstack.WithRate(50))
	spent := testburn.CPUTime() - before
	if p.SampleType[0].Type != "samples" || p.SampleType[1].Type != "cpu" || p.SampleType[1].Unit != "nanoseconds" {
		t.Errorf("sample types %v %v", p.SampleType[0], p.SampleType[1])
	}
	var cpu time.Duration
	for _, sample := range p.Sample {
		cpu += time.Duration(sample.Value[1])
	}
	if cpu < spent*8/10 || cpu > spent*12/10 {
		t.Errorf("the profile has %v of CPU time, the process spent %v", cpu, spent)
	}
	if p.Period != (20*time.Millisecond).Nanoseconds() || session.Stats().Period.Duration() != 20*time.Millisecond {
		t.Errorf("period %d ns at 50 Hz", p.Period)
	}
	_, idle := take(t, func() {}, onstack.WithRate(50))
	if total(idle) == 0 && idle.Period != p.Period {
		t.Errorf("period %d ns without samples", idle.Period)
	}
	if at := time.Unix(0, p.TimeNanos); at.Before(begun) || time.Since(at) > time.Minute {
		t.Errorf("profile begun at %v, test at %v", at, begun)
	}
	if d := time.Duration(p.DurationNanos); d < 800*time.Millisecond || d > time.Since(begun) {
		t.Errorf("duration %v", d)
	}
}

func TestThreadLabels(t *testing.T) {
	work := func() {
		if err := testburn.NativeThread("burn-thread", 700*time.Millisecond); err != nil {
			t.Fatal(err)
		}
	}
	_, p := take(t, work)
	native := func(s *profile.Sample) bool { return names(s)[0] == "testburn_leaf" }
	labelled := func(s *profile.Sample) bool {
		return native(s) && s.HasLabel("thread", "burn-thread") && len(s.NumLabel["thread_id"]) == 1
	}
	wantMost(t, "samples on the C thread", count(p, native), total(p))
	wantMost(t, "labelled samples", count(p, labelled), count(p, native))

	_, p = take(t, work, onstack.WithThreadNames(false), onstack.WithThreadIDs(false))
	wantMost(t, "samples without labels", count(p, func(s *profile.Sample) bool {
		return len(s.Label) == 0 && len(s.NumLabel) == 0
	}), total(p))
}

func TestFolded(t *testing.T) {
	session, p := take(t, func() { testburn.Native(700 * time.Millisecond) })
	var out bytes.Buffer
	if err := session.WriteFolded(&out); err != nil {
		t.Fatal(err)
	}
	var sum, rooted int64
	for line := range strings.Lines(out.String()) {
		stack, number, _ := strings.Cut(strings.TrimSpace(line), " ")
		for strings.Contains(number, " ") {
			_, number, _ = strings.Cut(number, " ")
		}
		n, err := strconv.ParseInt(number, 10, 64)
		if err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		sum += n
		if strings.Contains(stack, ";runtime.cgocall;runtime.asmcgocall;") && strings.Contains(line, ";testburn_caller;testburn_leaf ") {
			rooted += n
		}
	}
	if sum != total(p) {
		t.Errorf("%d ticks folded, %d in pprof", sum, total(p))
	}
	wantMost(t, "stacks of the burner", rooted, sum)
	if t.Failed() {
		t.Log(out.String())
	}
}

func TestWriteWhileRunningAndReset(t *testing.T) {
	p := start(t)
	testburn.Go(500 * time.Millisecond)
	first := written(t, p)
	testburn.Go(500 * time.Millisecond)
	second := written(t, p)
	if err := p.Reset(); err != nil {
		t.Fatal(err)
	}
	third := written(t, p)
	if total(first) < 20 || total(second) < total(first)+20 || total(third) > 20 {
		t.Errorf("after 0.5 s %d ticks, after 1 s %d, after Reset %d", total(first), total(second), total(third))
	}
	if third.TimeNanos <= second.TimeNanos {
		t.Error("Reset did not begin a new span")
	}
}

func TestStatsBalance(t *testing.T) {
	session, p := take(t, func() { testburn.Go(500 * time.Millisecond) })
	s := session.Stats()
	if s.Running || s.Ticks == 0 || s.ThreadsSeen == 0 || s.Unwinder == "" {
		t.Errorf("%+v", s)
	}
	if s.Ticks != s.Recorded+s.Unattributed+s.DroppedRingFull+s.DroppedNoStack+s.DroppedUnwinder+s.DroppedStopping {
		t.Errorf("the accounting does not balance: %+v", s)
	}
	// A sample that came late stands for several ticks.
	if uint64(total(p)) != s.Recorded || s.Samples == 0 || s.Samples > s.Recorded {
		t.Errorf("%d ticks in the profile, %d in %d samples recorded", total(p), s.Recorded, s.Samples)
	}
}

func TestUnwinderAndDepth(t *testing.T) {
	session, p := take(t, func() { testburn.Go(300 * time.Millisecond) }, onstack.WithUnwinder("pc_only"))
	for _, sample := range p.Sample {
		if len(sample.Location) > 2 { // the leaf, and the mark of a stack that was cut
			t.Fatalf("pc_only gave %v", names(sample))
		}
	}
	s := session.Stats()
	if s.Unwinder != "pc_only" || s.TruncatedBy[onstack.TruncatedByDesign] != s.Samples || s.Samples == 0 {
		t.Errorf("%+v", s)
	}
	session, _ = take(t, func() { testburn.Go(300 * time.Millisecond) }, onstack.WithMaxDepth(2))
	s = session.Stats()
	if s.TruncatedBy[onstack.TruncatedDepth]*10 < s.Samples*9 || s.Samples == 0 {
		t.Errorf("depth 2: %+v", s)
	}
}
