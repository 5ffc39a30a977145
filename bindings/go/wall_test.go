// SPDX-License-Identifier: MIT OR Apache-2.0

//go:build cgo && linux

package onstack_test

import (
	"testing"
	"time"

	onstack "github.com/onstack-profiler/onstack/bindings/go"
	"github.com/onstack-profiler/onstack/bindings/go/internal/testnative"
)

// A thread of C that waits is seen on the wall clock, with the function that waits, and the program goes on as it would.
func TestWallClockSeesWhatWaits(t *testing.T) { seesWhatWaits(t, onstack.ClockWall, "wall") }

func TestWallSignalClockSeesWhatWaits(t *testing.T) {
	seesWhatWaits(t, onstack.ClockWallSignal, "wall-signal")
}

func seesWhatWaits(t *testing.T, clock onstack.Clock, name string) {
	t.Helper()
	session := start(t, onstack.WithClock(clock), onstack.WithRate(50))
	testnative.Sleep(1500 * time.Millisecond)
	if err := session.Stop(); err != nil {
		t.Fatal(err)
	}
	if is := session.Stats().Clock; is != name {
		t.Errorf("the clock is %q", is)
	}
	p := written(t, session)
	if kind := p.SampleType[len(p.SampleType)-1]; kind.Type != "wall" || kind.Unit != "nanoseconds" || p.PeriodType.Type != "wall" {
		t.Errorf("sample type %v, period type %v", kind, p.PeriodType)
	}
	var waiting int64
	for _, sample := range p.Sample {
		for _, name := range names(sample) {
			if name == "testnative_sleep" {
				waiting += sample.Value[len(sample.Value)-1]
				break
			}
		}
	}
	// It sleeps a second and a half; a busy machine may take some of it.
	if waiting < int64(700*time.Millisecond) || waiting > int64(4*time.Second) {
		t.Errorf("%v of waiting in testnative_sleep\n%v", time.Duration(waiting), p)
	}
}

// Looks come as often as asked for, in a program that does nothing as well: they are not made by the polls of a goroutine.
func TestWallClockKeepsItsRate(t *testing.T) {
	const rate, length = 50, time.Second // at 100 Hz looks under -asan take more of a busy processor than they may
	var rounds uint64
	for range 5 { // a busy machine may be late
		session := start(t, onstack.WithClock(onstack.ClockWall), onstack.WithRate(rate))
		time.Sleep(length)
		if err := session.Stop(); err != nil {
			t.Fatal(err)
		}
		if rounds = session.Stats().WallRounds; rounds > rate*3/4 {
			return
		}
	}
	t.Errorf("%d looks in %v at %d Hz", rounds, length, rate)
}
