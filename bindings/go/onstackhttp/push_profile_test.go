// SPDX-License-Identifier: MIT OR Apache-2.0

//go:build cgo && linux

package onstackhttp

import (
	"context"
	"errors"
	"net/http"
	"runtime/pprof"
	"strings"
	"testing"
	"time"

	"github.com/google/pprof/profile"
	onstack "github.com/onstack-profiler/onstack/bindings/go"
	"github.com/onstack-profiler/onstack/bindings/go/internal/pprofcheck"
	"github.com/onstack-profiler/onstack/bindings/go/internal/testburn"
)

// burn keeps native code busy until the test ends.
func burn(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		pprof.Do(ctx, pprof.Labels("local root span", "17", "9lives", "9", "ok", "yes"), func(context.Context) {
			for ctx.Err() == nil {
				testburn.Native(20 * time.Millisecond)
			}
		})
	}()
	t.Cleanup(func() { cancel(); <-done })
}

// pushReal starts a push of the real profile.
func pushReal(t *testing.T, options PushOptions, interval time.Duration) (*Pusher, func() PushStats) {
	t.Helper()
	options.Report = func(e PushEvent) { t.Errorf("%v %v", e.Outcome, e.Err) }
	options.FlushTimeout = pushPatience
	p, err := NewPusher(options)
	if err != nil {
		t.Fatal(err)
	}
	p.interval = interval
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- p.Run(ctx) }()
	return p, func() PushStats {
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		return p.Stats()
	}
}

func TestPushRealProfiles(t *testing.T) {
	burn(t)
	secret := make(chan string, 1)
	server := newIngest(t, func(_ http.ResponseWriter, r *http.Request) bool {
		select {
		case secret <- r.Header.Get("Authorization") + " " + r.Header.Get("X-Scope-OrgID"):
		default:
		}
		return false
	})
	options := PushOptions{
		URL:     server.URL,
		Service: "shop/cart-2",
		Labels:  map[string]string{"env": "test", "version": "1.2"},
		Header:  http.Header{"Authorization": {"Bearer hunter2"}, "X-Scope-OrgID": {"me"}},
		Profile: []onstack.Option{onstack.WithRate(200)},
	}
	p, end := pushReal(t, options, 200*time.Millisecond)
	eventually(t, "no three profiles", func() bool { return p.Stats().Sent >= 3 })
	s := end()
	got := server.profiles()
	if s.Sent != uint64(len(got)) || s.Failed+s.Dropped+s.Waiting+s.Retries != 0 {
		t.Errorf("%d came of %+v", len(got), s)
	}
	if sent := <-secret; sent != "Bearer hunter2 me" {
		t.Errorf("headers: %q", sent)
	}
	for _, name := range server.names {
		if name != "shop/cart-2{env=test,version=1.2}" {
			t.Errorf("name %q", name)
		}
	}
	named, labelled := false, false
	for i, one := range got {
		if one.Period != (5 * time.Millisecond).Nanoseconds() {
			t.Errorf("period %d ns at 200 Hz", one.Period)
		}
		if i > 0 && one.TimeNanos < got[i-1].TimeNanos+got[i-1].DurationNanos {
			t.Error("a profile begins before the one before it ends")
		}
		named = named || strings.Contains(one.String(), "testburn_leaf")
		for _, sample := range one.Sample {
			if len(sample.NumLabel) != 0 {
				t.Fatalf("numeric labels: %v", sample.NumLabel)
			}
			labelled = labelled || sample.HasLabel("local_root_span", "17") && sample.HasLabel("_9lives", "9") &&
				sample.HasLabel("ok", "yes")
		}
	}
	if !named || !labelled {
		t.Errorf("testburn_leaf: %v; its labels: %v", named, labelled)
	}
	waitFor(t, "the session still runs", func() bool { return running() == 0 })
}

