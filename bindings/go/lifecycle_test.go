// SPDX-License-Identifier: MIT OR Apache-2.0

//go:build cgo && linux

package onstack_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	onstack "github.com/onstack-profiler/onstack/bindings/go"
	"github.com/onstack-profiler/onstack/bindings/go/internal/testburn"
)

const maxSessions = 8

func TestRefusals(t *testing.T) {
	cases := map[string]struct {
		option onstack.Option
		want   error
		named  string // the option in the text
	}{
		"rate 0":            {onstack.WithRate(0), onstack.ErrFrequency, "WithRate"},
		"rate below 0":      {onstack.WithRate(-1), onstack.ErrFrequency, "WithRate"},
		"rate too high":     {onstack.WithRate(10001), onstack.ErrFrequency, "WithRate"},
		"rate beyond int32": {onstack.WithRate(1<<32 + 99), onstack.ErrFrequency, "WithRate"},
		"depth 0":           {onstack.WithMaxDepth(0), onstack.ErrOptions, "WithMaxDepth"},
		"depth too large":   {onstack.WithMaxDepth(1025), onstack.ErrOptions, "WithMaxDepth"},
		"buffer too large":  {onstack.WithBufferSize(1 << 30), onstack.ErrOptions, "WithBufferSize"},
		"no stacks":         {onstack.WithMaxStacks(0), onstack.ErrOptions, "WithMaxStacks"},
		"nil option":        {nil, onstack.ErrOptions, "nil"},
		"unwinder":          {onstack.WithUnwinder("no-such"), onstack.ErrUnwinder, "WithUnwinder"},
		"unwinder empty":    {onstack.WithUnwinder(""), onstack.ErrUnwinder, "WithUnwinder"},
		"unwinder with NUL": {onstack.WithUnwinder("pc_only\x00"), onstack.ErrUnwinder, "WithUnwinder"},
		"clock":             {onstack.WithClock(9), onstack.ErrOptions, "WithClock"},
		"SIGKILL":           {onstack.WithSignal(syscall.SIGKILL), onstack.ErrSignal, "WithSignal"},
		"SIGTERM":           {onstack.WithSignal(syscall.SIGTERM), onstack.ErrSignal, "WithSignal"},
		"SIGUSR2 in Go":     {onstack.WithSignal(syscall.SIGUSR2), onstack.ErrSignal, "WithSignal"},
		"signal 99":         {onstack.WithSignal(99), onstack.ErrSignal, "WithSignal"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			p, err := onstack.Start(c.option)
			if err == nil {
				p.Close()
			}
			if !errors.Is(err, c.want) || p != nil {
				t.Fatalf("%v, want %v", err, c.want)
			}
			text := err.Error()
			if !strings.HasPrefix(text, "onstack: ") || len(text) < 30 || !strings.Contains(text, c.named) ||
				strings.Contains(text, "onstack_") || strings.Contains(text, "onstack.h") {
				t.Errorf("the text says too little, or speaks of C: %q", err)
			}
		})
	}
	if errors.Is(onstack.ErrFrequency, errors.ErrUnsupported) || !errors.Is(onstack.ErrUnsupported, errors.ErrUnsupported) {
		t.Error("ErrUnsupported alone is errors.ErrUnsupported")
	}
}

func TestNinthSessionIsRefused(t *testing.T) {
	profiles := make([]*onstack.Profile, maxSessions)
	for i := range profiles {
		profiles[i] = start(t, onstack.WithRate(50+i))
	}
	if _, err := onstack.Start(); !errors.Is(err, onstack.ErrSessions) {
		t.Fatalf("the ninth: %v", err)
	}
	testburn.Go(500 * time.Millisecond)
	for i, p := range profiles {
		if err := p.Stop(); err != nil {
			t.Fatal(err)
		}
		ticks, want := p.Stats().Ticks, uint64(50+i)/2
		if ticks < want*7/10 || ticks > want*13/10+2 {
			t.Errorf("session at %d Hz: %d ticks in 0.5 s of CPU time", 50+i, ticks)
		}
	}
	start(t)
}

