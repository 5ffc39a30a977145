// SPDX-License-Identifier: MIT OR Apache-2.0

// hosts runs a library of another language, or generated code, under Go, with both profilers on at the same time: Go's and
// ours, or with ours alone. It fails where the library breaks, or a profile misses it, is cut or is none for servers.
//
//	hosts kafka    librdkafka's mock cluster: C threads in poll, a producer and a consumer
//	hosts wazero   WebAssembly that wazero compiles, without cgo
//	hosts duckdb   a large C++ library; ours alone, for its first second
//
// With a second word the profilers are others, and nothing is said of profiles: "go" alone, "onstack" alone, or "none"; with
// "heap" (built with -tags nativeheap) it says what the memory consists of.
//
// ONSTACK_JUDGE is the program of bindings/go/internal/checker.
package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime/pprof"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/pprof/profile"
	onstack "github.com/onstack-profiler/onstack/bindings/go"
)

const seconds = 6

// A host works until the time is over, and tells what it has done.
type host struct {
	run   func(until time.Time) (string, error)
	frame string  // part of a name, or of a file's, that its samples must have
	idle  bool    // it uses so little of the processor that there may be none
	floor float64 // percent of all samples that must reach a root
	first bool    // ours alone, for one second of work that is under way, with tables still to be made
}

var hosts = map[string]host{
	"kafka":  {run: runKafka, frame: "rd_kafka", idle: true, floor: 99},
	"wazero": {run: runWazero, frame: "wazero", floor: 99},
	"duckdb": {run: runDuckDB, frame: "duckdb", floor: 99.9, first: true},
}

// heap is set where malloc reports.
var heap func(host) (string, error)

var sink atomic.Uint64

func burn(until time.Time) {
	for time.Now().Before(until) {
		x := sink.Load()
		for range 100000 {
			x = x*6364136223846793005 + 1442695040888963407
		}
		sink.Store(x)
	}
}

func both(one host) (string, error) {
	var ours, gos bytes.Buffer
	if err := pprof.StartCPUProfile(&gos); err != nil {
		return "", err
	}
	if err := onstack.StartCPUProfile(&ours, onstack.WithRate(100)); err != nil {
		return "", err
	}
	until := time.Now().Add(seconds * time.Second)
	var busy sync.WaitGroup
	busy.Go(func() { burn(until) })
	did, err := one.run(until)
	busy.Wait()
	err = errors.Join(err, onstack.StopCPUProfile())
	pprof.StopCPUProfile()
	if err != nil {
		return "", err
	}
	mine, err := one.inspect(ours.Bytes())
	if err != nil {
		return "", err
	}
	theirs, err := read(gos.Bytes(), "")
	if err != nil {
		return "", err
	}
	if theirs.all == 0 {
		return "", errors.New("Go's profiler has no sample")
	}
	return fmt.Sprintf("%s; %s; of Go's profiler %d", did, mine, theirs.all), nil
}

// with has the named profilers on, for what the host itself makes of them.
func with(one host, profilers string) (string, error) {
	if profilers == "go" {
		if err := pprof.StartCPUProfile(io.Discard); err != nil {
			return "", err
		}
		defer pprof.StopCPUProfile()
	}
	if profilers == "onstack" {
		if err := onstack.StartCPUProfile(io.Discard, onstack.WithRate(100)); err != nil {
			return "", err
		}
		defer func() { _ = onstack.StopCPUProfile() }()
	}
	until := time.Now().Add(seconds * time.Second)
	var busy sync.WaitGroup
	busy.Go(func() { burn(until) })
	defer busy.Wait()
	return one.run(until)
}

// What a host's work has come to.
type result struct {
	did string
	err error
}

func begin(one host, until time.Time) <-chan result {
	done := make(chan result, 1)
	go func() {
		did, err := one.run(until)
		done <- result{did, err}
	}()
	return done
}