// The profile so far goes out when ctx ends, long before its interval is over.
func TestPushLastProfile(t *testing.T) {
	burn(t)
	server := newIngest(t, nil)
	p, end := pushReal(t, PushOptions{URL: server.URL, Service: "test"}, time.Hour)
	eventually(t, "no session", func() bool { return running() == 1 })
	before := testburn.CPUTime()
	eventually(t, "no CPU time", func() bool { return testburn.CPUTime() > before+500*time.Millisecond })
	if s := p.Stats(); s != (PushStats{}) {
		t.Errorf("%+v before the end", s)
	}
	if s := end(); s.Sent != 1 || s.Taken != 1 {
		t.Errorf("%+v", s)
	}
	if got := server.profiles(); len(got) != 1 || !strings.Contains(got[0].String(), "testburn_leaf") {
		t.Errorf("%d profiles", len(got))
	}
}

func TestPushNothingHappened(t *testing.T) {
	item, err := newPushProfile(emptyProfile(t))
	if item != nil || err != nil {
		t.Errorf("%v %v", item, err)
	}
	if _, err := newPushProfile([]byte("nonsense")); err == nil {
		t.Error("nonsense is a profile")
	}
}

func emptyProfile(t *testing.T) []byte {
	var out strings.Builder
	if err := (&profile.Profile{SampleType: []*profile.ValueType{{Type: "cpu", Unit: "nanoseconds"}}}).Write(&out); err != nil {
		t.Fatal(err)
	}
	return []byte(out.String())
}

func TestPushLabelsThatBecomeTheSame(t *testing.T) {
	p := &profile.Profile{Sample: []*profile.Sample{
		{Label: map[string][]string{"a-b": {"1"}, "a.b": {"2"}, "a_b": {"3"}, "": {"4"}, "ü": {"5"}}},
		{Label: map[string][]string{"a_b": {"3"}}},
	}}
	if !cleanLabels(p) {
		t.Error("nothing changed")
	}
	want := map[string]string{"a_b": "3", "a_b_": "1", "a_b__": "2", "_": "4", "__": "5"}
	if got := p.Sample[0].Label; len(got) != len(want) {
		t.Errorf("%v", got)
	}
	for key, value := range want {
		if !p.Sample[0].HasLabel(key, value) {
			t.Errorf("%s: %v", key, p.Sample[0].Label)
		}
	}
	if cleanLabels(p) {
		t.Error("changed again")
	}
}

// Two pushers, a person's profile and the handler are sessions like others.
func TestPushBesideOthers(t *testing.T) {
	burn(t)
	server := newIngest(t, nil)
	start := func(service string, hz int) func() PushStats {
		options := PushOptions{URL: server.URL, Service: service, Profile: []onstack.Option{onstack.WithRate(hz)}}
		_, end := pushReal(t, options, 300*time.Millisecond)
		return end
	}
	endOne, endTwo := start("one", 19), start("two", 200)
	_, body := get(t, serveOn(t, 0)+"?seconds=1")
	if p, err := pprofcheck.Parse([]byte(body)); err != nil || !strings.Contains(p.String(), "testburn_leaf") {
		t.Errorf("the handler beside two pushers: %v", err)
	}
	eventually(t, "not both sent", func() bool {
		server.mu.Lock()
		defer server.mu.Unlock()
		seen := strings.Join(server.names, " ")
		return strings.Contains(seen, "one{}") && strings.Contains(seen, "two{}")
	})
	for _, s := range []PushStats{endOne(), endTwo()} {
		if s.Sent+s.Empty != s.Taken {
			t.Errorf("%+v", s)
		}
	}
	waitFor(t, "sessions still run", func() bool { return running() == 0 })
}

func TestPushWhenAllSessionsRun(t *testing.T) {
	for range maxSessions {
		p, err := onstack.Start()
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
	}
	err := Push(context.Background(), PushOptions{URL: "http://localhost:1", Service: "test"})
	if !errors.Is(err, onstack.ErrSessions) {
		t.Error(err)
	}
}