func TestStopAndCloseTwice(t *testing.T) {
	p := start(t)
	if err := p.Stop(); err != nil {
		t.Fatal(err)
	}
	if err := p.Stop(); !errors.Is(err, onstack.ErrStopped) {
		t.Errorf("second Stop: %v", err)
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
	if err := p.Close(); !errors.Is(err, onstack.ErrClosed) {
		t.Errorf("second Close: %v", err)
	}
	_, written := p.WriteTo(io.Discard)
	for _, err := range []error{written, p.WriteFolded(io.Discard), p.Reset()} {
		if !errors.Is(err, onstack.ErrClosed) {
			t.Errorf("after Close: %v", err)
		}
	}
	if p.Stats().Running {
		t.Error("running after Close")
	}
}

// Whoever comes second waits until the profile is really over: before that, Close has nothing that it could give back.
func TestCloseBesideStop(t *testing.T) {
	for round := 0; round < 300 && !t.Failed(); round++ {
		p := start(t)
		var stopping sync.WaitGroup
		for range 3 {
			stopping.Go(func() {
				if err := p.Stop(); err != nil && !errors.Is(err, onstack.ErrStopped) {
					t.Errorf("round %d: Stop: %v", round, err)
				}
				if p.Stats().Running {
					t.Errorf("round %d: running after Stop", round)
				}
			})
		}
		runtime.Gosched() // so that Close is seldom the first
		if err := p.Close(); err != nil {
			t.Errorf("round %d: Close: %v", round, err)
		}
		if _, err := p.WriteTo(io.Discard); !errors.Is(err, onstack.ErrClosed) {
			t.Errorf("round %d: WriteTo after Close: %v", round, err)
		}
		stopping.Wait()
	}
}

type brokenWriter struct{ error }

func (b brokenWriter) Write([]byte) (int, error) { return 0, b.error }

func TestStartStopCPUProfile(t *testing.T) {
	if err := onstack.StopCPUProfile(); err != nil {
		t.Errorf("stop without start: %v", err)
	}
	if err := onstack.StartCPUProfile(nil); !errors.Is(err, onstack.ErrOptions) {
		t.Errorf("without a writer: %v", err)
	}
	var out bytes.Buffer
	if err := onstack.StartCPUProfile(&out); err != nil {
		t.Fatal(err)
	}
	if err := onstack.StartCPUProfile(&out); !errors.Is(err, onstack.ErrActive) {
		t.Errorf("second start: %v", err)
	}
	testburn.Go(300 * time.Millisecond)
	if err := onstack.StopCPUProfile(); err != nil {
		t.Fatal(err)
	}
	if n := total(parse(t, out.Bytes())); n < 15 {
		t.Errorf("%d samples", n)
	}
	disk := errors.New("disk full")
	if err := onstack.StartCPUProfile(brokenWriter{disk}); err != nil {
		t.Fatal(err)
	}
	if err := onstack.StopCPUProfile(); !errors.Is(err, disk) {
		t.Errorf("a writer's error: %v", err)
	}
}

// mapped is the process's address space in bytes.
func mapped(t *testing.T) uint64 {
	t.Helper()
	var pages uint64
	text, err := os.ReadFile("/proc/self/statm")
	if err == nil {
		_, err = fmt.Sscan(string(text), &pages)
	}
	if err != nil {
		t.Fatal(err)
	}
	return pages * uint64(os.Getpagesize())
}

// left counts what a profile could leave behind in the process.
func left(t *testing.T) (goroutines, descriptors, timers int) {
	t.Helper()
	files, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile("/proc/self/timers")
	if err != nil {
		t.Fatal(err)
	}
	comms, err := filepath.Glob("/proc/self/task/*/comm")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range comms {
		if name, _ := os.ReadFile(path); strings.HasPrefix(string(name), "onstack-") {
			t.Errorf("a thread of the core: %s", name)
		}
	}
	return runtime.NumGoroutine(), len(files), bytes.Count(text, []byte("ID: "))
}

func TestNothingIsLeft(t *testing.T) {
	take(t, func() { testburn.Go(50 * time.Millisecond) }) // what the runtime itself opens once
	const rounds, buffer = 20, 32 << 20
	g0, d0, t0 := left(t)
	m0 := mapped(t)
	for range rounds {
		p := start(t, onstack.WithRate(1000), onstack.WithBufferSize(buffer))
		if _, _, timers := left(t); timers == t0 {
			t.Fatal("no timer while sampling: the test would see nothing")
		}
		testburn.Go(5 * time.Millisecond)
		if err := p.Stop(); err != nil {
			t.Fatal(err)
		}
		p.Close()
		if _, err := onstack.Start(onstack.WithRate(1000), onstack.WithUnwinder("no-such")); err == nil {
			t.Fatal("no-such unwinder started")
		}
	}
	g, d, n := left(t)
	// A goroutine that has said that it is done has a few instructions left.
	for deadline := time.Now().Add(5 * time.Second); g > g0 && time.Now().Before(deadline); g, d, n = left(t) {
		time.Sleep(time.Millisecond)
	}
	if g != g0 || d != d0 || n != t0 {
		t.Errorf("goroutines %d -> %d, descriptors %d -> %d, timers %d -> %d", g0, g, d0, d, t0, n)
	}
	// Go's heap may have taken an arena of 64 MiB meanwhile.
	if m := mapped(t); m > m0+rounds*buffer/2 {
		t.Errorf("address space %d MiB -> %d MiB", m0>>20, m>>20)
	}
}

func TestForgottenProfileIsCollected(t *testing.T) {
	before := runtime.NumGoroutine()
	for range maxSessions {
		if _, err := onstack.Start(); err != nil {
			t.Fatal(err)
		}
	}
	for deadline := time.Now().Add(10 * time.Second); ; {
		runtime.GC()
		if p, err := onstack.Start(); err == nil {
			p.Close()
			if runtime.NumGoroutine() <= before {
				return
			}
		}
		if time.Now().After(deadline) {
			t.Fatal("the collector did not stop forgotten profiles")
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func TestConcurrentUse(t *testing.T) {
	p := start(t, onstack.WithRate(1000))
	var work sync.WaitGroup
	for range 3 {
		work.Go(func() {
			for range 20 {
				testburn.Native(10 * time.Millisecond)
				p.Stats()
				p.WriteTo(io.Discard)
				p.WriteFolded(io.Discard)
			}
		})
	}
	work.Go(func() {
		for range 30 {
			other, err := onstack.Start()
			if err != nil {
				t.Error(err)
				return
			}
			time.Sleep(time.Millisecond)
			other.Close()
		}
		p.Stop()
		p.Close()
	})
	work.Wait()
}
