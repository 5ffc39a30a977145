// SPDX-License-Identifier: MIT OR Apache-2.0

package main

import (
	"io"
	"runtime"
	"sync"
	"time"
)

func microseconds(since time.Time) float64 { return float64(time.Since(since).Nanoseconds()) / 1000 }

// measureStartStop times the calls, in a process with some sleeping threads besides Go's own. Both profilers' stops write the
// profile.
func measureStartStop(p profiler, asked *options) error {
	end := make(chan struct{})
	defer close(end)
	var here sync.WaitGroup
	for range asked.threads - 1 {
		here.Add(1)
		go func() {
			runtime.LockOSThread()
			here.Done()
			<-end
		}()
	}
	here.Wait()

	var starts, stops []float64
	for range max(asked.repeats, 2) {
		begin := time.Now()
		if err := p.start(asked.hz, io.Discard); err != nil {
			return err
		}
		starts = append(starts, microseconds(begin))
		time.Sleep(2 * time.Millisecond)
		begin = time.Now()
		if err := p.stop(); err != nil {
			return err
		}
		stops = append(stops, microseconds(begin))
		time.Sleep(time.Millisecond)
	}
	if err := emit("first-start", "us", starts[0]); err != nil {
		return err
	}
	if err := emit("start", "us", median(starts[1:])); err != nil {
		return err
	}
	return emit("stop", "us", median(stops[1:]))
}
