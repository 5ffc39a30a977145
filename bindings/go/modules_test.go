// SPDX-License-Identifier: MIT OR Apache-2.0

//go:build cgo && linux

package onstack_test

import (
	"bytes"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	onstack "github.com/onstack-profiler/onstack/bindings/go"
	"github.com/onstack-profiler/onstack/bindings/go/internal/testburn"
)

// In a profile of two frames a stack, all stacks of the program are cut in the program.
func TestModulesNameWhatWasLost(t *testing.T) {
	session := start(t, onstack.WithMaxDepth(2))
	until(t, "samples that were cut", func() bool {
		testburn.Go(100 * time.Millisecond)
		return session.Stats().TruncatedBy[onstack.TruncatedDepth] > 10
	})
	running := session.Modules()
	if err := session.Stop(); err != nil {
		t.Fatal(err)
	}
	modules := session.Modules()
	if len(running) == 0 || len(modules) == 0 {
		t.Fatalf("running %v, stopped %v", running, modules)
	}
	first := modules[0]
	if first.Lost == 0 || first.LostBy[onstack.TruncatedDepth] == 0 || !strings.Contains(first.Advice(), "WithMaxDepth") ||
		!strings.HasPrefix(first.String(), first.Path+": ") {
		t.Errorf("%+v", first)
	}
	comments := strings.Join(written(t, session).Comments, "\n")
	for _, part := range []string{" unwinder=rules ", " truncated=", "onstack.module lost=", " depth=", " path=" + first.Path} {
		if !strings.Contains(comments, part) {
			t.Errorf("%q is not in the comments:\n%s", part, comments)
		}
	}
}

func TestModulesThatLostNothingHaveNoAdvice(t *testing.T) {
	if advice := (onstack.ModuleStats{Path: "/a.so"}).Advice(); advice != "" {
		t.Error(advice)
	}
	if text := (onstack.ModuleStats{}).String(); text != "code generated at run time: nothing was lost there" {
		t.Error(text)
	}
}

// Taken again and again while goroutines work, the profiles have every tick once.
func TestTakenProfilesAddUp(t *testing.T) {
	session := start(t, onstack.WithRate(500))
	var enough atomic.Bool
	defer enough.Store(true)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for !enough.Load() {
			testburn.Go(50 * time.Millisecond)
		}
	}()
	var sum, takes int64
	var last int64
	take := func() {
		var out bytes.Buffer
		n, err := session.TakeTo(&out)
		if err != nil || n != int64(out.Len()) {
			t.Fatal(n, out.Len(), err)
		}
		p := parse(t, out.Bytes())
		if p.TimeNanos <= last {
			t.Errorf("take %d begins at %d, the one before at %d", takes, p.TimeNanos, last)
		}
		last = p.TimeNanos
		sum += total(p)
		takes++
	}
	// A take can last half a second under a detector.
	for begun := time.Now(); takes < 5 || time.Since(begun) < time.Second; take() {
		time.Sleep(20 * time.Millisecond)
	}
	enough.Store(true)
	<-done
	if err := session.Stop(); err != nil {
		t.Fatal(err)
	}
	take()
	if recorded := int64(session.Stats().Recorded); sum != recorded || recorded == 0 {
		t.Errorf("%d takes have %d ticks, %d were recorded", takes, sum, recorded)
	}
}

func until(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for limit := time.Now().Add(20 * time.Second); !holds(); {
		if time.Now().After(limit) {
			t.Fatalf("no %s within 20 s", what)
		}
	}
}
