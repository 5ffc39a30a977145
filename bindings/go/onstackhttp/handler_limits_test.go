// SPDX-License-Identifier: MIT OR Apache-2.0

//go:build cgo && linux

package onstackhttp

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	onstack "github.com/onstack-profiler/onstack/bindings/go"
	"github.com/onstack-profiler/onstack/bindings/go/internal/pprofcheck"
)

// clients ask for profiles of a minute and wait until `gone` is called.
func clients(t *testing.T, n int, url string) (gone func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	ended := make(chan error, n)
	for range n {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"?seconds=60", nil)
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			response, err := http.DefaultClient.Do(request)
			if err == nil {
				response.Body.Close()
			}
			ended <- err
		}()
	}
	return func() {
		cancel()
		for range n {
			if err := <-ended; err == nil {
				t.Error("a cancelled client got an answer")
			}
		}
		waitFor(t, "sessions of clients that went away still run", func() bool { return running() == 0 })
		waitFor(t, "clients that went away still count", func() bool { return answering.count()+heapAnswers.count() == 0 })
	}
}

func wantRefused(t *testing.T, url string, status int, text string) {
	t.Helper()
	response, body := get(t, url+"?seconds=1")
	if response.StatusCode != status || response.Header.Get("Retry-After") == "" || !strings.Contains(body, text) {
		t.Errorf("%s %.100q, want %d and %q", response.Status, body, status, text)
	}
}

// Whatever clients ask for, over however many handlers, the process can profile itself.
func TestClientsLeaveSessionsToTheProcess(t *testing.T) {
	url, other := serveOn(t, 0), serveOn(t, 0)
	dumps := serveBy(t, 0, OverPprof(http.NotFoundHandler())) + "/debug/pprof/threads"
	gone := clients(t, defaultMaxConcurrent, url)
	waitFor(t, "not all clients have a session", func() bool { return running() == defaultMaxConcurrent })
	wantRefused(t, url, http.StatusTooManyRequests, "4 profiles are being taken over HTTP already")
	wantRefused(t, other, http.StatusTooManyRequests, "HandlerOptions.MaxConcurrent")
	if response, body := get(t, dumps); response.StatusCode != http.StatusOK {
		t.Errorf("a dump beside them: %s %s", response.Status, body)
	}
	later := time.Now().Add(time.Hour)
	for range mostAnswers - defaultMaxConcurrent {
		answering.enter(later, mostAnswers)
	}
	wantRefused(t, dumps, http.StatusTooManyRequests, "6 profiles and dumps are being made over HTTP already")
	for range mostAnswers - defaultMaxConcurrent {
		answering.leave(later)
	}
	var own []*onstack.Profile
	for range maxSessions - defaultMaxConcurrent {
		p, err := onstack.Start()
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		own = append(own, p)
	}
	for _, p := range own {
		if err := p.Stop(); err != nil {
			t.Error(err)
		}
	}
	gone()
	if response, body := get(t, other+"?seconds=0.1"); response.StatusCode != http.StatusOK {
		t.Errorf("after the others have gone: %s %s", response.Status, body)
	}
}

// A client is told to come back when the first of the profiles that run now is over.
func TestRetryAfterTheNextEnd(t *testing.T) {
	var all answers
	if next := all.next(); next != defaultDuration {
		t.Errorf("nothing runs: %v", next)
	}
	begun := time.Now()
	for _, seconds := range []time.Duration{60, 2, 40} {
		all.enter(begun.Add(seconds*time.Second), 3)
	}
	if next := all.next(); next > 2*time.Second || next < 2*time.Second-time.Since(begun) {
		t.Errorf("after %v of 2 s: %v", time.Since(begun), next)
	}
	all.leave(begun.Add(2 * time.Second))
	if next := all.next(); next > 40*time.Second || next < 40*time.Second-time.Since(begun) {
		t.Errorf("after %v of 40 s: %v", time.Since(begun), next)
	}
	url := serveOn(t, 0)
	gone := clients(t, defaultMaxConcurrent, url) // of a minute
	waitFor(t, "not all clients have a session", func() bool { return running() == defaultMaxConcurrent })
	response, _ := get(t, url+"?seconds=1")
	if after, err := strconv.Atoi(response.Header.Get("Retry-After")); err != nil || after < 31 || after > 60 {
		t.Errorf("Retry-After: %q for profiles of 60 s", response.Header.Get("Retry-After"))
	}
	gone()
}

func TestProcessHasAllSessions(t *testing.T) {
	for range maxSessions {
		p, err := onstack.Start()
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
	}
	wantRefused(t, serveOn(t, 0), http.StatusServiceUnavailable, "onstack: ")
	if n := answering.count(); n != 0 {
		t.Errorf("%d requests count when they have been refused", n)
	}
}

func TestHandlerLimits(t *testing.T) {
	h, err := NewHandler(HandlerOptions{MaxDuration: 500 * time.Millisecond, MaxRate: 50, MaxConcurrent: 1})
	if err != nil {
		t.Fatal(err)
	}
	url := serveBy(t, 0, OverPprofBy(http.NotFoundHandler(), h)) + "/debug/pprof/profile"
	for query, text := range map[string]string{"?seconds=0.6": "up to 0.5, HandlerOptions", "?hz=51": "to 50, HandlerOptions"} {
		if response, body := get(t, url+query); response.StatusCode != http.StatusBadRequest || !strings.Contains(body, text) {
			t.Errorf("%s: %s %q", query, response.Status, body)
		}
	}
	// What a request leaves out is within the limits too.
	_, body := get(t, url)
	p, err := pprofcheck.Parse([]byte(body))
	if err != nil {
		t.Fatal(err)
	}
	if p.Period != (20*time.Millisecond).Nanoseconds() || p.DurationNanos > (10*time.Second).Nanoseconds() {
		t.Errorf("%d ns period, %d ns long", p.Period, p.DurationNanos)
	}
	if wide, err := NewHandler(HandlerOptions{MaxDuration: time.Hour, MaxRate: 10000, MaxConcurrent: 8}); err != nil {
		t.Error(err)
	} else if asked, err := wide.(*handler).parse(httptest.NewRequest(http.MethodGet, "/?seconds=3600&hz=10000", nil)); err != nil ||
		asked.duration != time.Hour {
		t.Errorf("%+v %v", asked, err)
	}
}

func TestHandlerOptionsThatAreWrong(t *testing.T) {
	for text, options := range map[string]HandlerOptions{
		"HandlerOptions.MaxDuration: -1s: give up to 1h0m0s, or 0 for 5m0s":     {MaxDuration: -time.Second},
		"HandlerOptions.MaxDuration: 1h0m1s":                                    {MaxDuration: time.Hour + time.Second},
		"HandlerOptions.MaxRate: -1: give a number from 1 to 10000, or 0 for 1": {MaxRate: -1},
		"HandlerOptions.MaxRate: 10001":                                         {MaxRate: 10001},
		"HandlerOptions.MaxConcurrent: -1":                                      {MaxConcurrent: -1},
		"HandlerOptions.MaxConcurrent: 9: give a number from 1 to 8":            {MaxConcurrent: 9},
	} {
		if h, err := NewHandler(options); h != nil || !errors.Is(err, onstack.ErrOptions) || !strings.Contains(err.Error(), text) {
			t.Errorf("%v %v, want %q", h, err, text)
		}
	}
}
