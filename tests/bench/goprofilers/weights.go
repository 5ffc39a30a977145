// SPDX-License-Identifier: MIT OR Apache-2.0

package main

import (
	"bytes"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/pprof/profile"
)

// measureWeights is the CPU time that the profile accounts for with threads that are there all the time: they wait while it
// starts and stops, as those of the case in C.
func measureWeights(p profiler, asked *options) error {
	runtime.GOMAXPROCS(asked.threads + 1) // a thread for each, and main's own
	var finished atomic.Bool
	var ready, burning, running sync.WaitGroup
	begin, leave := make(chan struct{}), make(chan struct{})
	ready.Add(asked.threads)
	burning.Add(asked.threads)
	for range asked.threads {
		running.Go(func() {
			runtime.LockOSThread()
			ready.Done()
			<-begin
			burnUntil(&finished)
			burning.Done()
			<-leave
		})
	}
	ready.Wait()
	defer running.Wait()
	defer close(leave)
	return weigh(p, asked, func() {
		close(begin)
		time.Sleep(asked.length())
		finished.Store(true)
		burning.Wait()
	})
}

// measureShortThreads is the same with threads that come and go.
func measureShortThreads(p profiler, asked *options) error {
	return weigh(p, asked, func() {
		end := time.Now().Add(asked.length())
		var launchers sync.WaitGroup
		for range asked.threads {
			launchers.Go(func() {
				for time.Now().Before(end) {
					liveShortly(time.Duration(asked.lifeMs) * time.Millisecond)
				}
			})
		}
		launchers.Wait()
	})
}

// A goroutine that ends with its thread locked takes the thread with it.
func liveShortly(life time.Duration) {
	over := make(chan struct{})
	go func() {
		defer close(over)
		runtime.LockOSThread()
		burnCPU(life)
	}()
	<-over
}

func weigh(p profiler, asked *options, work func()) error {
	var written bytes.Buffer
	before := cpuTime(clockProcessCPU)
	if err := p.start(asked.hz, &written); err != nil {
		return err
	}
	work()
	used := cpuTime(clockProcessCPU) - before // what the profile's making takes is no work
	if err := p.stop(); err != nil {
		return err
	}
	parsed, err := profile.ParseData(written.Bytes())
	if err != nil {
		return err
	}
	var samples, nanoseconds int64
	for _, sample := range parsed.Sample {
		samples += sample.Value[0]
		nanoseconds += sample.Value[1]
	}
	if err := emit("weight", "x CPU time", float64(nanoseconds)/float64(used)); err != nil {
		return err
	}
	return emit("samples", "1/CPU s", float64(samples)/used.Seconds())
}