// The work is under way before the profile: its first samples meet everything that is sampled for the first time.
func first(one host) (string, error) {
	var ours bytes.Buffer
	until := time.Now().Add(seconds * time.Second)
	done := begin(one, until)
	time.Sleep(2 * time.Second)
	err := onstack.StartCPUProfile(&ours, onstack.WithRate(1000))
	if err == nil {
		time.Sleep(time.Second)
		err = onstack.StopCPUProfile()
	}
	worked := <-done
	if err := errors.Join(err, worked.err); err != nil {
		return "", err
	}
	mine, err := one.inspect(ours.Bytes())
	return fmt.Sprintf("%s; %s", worked.did, mine), err
}

// counts of samples: all, those with the host's frame, and those that are not cut.
type counts struct {
	all, with, rooted int64
}

func (c counts) share() float64 { return 100 * float64(c.rooted) / float64(max(c.all, 1)) }

func (c counts) String() string {
	return fmt.Sprintf("%d of %d samples are the host's, %.2f %% of all at a root", c.with, c.all, c.share())
}

func (one host) inspect(written []byte) (counts, error) {
	have, err := read(written, one.frame)
	switch {
	case err != nil:
	case have.all == 0 || have.with == 0 && !one.idle:
		err = fmt.Errorf("none of %d samples has %q", have.all, one.frame)
	case have.share() < one.floor:
		err = fmt.Errorf("%v; less than %v %%", have, one.floor)
	}
	return have, err
}

// Where the stacks of goroutines and of threads begin: a stack that ends elsewhere lacks callers, whatever it says of itself.
var roots = map[string]bool{
	"runtime.goexit": true, "runtime.mstart": true, "runtime.rt0_go": true, "_rt0_amd64": true,
	"clone": true, "clone3": true, "__clone": true, "__clone3": true, "start_thread": true, "_start": true,
}

// read takes a profile that servers take, too.
func read(written []byte, frame string) (counts, error) {
	inspect := exec.Command(os.Getenv("ONSTACK_JUDGE"), "-")
	inspect.Stdin = bytes.NewReader(written)
	if said, err := inspect.CombinedOutput(); err != nil {
		return counts{}, fmt.Errorf("ONSTACK_JUDGE: %w: %s", err, said)
	}
	parsed, err := profile.ParseData(written)
	if err != nil {
		return counts{}, err
	}
	have, stray := counts{}, map[string]int{}
	for _, sample := range parsed.Sample {
		found, cut, root := false, false, ""
		for _, location := range sample.Location {
			found = found || location.Mapping != nil && strings.Contains(location.Mapping.File, frame)
			for _, line := range location.Line {
				found = found || strings.Contains(line.Function.Name, frame)
				cut = cut || strings.Contains(line.Function.Name, "[truncated")
				root = line.Function.Name
			}
		}
		if found && frame != "" && !cut && !roots[root] {
			stray[root]++
			cut = true
		}
		have.all += sample.Value[0]
		if found {
			have.with += sample.Value[0]
		}
		if !cut {
			have.rooted += sample.Value[0]
		}
	}
	if len(stray) > 0 {
		fmt.Fprintln(os.Stderr, "hosts: stacks that are called whole end at:", stray)
	}
	return have, nil
}

func main() {
	one, known := host{}, false
	if len(os.Args) == 2 || len(os.Args) == 3 {
		one, known = hosts[os.Args[1]]
	}
	if !known {
		fmt.Fprintln(os.Stderr, "usage: hosts kafka | wazero | duckdb [go | onstack | none | heap]")
		os.Exit(2)
	}
	run := both
	if one.first {
		run = first
	}
	if len(os.Args) == 3 {
		run = func(one host) (string, error) { return with(one, os.Args[2]) }
		if os.Args[2] == "heap" {
			if run = heap; run == nil {
				fmt.Fprintln(os.Stderr, "hosts: build it with -tags nativeheap")
				os.Exit(2)
			}
		}
	}
	did, err := run(one)
	if err != nil {
		fmt.Fprintln(os.Stderr, "hosts:", err)
		os.Exit(1)
	}
	fmt.Println(did)
}
