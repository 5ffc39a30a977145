// SPDX-License-Identifier: MIT OR Apache-2.0

// hosts runs a library of another language, or generated code, under Go, with both profilers on at the same time: Go's and
// ours. It fails where the library breaks, or a profile misses it.
//
//	hosts kafka    librdkafka's mock cluster: C threads in poll, a producer and a consumer
//	hosts wazero   WebAssembly that wazero compiles, without cgo
package main

import (
	"bytes"
	"fmt"
	"os"
	"runtime/pprof"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/pprof/profile"
	onstack "github.com/onstack-profiler/onstack/bindings/go"
)

const seconds = 6

// A host works until the time is over, and tells what it has done. `frame` is part of a name, or of a file's, that its
// samples must have.
type host struct {
	run   func(until time.Time) (string, error)
	frame string
	idle  bool // it uses so little of the processor that there may be none
}

var hosts = map[string]host{
	"kafka":  {runKafka, "rd_kafka", true},
	"wazero": {runWazero, "wazero", false},
}

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
	if stopped := onstack.StopCPUProfile(); err == nil {
		err = stopped
	}
	pprof.StopCPUProfile()
	if err != nil {
		return "", err
	}
	mine, rooted, err := judge(ours.Bytes(), one.frame)
	if err != nil {
		return "", err
	}
	theirs, _, err := judge(gos.Bytes(), "")
	if err != nil {
		return "", err
	}
	if mine == 0 && !one.idle || theirs == 0 {
		return "", fmt.Errorf("samples with %q: %d; of Go's profiler: %d", one.frame, mine, theirs)
	}
	return fmt.Sprintf("%s; samples with %q %d, %.1f %% of ours at a root; of Go's profiler %d", did, one.frame, mine, rooted, theirs), nil
}

// judge tells how many samples have such a frame, and how many of all are not cut.
func judge(written []byte, frame string) (with int64, rooted float64, err error) {
	parsed, err := profile.ParseData(written)
	if err != nil {
		return 0, 0, err
	}
	var all, whole int64
	for _, sample := range parsed.Sample {
		found, cut := false, false
		for _, location := range sample.Location {
			found = found || location.Mapping != nil && strings.Contains(location.Mapping.File, frame)
			for _, line := range location.Line {
				found = found || strings.Contains(line.Function.Name, frame)
				cut = cut || strings.Contains(line.Function.Name, "[truncated")
			}
		}
		all += sample.Value[0]
		if found {
			with += sample.Value[0]
		}
		if !cut {
			whole += sample.Value[0]
		}
	}
	return with, 100 * float64(whole) / float64(max(all, 1)), nil
}

func main() {
	one, known := host{}, false
	if len(os.Args) == 2 {
		one, known = hosts[os.Args[1]]
	}
	if !known {
		fmt.Fprintln(os.Stderr, "usage: hosts kafka | wazero")
		os.Exit(2)
	}
	did, err := both(one)
	if err != nil {
		fmt.Fprintln(os.Stderr, "hosts:", err)
		os.Exit(1)
	}
	fmt.Println(did)
}
