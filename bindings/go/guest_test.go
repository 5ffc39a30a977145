// SPDX-License-Identifier: MIT OR Apache-2.0

//go:build cgo && linux

package onstack_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"runtime/pprof"
	"strings"
	"testing"
	"time"

	"github.com/google/pprof/profile"
	onstack "github.com/onstack-profiler/onstack/bindings/go"
	"github.com/onstack-profiler/onstack/bindings/go/internal/testburn"
)

// Go's own profile is compared with the same run without us, at the same time on the same machine: it is not whole to
// begin with (it does not count overruns), so an absolute number would say nothing.

// guestEnv holds the steps that a child of the test takes: G+ G- start and stop runtime/pprof, O+ O- ours, b burns.
const guestEnv = "ONSTACK_TEST_GUEST"

const burnTime = 800 * time.Millisecond

// guestResult counts samples, and the CPU time of the process while each profile ran.
type guestResult struct {
	GoSamples, OurTicks uint64
	GoTime, OurTime     time.Duration
}

func TestGoProfileBesideOurs(t *testing.T) {
	if testing.Short() {
		t.Skip("takes about 30 s")
	}
	orders := map[string]string{
		"Go before":                        "G+ b G- O+ b O-",
		"Go after":                         "O+ b O- G+ b G-",
		"Go first, Go out first":           "G+ b O+ b G- b O-",
		"Go first, ours out first":         "G+ b O+ b O- b G-",
		"ours first, Go out first":         "O+ b G+ b G- b O-",
		"ours first, ours out first":       "O+ b G+ b O- b G-",
		"ours twice while Go's, and after": "G+ O+ b O- O+ b O- G- G+ b G-",
	}
	for name, order := range orders {
		t.Run(name, func(t *testing.T) {
			var wrong error
			for range 3 { // the kernel's ticks are uneven on a busy machine
				alone := launch(t, strings.NewReplacer("O+", "", "O-", "").Replace(order))
				beside := launch(t, order)
				if wrong = compare(t, alone(), beside()); wrong == nil {
					return
				}
				t.Log(wrong)
			}
			t.Error(wrong)
		})
	}
}

func compare(t *testing.T, alone, beside guestResult) error {
	t.Helper()
	rate := func(samples uint64, spent time.Duration) float64 { return float64(samples) / spent.Seconds() }
	without, with := rate(alone.GoSamples, alone.GoTime), rate(beside.GoSamples, beside.GoTime)
	t.Logf("Go: %.1f samples per CPU second alone, %.1f beside ours; ours: %.1f ticks", without, with,
		rate(beside.OurTicks, beside.OurTime))
	if without < 10 {
		return fmt.Errorf("Go's profile is empty without us: %+v", alone)
	}
	if with < without*0.8 || with > without*1.2 {
		return fmt.Errorf("Go's profile changed: %+v alone, %+v beside ours", alone, beside)
	}
	// Little more than a second on threads that come and go on a busy machine: as wide as for Go. TestStatsBalance and the core's
	// test_scale close the accounting.
	if ours := rate(beside.OurTicks, beside.OurTime); ours < onstack.DefaultRate*0.8 || ours > onstack.DefaultRate*1.2 {
		return fmt.Errorf("our profile at %d Hz: %+v", onstack.DefaultRate, beside)
	}
	return nil
}

// launch starts a child; the function that it returns waits for the result.
func launch(t *testing.T, order string) func() guestResult {
	t.Helper()
	child := exec.CommandContext(t.Context(), os.Args[0])
	child.Env = append(os.Environ(), guestEnv+"="+order)
	var out, problems bytes.Buffer
	child.Stdout, child.Stderr = &out, &problems
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	return func() (result guestResult) {
		t.Helper()
		if err := child.Wait(); err != nil {
			t.Fatalf("%q: %v\n%s", order, err, problems.String())
		}
		if err := json.Unmarshal(out.Bytes(), &result); err != nil {
			t.Fatalf("%q: %v: %s", order, err, out.String())
		}
		return result
	}
}

// guest is the child.
type guest struct {
	guestResult
	goProfile        bytes.Buffer
	ours             *onstack.Profile
	goSince, ourFrom time.Duration
}

func runGuest(order string) {
	g := &guest{}
	for _, step := range strings.Fields(order) {
		if err := g.take(step); err != nil {
			fmt.Fprintln(os.Stderr, step, err)
			os.Exit(1)
		}
	}
	json.NewEncoder(os.Stdout).Encode(g.guestResult)
}

func (g *guest) take(step string) (err error) {
	switch step {
	case "b":
		testburn.Go(burnTime)
	case "G+":
		g.goProfile.Reset()
		g.goSince = testburn.CPUTime()
		err = pprof.StartCPUProfile(&g.goProfile)
	case "G-":
		pprof.StopCPUProfile()
		g.GoTime += testburn.CPUTime() - g.goSince
		var p *profile.Profile
		if p, err = profile.Parse(&g.goProfile); err == nil {
			g.GoSamples += uint64(total(p))
		}
	case "O+":
		g.ourFrom = testburn.CPUTime()
		g.ours, err = onstack.Start()
	case "O-":
		err = g.ours.Stop()
		g.OurTime += testburn.CPUTime() - g.ourFrom
		g.OurTicks += g.ours.Stats().Ticks
	}
	return err
}
