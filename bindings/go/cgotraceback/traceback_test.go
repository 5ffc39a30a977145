// SPDX-License-Identifier: MIT OR Apache-2.0

//go:build cgo && linux && (amd64 || arm64)

package cgotraceback_test

import (
	"bytes"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"runtime/debug"
	"runtime/pprof"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/pprof/profile"
	onstack "github.com/onstack-profiler/onstack/bindings/go"
	_ "github.com/onstack-profiler/onstack/bindings/go/cgotraceback"
	"github.com/onstack-profiler/onstack/bindings/go/internal/testnative"
)

// dieEnv tells a child of the test how to die.
const dieEnv = "ONSTACK_TEST_DIE"

func TestMain(m *testing.M) {
	if err := onstack.PrepareTraceback(); err != nil {
		panic(err)
	}
	switch os.Getenv(dieEnv) {
	case "crash":
		testnative.Crash()
	case "throw":
		// Not a panic: before it prints one the runtime runs the deferred calls, its own too, which forget the callback.
		testnative.Callback(func() { new(sync.Mutex).Unlock() })
	case "deep":
		below(200, func() { testnative.Callback(func() { below(100, func() { new(sync.Mutex).Unlock() }) }) })
	}
	os.Exit(m.Run())
}

// goProfile is Go's own profile of work: no session of ours exists.
func goProfile(t *testing.T, work func()) *profile.Profile {
	t.Helper()
	var out bytes.Buffer
	if err := pprof.StartCPUProfile(&out); err != nil {
		t.Fatal(err)
	}
	work()
	pprof.StopCPUProfile()
	p, err := profile.Parse(&out)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func stack(s *profile.Sample) []string {
	var all []string
	for _, location := range s.Location {
		for _, line := range location.Line {
			all = append(all, line.Function.Name)
		}
	}
	return all
}

// chain is a job's stack: the job, and the C functions above it.
func chain(job string) []string { return append([]string{job}, testnative.Chain...) }

// follows says whether the stack has `wanted` without a gap, and returns what stands above.
func follows(stack, wanted []string) (above []string, ok bool) {
	at := slices.Index(stack, wanted[0])
	if at < 0 || len(stack)-at < len(wanted) || !slices.Equal(stack[at:at+len(wanted)], wanted) {
		return nil, false
	}
	return stack[at+len(wanted):], true
}

// share counts samples that hold to those that are meant.
func share(p *profile.Profile, meant, holds func([]string) bool) (part, whole int64) {
	for _, sample := range p.Sample {
		names := stack(sample)
		if !meant(names) {
			continue
		}
		whole += sample.Value[0]
		if holds(names) {
			part += sample.Value[0]
		}
	}
	return part, whole
}

// shareOf profiles work again and again until as many samples as wanted are of the meant kind.
func shareOf(t *testing.T, least int64, work func(), meant, holds func([]string) bool) (part, whole int64) {
	t.Helper()
	for limit := time.Now().Add(30 * time.Second); whole < least; {
		if time.Now().After(limit) {
			t.Fatalf("%d samples of %d within 30 s", whole, least)
		}
		p := goProfile(t, work)
		some, all := share(p, meant, holds)
		part, whole = part+some, whole+all
		if some*100 < all*95 {
			t.Logf("%s", p)
		}
	}
	return part, whole
}

func hasAny(wanted string) func([]string) bool {
	return func(names []string) bool { return slices.Contains(names, wanted) }
}

func TestGoProfileNamesNativeFrames(t *testing.T) {
	spin := func() { testnative.Spin(time.Second) }
	part, whole := shareOf(t, 20, spin, hasAny("testnative_spin"), func(names []string) bool {
		above, ok := follows(names, chain("testnative_spin"))
		return ok && slices.ContainsFunc(above, func(name string) bool { return strings.HasSuffix(name, "testnative.Spin") }) &&
			names[len(names)-1] == "testing.tRunner"
	})
	t.Logf("%d of %d samples in testnative_spin have the C chain and the Go frames above", part, whole)
	if part*100 < whole*95 {
		t.Errorf("%d of %d", part, whole)
	}
}

func TestGoProfileNamesForeignThreads(t *testing.T) {
	work := func() {
		// The runtime gives out the samples of such threads when a Go thread ticks.
		var spin sync.WaitGroup
		spin.Go(func() {
			for end := time.Now().Add(time.Second); time.Now().Before(end); {
			}
		})
		if err := testnative.Thread(time.Second); err != nil {
			t.Error(err)
		}
		spin.Wait()
	}
	// How many there are is the runtime's affair: it gives such samples out at the next tick of a Go thread.
	part, whole := shareOf(t, 5, work, hasAny("testnative_spin"), func(names []string) bool {
		_, ok := follows(names, chain("testnative_spin"))
		return ok
	})
	t.Logf("%d of %d samples", part, whole)
	if part*100 < whole*95 {
		t.Errorf("%d of %d", part, whole)
	}
}

// callers is runtime.Callers by names, innermost first, from its caller on.
func callers() []string {
	pcs := make([]uintptr, 256)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs)])
	var names []string
	for {
		frame, more := frames.Next()
		names = append(names, frame.Function)
		if !more {
			return names
		}
	}
}

