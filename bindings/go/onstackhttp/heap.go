// SPDX-License-Identifier: MIT OR Apache-2.0

package onstackhttp

import (
	"bytes"
	"fmt"
	"math"
	"net/http"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/google/pprof/profile"

	onstack "github.com/onstack-profiler/onstack/bindings/go"
)

// heapLongest is the longest `seconds` of a heap profile.
const heapLongest = 5 * time.Minute

// mostHeaps are made at once, by all handlers of the process together: each may hold a profile for minutes, and ask for garbage
// collections.
const mostHeaps = 4

// heapAnswers is the requests that have a heap profile. They take no sessions, and so none from Handler's requests.
var heapAnswers answers

// heapQuestion is what a request asks for.
type heapQuestion struct {
	allocs  bool          // alloc_space is shown first
	collect bool          // a garbage collection before
	length  time.Duration // what has grown and shrunk meanwhile; 0: what there is
	older   time.Duration // of native blocks in use, those that have been so for that long
}

// heap serves onstack.WriteHeapProfile with the parameters of net/http/pprof: gc=1 runs a garbage collection before, and
// seconds=N gives what has grown and shrunk in so many seconds; and with older=N, for onstack.WithHeapAge. It answers 400 to
// other values, and 429 with Retry-After to requests beyond mostHeaps.
func heap(w http.ResponseWriter, r *http.Request) {
	question, err := parseHeap(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	question.allocs = strings.HasSuffix(r.URL.Path, "/allocs")
	over := time.Now().Add(question.length)
	if !heapAnswers.admit(w, over, mostHeaps, "heap profiles") {
		return
	}
	defer heapAnswers.leave(over)
	var out bytes.Buffer
	if question.length == 0 && !question.allocs {
		err = question.write(&out)
	} else {
		err = question.change(&out, r)
	}
	if r.Context().Err() != nil {
		return // nobody is there to be told
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	sendFile(w, "heap", out.Bytes())
}

func parseHeap(r *http.Request) (question heapQuestion, err error) {
	text := r.FormValue("gc")
	if r.Form.Has("gc") {
		number, err := strconv.Atoi(text)
		if err != nil || number < 0 {
			return question, fmt.Errorf("gc=%.40q: give 1 for a garbage collection before, or 0", text)
		}
		question.collect = number > 0
	}
	if question.length, err = wholeSeconds(r, "seconds", heapLongest); err != nil {
		return question, err
	}
	if question.older, err = wholeSeconds(r, "older", math.MaxInt64); err != nil {
		return question, err
	}
	return question, withinWriteTimeout(r, question.length)
}

// wholeSeconds are 0 where the request has no such parameter.
func wholeSeconds(r *http.Request, name string, most time.Duration) (time.Duration, error) {
	text := r.FormValue(name)
	if !r.Form.Has(name) {
		return 0, nil
	}
	seconds, err := strconv.Atoi(text)
	if err != nil || seconds <= 0 || seconds > int(most/time.Second) {
		return 0, fmt.Errorf("%s=%.40q: give a whole number from 1 to %d", name, text, most/time.Second)
	}
	return time.Duration(seconds) * time.Second, nil
}

func (q heapQuestion) write(out *bytes.Buffer) error {
	if q.collect {
		runtime.GC()
	}
	return onstack.WriteHeapProfile(out, onstack.WithHeapAge(q.older))
}

func (q heapQuestion) take() (*profile.Profile, error) {
	var out bytes.Buffer
	if err := q.write(&out); err != nil {
		return nil, err
	}
	return profile.Parse(&out)
}

// change writes the profile, or what has changed in a while, with what is shown first.
func (q heapQuestion) change(out *bytes.Buffer, r *http.Request) error {
	take := q.take
	if q.length > 0 {
		take = func() (*profile.Profile, error) { return q.delta(r) }
	}
	p, err := take()
	if err != nil {
		return err
	}
	if q.allocs {
		p.DefaultSampleType = "alloc_space"
	}
	return p.Write(out)
}

// delta is a second profile less the first, as net/http/pprof makes it.
func (q heapQuestion) delta(r *http.Request) (*profile.Profile, error) {
	before, err := q.take()
	if err != nil {
		return nil, err
	}
	select {
	case <-r.Context().Done():
		return nil, r.Context().Err()
	case <-time.After(q.length):
	}
	after, err := q.take()
	if err != nil {
		return nil, err
	}
	now, dropped := after.TimeNanos, after.DropFrames
	before.Scale(-1)
	delta, err := profile.Merge([]*profile.Profile{before, after})
	if err != nil {
		return nil, err
	}
	// The comments of both profiles count what there is or was in all, not what changed.
	delta.Comments = []string{fmt.Sprintf("onstack.delta seconds=%g", q.length.Seconds())}
	delta.TimeNanos, delta.DurationNanos, delta.DropFrames = now, q.length.Nanoseconds(), dropped
	return delta, nil
}
