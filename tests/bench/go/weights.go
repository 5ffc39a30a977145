// SPDX-License-Identifier: MIT OR Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"runtime/pprof"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/google/pprof/profile"
)

// measureGoProfiler is the case "weights" for runtime/pprof (its rate, 100 Hz, is the benchmark's too).
func measureGoProfiler(arguments []string) error {
	threads, seconds := 1, 1.0
	for _, argument := range arguments[1:] {
		key, value, _ := strings.Cut(argument, "=")
		var err error
		switch key {
		case "threads":
			_, err = fmt.Sscan(value, &threads)
		case "seconds":
			_, err = fmt.Sscan(value, &seconds)
		case "hz":
			if value != "100" {
				err = fmt.Errorf("Go's profiler has 100 Hz")
			}
		}
		if err != nil {
			return fmt.Errorf("%s: %w", argument, err)
		}
	}
	if arguments[0] != "weights" {
		return fmt.Errorf("no case %q for Go's profiler", arguments[0])
	}
	runtime.GOMAXPROCS(threads + 1) // a thread for each, and main's own

	var finished atomic.Bool
	var running sync.WaitGroup
	for range threads {
		running.Add(1)
		go func() {
			defer running.Done()
			runtime.LockOSThread()
			burn(&finished)
		}()
	}
	var written bytes.Buffer
	before := cpuTime()
	if err := pprof.StartCPUProfile(&written); err != nil {
		return err
	}
	time.Sleep(time.Duration(seconds * float64(time.Second)))
	pprof.StopCPUProfile()
	used := cpuTime() - before
	finished.Store(true)
	running.Wait()
	return emitWeights(written.Bytes(), used)
}

func burn(finished *atomic.Bool) (x uint64) {
	for !finished.Load() {
		for range 10000 {
			x = x*6364136223846793005 + 1442695040888963407
			x ^= x >> 29
		}
	}
	return x
}

func cpuTime() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

func emitWeights(written []byte, used time.Duration) error {
	parsed, err := profile.ParseData(written)
	if err != nil {
		return err
	}
	var samples, nanoseconds int64
	for _, sample := range parsed.Sample {
		samples += sample.Value[0]
		nanoseconds += sample.Value[1]
	}
	out := json.NewEncoder(os.Stdout)
	for _, figure := range []struct {
		Metric string  `json:"metric"`
		Unit   string  `json:"unit"`
		Value  float64 `json:"value"`
	}{
		{"weight", "x CPU time", float64(nanoseconds) / float64(used)},
		{"samples", "1/CPU s", float64(samples) / used.Seconds()},
	} {
		if err := out.Encode(figure); err != nil {
			return err
		}
	}
	return nil
}