func TestCallersInCallback(t *testing.T) {
	var one, two []string
	testnative.Callback(func() {
		one = callers()
		testnative.Callback(func() { two = callers() })
	})
	// The C side of the exported function comes first: a frame below it would be one that has ended.
	above, ok := follows(one, append([]string{"runtime.cgocallback", "testnativeCallback"}, chain("testnative_call")...))
	if !ok || !slices.ContainsFunc(above, func(name string) bool { return strings.HasSuffix(name, "testnative.Callback") }) {
		t.Errorf("one callback: %q", one)
	}
	if above, ok = follows(two, chain("testnative_call")); ok {
		_, ok = follows(above, chain("testnative_call"))
	}
	if !ok {
		t.Errorf("two callbacks: %q", two)
	}
}

// A callback that grows the goroutine's stack, and stacks that were taken while others come and go.
func TestCallersWhileStacksMove(t *testing.T) {
	var deep func(n int) []string
	deep = func(n int) []string {
		var room [512]byte
		room[n%len(room)] = 1
		if n == 0 {
			return callers()
		}
		return deep(n - int(room[n%len(room)]))
	}
	var work sync.WaitGroup
	for range 8 {
		work.Go(func() {
			for range 50 {
				testnative.Callback(func() {
					names := deep(100)
					if _, ok := follows(names, chain("testnative_call")); !ok && !t.Failed() {
						t.Errorf("%q", names[100:])
					}
				})
			}
		})
	}
	work.Wait()
}

// More callbacks at once than there are places for their contexts: frames are missing then, never wrong.
func TestMoreCallbacksThanContexts(t *testing.T) {
	const goroutines, depth = 150, 60
	var arrived, done sync.WaitGroup
	arrived.Add(goroutines)
	release := make(chan struct{})
	var nest func(n int)
	nest = func(n int) {
		if n > 0 {
			testnative.Callback(func() { nest(n - 1) })
			return
		}
		arrived.Done()
		<-release
		for _, name := range callers() {
			if strings.HasPrefix(name, "testnative_") && name != "testnative_call" && !slices.Contains(testnative.Chain, name) &&
				name != "testnative_run_callback" && !t.Failed() {
				t.Errorf("a frame of something else: %s", name)
			}
		}
	}
	for range goroutines {
		done.Go(func() { nest(depth) })
	}
	arrived.Wait()
	close(release)
	done.Wait()
	TestCallersInCallback(t) // the places are free again
}

func die(t *testing.T, how string, env ...string) string {
	t.Helper()
	child := exec.CommandContext(t.Context(), os.Args[0])
	child.Env = append(append(os.Environ(), dieEnv+"="+how, "GOTRACEBACK=system"), env...)
	out, err := child.CombinedOutput()
	if err == nil {
		t.Fatalf("%s: the child lives", how)
	}
	return string(out)
}

// inOrder says whether the texts follow each other.
func inOrder(text string, wanted ...string) bool {
	for _, want := range wanted {
		_, rest, ok := strings.Cut(text, want)
		if !ok {
			return false
		}
		text = rest
	}
	return true
}

