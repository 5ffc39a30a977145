// SPDX-License-Identifier: MIT OR Apache-2.0

//go:build cgo && linux

package onstack_test

import (
	"bytes"
	"runtime"
	"runtime/pprof"
	"sync"
	"testing"
	"time"

	onstack "github.com/onstack-profiler/onstack/bindings/go"
	"github.com/onstack-profiler/onstack/bindings/go/internal/testburn"
)

// Threads that end after a few milliseconds, made by Go and by C, while Go's profiler makes timers for them as well: our
// samples add up to the CPU time that they used.
func TestShortLivedThreadsBesideGoProfiler(t *testing.T) {
	const (
		life  = 5 * time.Millisecond
		burns = 1200 * time.Millisecond
	)
	for _, kind := range []struct {
		name string
		live func() error
	}{
		{"Go", func() error {
			runtime.LockOSThread() // and never unlocked: the thread ends with its goroutine
			testburn.Native(life)
			return nil
		}},
		{"C", func() error { return testburn.NativeThread("short", life) }},
	} {
		t.Run(kind.name, func(t *testing.T) {
			var goProfile bytes.Buffer
			if err := pprof.StartCPUProfile(&goProfile); err != nil {
				t.Fatal(err)
			}
			defer pprof.StopCPUProfile()
			p := start(t, onstack.WithRate(100))
			begin := testburn.CPUTime()
			for testburn.CPUTime()-begin < burns {
				var both sync.WaitGroup
				for range 2 {
					both.Go(func() {
						if err := kind.live(); err != nil {
							t.Error(err)
						}
					})
				}
				both.Wait()
			}
			burned := testburn.CPUTime() - begin
			if err := p.Stop(); err != nil {
				t.Fatal(err)
			}
			pprof.StopCPUProfile()
			var ours time.Duration
			for _, sample := range written(t, p).Sample {
				ours += time.Duration(sample.Value[1])
			}
			t.Logf("%v of %v", ours, burned)
			if ours < burned*9/10 || ours > burned*11/10 {
				t.Errorf("samples of %v for %v of CPU time", ours, burned)
			}
		})
	}
}
