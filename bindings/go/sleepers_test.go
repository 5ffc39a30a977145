// SPDX-License-Identifier: MIT OR Apache-2.0

//go:build cgo && linux

package onstack_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"runtime/pprof"
	"strings"
	"sync"
	"testing"
	"time"

	onstack "github.com/onstack-profiler/onstack/bindings/go"
	"github.com/onstack-profiler/onstack/bindings/go/internal/pprofcheck"
	"github.com/onstack-profiler/onstack/bindings/go/internal/testburn"
)

// The sleepers are libraries' threads in poll. A tick of a thread's timer and one of the process's fall together often while
// both profilers are on; a sleeper must not be given one of them.
func TestSleepersBesideBothProfilers(t *testing.T) {
	var goProfile, ours bytes.Buffer
	early, all := 0, 0
	// The phases of the timers decide: with a handler that blocks its signal, a round has none to a hundred.
	for range 8 {
		goProfile.Reset()
		if err := pprof.StartCPUProfile(&goProfile); err != nil {
			t.Fatal(err)
		}
		if err := onstack.StartCPUProfile(&ours, onstack.WithRate(100)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(20 * time.Millisecond) // the handler is as it will be
		inRound, ofRound, err := testburn.BesideSleepers(burnOnTwo)
		if err != nil {
			t.Fatal(err)
		}
		early, all = early+inRound, all+ofRound
		if err := onstack.StopCPUProfile(); err != nil {
			t.Fatal(err)
		}
		pprof.StopCPUProfile()
	}
	t.Logf("%d of %d polls ended early", early, all)
	// What remains: a tick of the process that finds the thread that it is for without a processor, or in a handler.
	bound := 500
	switch {
	case !framesNest(t):
		bound = 20 // as docs/SIGNALS.md has it
	case sanitized:
		bound = 100 // they make handlers longer
	}
	if early*bound > all {
		t.Errorf("%d of %d polls of 5 ms ended early beside both profilers, more than one in %d", early, all, bound)
	}
	checkNoHandler(t, goProfile.Bytes())
}

// framesNest: whether the frames of the signals of one moment lie above each other here, as core/sampler/signal/nesting_fit.c
// decides it. Elsewhere the rate is that of docs/SIGNALS.md.
func framesNest(t *testing.T) bool {
	t.Helper()
	const (
		atMinSigStkSz = 51 // linux/auxvec.h
		timers        = 4  // ours on the thread and of the process, Go's two
		goStack       = 32768
		goHandler     = 8192
	)
	release, err := os.ReadFile("/proc/sys/kernel/osrelease")
	if err != nil {
		t.Fatal(err)
	}
	var major, minor, frame uint64
	if _, err := fmt.Sscanf(string(release), "%d.%d", &major, &minor); err != nil {
		t.Fatal(err)
	}
	auxv, err := os.ReadFile("/proc/self/auxv")
	if err != nil {
		t.Fatal(err)
	}
	for frame = 4096; len(auxv) >= 16; auxv = auxv[16:] {
		if binary.NativeEndian.Uint64(auxv) == atMinSigStkSz {
			frame = binary.NativeEndian.Uint64(auxv[8:])
		}
	}
	return (major > 6 || major == 6 && minor >= 13) && timers*(frame+128)+goHandler <= goStack
}

func burnOnTwo() {
	var both sync.WaitGroup
	for range 2 {
		both.Go(func() { testburn.Go(750 * time.Millisecond) })
	}
	both.Wait()
}

// checkNoHandler: where the frames of two signals lie above each other, Go must be told what the host was doing, and not
// that our handler was interrupted. (Go calls native code without symbols runtime._ExternalCode.)
func checkNoHandler(t *testing.T, written []byte) {
	t.Helper()
	parsed, err := pprofcheck.Parse(written)
	if err != nil {
		t.Fatal(err)
	}
	var all, outside int64
	for _, sample := range parsed.Sample {
		all += sample.Value[0]
		for _, location := range sample.Location {
			for _, line := range location.Line {
				if strings.Contains(line.Function.Name, "ExternalCode") {
					outside += sample.Value[0]
				}
			}
		}
	}
	if all < 20 || outside*10 > all {
		t.Errorf("%d of the %d samples of Go's profile are outside of Go, in a program that computes in Go", outside, all)
	}
}