func TestCrashesShowNativeFrames(t *testing.T) {
	for how, wanted := range map[string][]string{
		"crash": append([]string{"SIGSEGV", "testnative_crash\n"}, "testnative_inner\n", "testnative_middle\n", "testnative_outer\n",
			"testnative.Crash"),
		"throw": append([]string{"unlock of unlocked mutex", "testnativeCallback"}, "testnative_call\n", "testnative_inner\n",
			"testnative_middle\n", "testnative_outer\n", "testnative.Callback"),
	} {
		if out := die(t, how); !inOrder(out, wanted...) {
			t.Errorf("%s: no %q in\n%.6000s", how, wanted, out)
		}
	}
}

func TestCrashOfManyFrames(t *testing.T) {
	for name, env := range map[string][]string{"plain": nil, "sampled from the start": {testnative.SampledFromTheStart + "=1"}} {
		t.Run(name, func(t *testing.T) {
			out := die(t, "deep", env...)
			found := elided.FindStringSubmatch(out)
			if found == nil {
				t.Fatalf("no elided frames in\n%.6000s", out)
			}
			if n, err := strconv.Atoi(found[1]); err != nil || n > 300 {
				t.Error(found[0])
			}
		})
	}
}

func TestStackTextShowsNativeFrames(t *testing.T) {
	var text string
	testnative.Callback(func() { text = string(debug.Stack()) })
	if !inOrder(text, "testnativeCallback", "testnative_call\n", "testnative_inner\n", "testnative_outer\n", "testnative.Callback") {
		t.Error(text)
	}
}

//go:noinline
func below(n int, f func()) {
	if n == 0 {
		f()
		return
	}
	below(n-1, f)
}

var elided = regexp.MustCompile(`\.\.\.(\d+) frames elided`)

// The runtime prints fifty frames of either end. For native ones between them Go 1.26 goes around two thousand million times
// in a loop, and counts that as frames.
func TestStackTextOfManyFrames(t *testing.T) {
	for _, frames := range [][2]int{{60, 3}, {60, 60}, {200, 5}, {5, 200}, {200, 200}} {
		text := make([]byte, 1<<20)
		below(frames[0], func() {
			testnative.Callback(func() {
				below(frames[1], func() { text = text[:runtime.Stack(text, false)] })
			})
		})
		if !inOrder(string(text), "cgotraceback_test.below", "testing.tRunner") {
			t.Errorf("%v: an end is missing in\n%s", frames, text)
		}
		for _, found := range elided.FindAllStringSubmatch(string(text), -1) {
			if n, err := strconv.Atoi(found[1]); err != nil || n > frames[0]+frames[1] {
				t.Errorf("%v: %s", frames, found[0])
			}
		}
		if frames[1] < 20 && !inOrder(string(text), "testnative_call\n", "testnative_outer\n") {
			t.Errorf("%v: no native frames among the first fifty in\n%s", frames, text)
		}
	}
}

// Ticks inside malloc, callbacks, threads that come and go, stacks asked for all the while: it must go on.
func TestStorm(t *testing.T) {
	const length = 2 * time.Second
	var out bytes.Buffer
	runtime.SetCPUProfileRate(2000) // the runtime grumbles about the second call, in StartCPUProfile, and keeps this rate
	if err := pprof.StartCPUProfile(&out); err != nil {
		t.Fatal(err)
	}
	var work sync.WaitGroup
	end := time.Now().Add(length)
	for range 3 {
		work.Go(func() { testnative.Malloc(length) })
		work.Go(func() {
			for time.Now().Before(end) {
				testnative.Callback(func() { callers() })
			}
		})
	}
	work.Go(func() {
		for time.Now().Before(end) {
			if err := testnative.Thread(time.Millisecond); err != nil {
				t.Error(err)
			}
			runtime.GC()
		}
	})
	work.Wait()
	pprof.StopCPUProfile()
	p, err := profile.Parse(&out)
	if err != nil {
		t.Fatal(err)
	}
	part, whole := share(p, hasAny("testnative_churn"), func(names []string) bool {
		_, ok := follows(names, chain("testnative_churn"))
		return ok
	})
	t.Logf("%d of %d samples under testnative_churn", part, whole)
	if whole < 50 || part*100 < whole*90 {
		t.Errorf("%d of %d", part, whole)
	}
}
