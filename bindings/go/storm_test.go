// SPDX-License-Identifier: MIT OR Apache-2.0

//go:build cgo && linux

package onstack_test

import (
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"time"

	onstack "github.com/onstack-profiler/onstack/bindings/go"
	"github.com/onstack-profiler/onstack/bindings/go/internal/testburn"
	"github.com/onstack-profiler/onstack/bindings/go/internal/testnative"
)

// What Go programs do that is hard on a profiler, each for a moment under 1,000 Hz. The runtime checks itself all the
// while: where a handler disturbs it, it throws.
var storms = map[string]func(t *testing.T, end time.Time){
	"goroutines": func(_ *testing.T, _ time.Time) {
		var work sync.WaitGroup
		for range 100_000 {
			work.Go(func() { runtime.Gosched() })
		}
		work.Wait()
		testburn.Go(200 * time.Millisecond)
	},
	"deep": func(_ *testing.T, end time.Time) {
		for time.Now().Before(end) {
			done := make(chan struct{})
			go func() { // a new stack, which grows
				defer close(done)
				deep(2000)
			}()
			<-done
		}
	},
	"threads": func(_ *testing.T, end time.Time) {
		for time.Now().Before(end) {
			var work sync.WaitGroup
			for range 10 {
				work.Go(func() {
					runtime.LockOSThread() // ends with the goroutine, and its thread too
					testburn.Native(2 * time.Millisecond)
				})
			}
			work.Wait()
		}
	},
	"callbacks": func(_ *testing.T, end time.Time) {
		for time.Now().Before(end) {
			testnative.Callback(func() { testnative.Callback(func() { deep(50) }) })
		}
	},
	"garbage": func(_ *testing.T, end time.Time) {
		var kept [64][]byte
		for i := 0; time.Now().Before(end); i++ {
			kept[i%len(kept)] = make([]byte, 1<<12)
			if i%5000 == 0 {
				runtime.GC()
			}
		}
		runtime.KeepAlive(kept)
	},
	"exec": func(t *testing.T, end time.Time) {
		for time.Now().Before(end) {
			if err := exec.Command("/bin/true").Run(); err != nil {
				t.Error(err)
			}
			testburn.Go(2 * time.Millisecond)
		}
	},
	"panics": func(_ *testing.T, end time.Time) {
		for time.Now().Before(end) {
			func() {
				defer func() { recover() }()
				var nothing *[1 << 10]int
				nothing[deep(10)%1024]++ // a true SIGSEGV
			}()
		}
	},
	"SIGURG": func(_ *testing.T, end time.Time) {
		stop := make(chan struct{})
		go func() {
			for {
				select {
				case <-stop:
					return
				default:
					syscall.Kill(os.Getpid(), syscall.SIGURG)
				}
			}
		}()
		testburn.Go(time.Until(end))
		close(stop)
	},
}

//go:noinline
func deep(n int) int {
	var room [128]int
	room[n%len(room)] = n
	if n == 0 {
		return 0
	}
	return deep(n-1) + room[n%len(room)]
}

func TestStorms(t *testing.T) {
	for name, storm := range storms {
		t.Run(name, func(t *testing.T) {
			goroutines := runtime.NumGoroutine()
			p := start(t, onstack.WithRate(1000))
			// On a busy machine half a second can have a handful of samples, each of many ticks.
			for limit := time.Now().Add(20 * time.Second); ; {
				storm(t, time.Now().Add(500*time.Millisecond))
				if p.Stats().Samples >= 40 || time.Now().After(limit) {
					break
				}
			}
			if err := p.Stop(); err != nil {
				t.Fatal(err)
			}
			s := p.Stats()
			t.Logf("%d ticks, %d of %d stacks cut %v", s.Ticks, s.Truncated-s.TruncatedBy[onstack.TruncatedDepth], s.Samples,
				s.TruncatedBy)
			if s.Ticks != s.Recorded+s.Unattributed+s.DroppedRingFull+s.DroppedNoStack+s.DroppedUnwinder+s.DroppedStopping {
				t.Errorf("the accounting does not balance: %+v", s)
			}
			cut := s.Truncated - s.TruncatedBy[onstack.TruncatedDepth]
			if sanitized { // the detectors keep the goroutine's stack to themselves
				cut -= s.TruncatedBy[onstack.TruncatedStackSwitch]
			}
			if s.Samples < 20 || cut*20 > s.Samples {
				t.Errorf("%d of %d stacks cut: %v", cut, s.Samples, s.TruncatedBy)
			}
			written(t, p)
			p.Close()
			for deadline := time.Now().Add(5 * time.Second); runtime.NumGoroutine() > goroutines; time.Sleep(time.Millisecond) {
				if time.Now().After(deadline) {
					t.Fatalf("goroutines %d -> %d", goroutines, runtime.NumGoroutine())
				}
			}
		})
	}
}

// The same without the scheduler's own signals.
func TestStormsWithoutPreemption(t *testing.T) {
	child := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "^TestStorms$/^(deep|callbacks|garbage)$")
	child.Env = append(os.Environ(), "GODEBUG=asyncpreemptoff=1")
	if out, err := child.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
