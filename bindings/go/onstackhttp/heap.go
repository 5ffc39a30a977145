// SPDX-License-Identifier: MIT OR Apache-2.0

package onstackhttp

import (
	"bytes"
	"fmt"
	"net/http"
	"runtime"
	"strconv"
	"time"

	"github.com/google/pprof/profile"

	onstack "github.com/onstack-profiler/onstack/bindings/go"
)

// heapLongest is the longest `seconds` of a heap profile.
const heapLongest = 5 * time.Minute

// heap serves onstack.WriteHeapProfile with the parameters of net/http/pprof: gc=1 runs a garbage collection before, and
// seconds=N gives what has grown and shrunk in so many seconds. It answers 400 to other values.
func heap(w http.ResponseWriter, r *http.Request) {
	collect, length, err := heapQuestion(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	var out bytes.Buffer
	if length == 0 {
		err = heapWrite(&out, collect)
	} else {
		err = heapDelta(&out, r, collect, length)
	}
	if r.Context().Err() != nil {
		return // nobody is there to be told
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("Content-Disposition", `attachment; filename="heap"`)
	_, _ = w.Write(out.Bytes()) // a peer that has gone is nobody to tell
}

func heapQuestion(r *http.Request) (collect bool, length time.Duration, err error) {
	if text := r.FormValue("gc"); text != "" {
		number, err := strconv.Atoi(text)
		if err != nil || number < 0 {
			return false, 0, fmt.Errorf("gc=%.40q: give 1 for a garbage collection before, or 0", text)
		}
		collect = number > 0
	}
	text := r.FormValue("seconds")
	if text == "" {
		return collect, 0, nil
	}
	seconds, err := strconv.Atoi(text)
	if err != nil || seconds <= 0 || seconds > int(heapLongest/time.Second) {
		return false, 0, fmt.Errorf("seconds=%.40q: give a whole number from 1 to %.0f", text, heapLongest.Seconds())
	}
	return collect, time.Duration(seconds) * time.Second, nil
}

func heapWrite(out *bytes.Buffer, collect bool) error {
	if collect {
		runtime.GC()
	}
	return onstack.WriteHeapProfile(out)
}

func heapTake(collect bool) (*profile.Profile, error) {
	var out bytes.Buffer
	if err := heapWrite(&out, collect); err != nil {
		return nil, err
	}
	return profile.Parse(&out)
}

// heapDelta is a second profile less the first, as net/http/pprof makes it.
func heapDelta(out *bytes.Buffer, r *http.Request, collect bool, length time.Duration) error {
	before, err := heapTake(collect)
	if err != nil {
		return err
	}
	select {
	case <-r.Context().Done():
		return r.Context().Err()
	case <-time.After(length):
	}
	after, err := heapTake(collect)
	if err != nil {
		return err
	}
	now := after.TimeNanos
	before.Scale(-1)
	delta, err := profile.Merge([]*profile.Profile{before, after})
	if err != nil {
		return err
	}
	delta.TimeNanos, delta.DurationNanos = now, length.Nanoseconds()
	return delta.Write(out)
}
