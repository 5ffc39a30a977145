// SPDX-License-Identifier: MIT OR Apache-2.0

package otlp

import (
	"context"
	"errors"
	"runtime/pprof"
	"strings"
	"sync"
	"testing"
	"time"

	onstack "github.com/onstack-profiler/onstack/bindings/go"
	"github.com/onstack-profiler/onstack/bindings/go/onstackhttp"
)

// pushing is a Pusher that runs, beside work that is part of a span.
type pushing struct {
	*onstackhttp.Pusher
	t      *testing.T
	cancel context.CancelFunc
	ended  chan error

	mu     sync.Mutex
	events []onstackhttp.PushEvent
}

func push(t *testing.T, url string) *pushing {
	t.Helper()
	p := &pushing{t: t, ended: make(chan error, 1)}
	pusher, err := onstackhttp.NewPusher(onstackhttp.PushOptions{
		Protocol:     onstackhttp.PushOTLP,
		URL:          url,
		Service:      "shop",
		Labels:       map[string]string{"deployment.environment.name": "test"},
		Interval:     time.Second,
		FlushTimeout: patience,
		Profile:      []onstack.Option{onstack.WithRate(500)},
		Report:       p.note,
	})
	if err != nil {
		t.Fatal(err)
	}
	p.Pusher = pusher
	var ctx context.Context
	ctx, p.cancel = context.WithCancel(context.Background())
	t.Cleanup(p.cancel)
	go func() { p.ended <- pusher.Run(ctx) }()
	go pprof.Do(ctx, pprof.Labels("trace_id", traceID, "span_id", spanID), func(ctx context.Context) {
		for ctx.Err() == nil {
			burn(10 * time.Millisecond)
			time.Sleep(10 * time.Millisecond)
		}
	})
	return p
}

func (p *pushing) note(e onstackhttp.PushEvent) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.events = append(p.events, e)
}

func (p *pushing) told(outcome onstackhttp.PushOutcome, text string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, e := range p.events {
		if e.Outcome == outcome && strings.Contains(e.Err.Error(), text) {
			return true
		}
	}
	return false
}

func (p *pushing) end() onstackhttp.PushStats {
	p.t.Helper()
	p.cancel()
	if err := <-p.ended; !errors.Is(err, context.Canceled) {
		p.t.Error(err)
	}
	s := p.Stats()
	if s.Taken != s.Sent+s.Failed+s.Dropped+s.Empty || s.Waiting != 0 {
		p.t.Errorf("the books do not close: %+v", s)
	}
	return s
}

// A backend that is away makes the collector refuse for a while, and nothing is lost.
func TestPush(t *testing.T) {
	behind := newBackend(t)
	behind.set(429)
	p := push(t, collector(t, behind.URL, ""))
	eventually(t, "the collector takes what its backend does not", func() bool {
		return p.told(onstackhttp.PushRetry, "429") || p.told(onstackhttp.PushRetry, "503")
	})
	behind.set(0)
	eventually(t, "no three profiles are sent", func() bool { return p.Stats().Sent >= 3 })
	s := p.end()
	if got := behind.profiles(); uint64(len(got)) != s.Sent || s.Failed+s.Dropped != 0 {
		t.Errorf("%d came of %+v: %v", len(got), s, p.events)
	}
	linked, before := false, uint64(0)
	for _, all := range behind.profiles() {
		resource := all.ResourceProfiles().At(0).Resource().Attributes().AsRaw()
		if resource["service.name"] != "shop" || resource["deployment.environment.name"] != "test" {
			t.Errorf("the resource is %v", resource)
		}
		linked = linked || all.Dictionary().LinkTable().Len() == 2
		one := profilesOf(all)[0]
		if start := uint64(one.Time()); start < before {
			t.Error("a profile begins before the one before it ends")
		}
		before = uint64(one.Time()) + one.DurationNano()
	}
	if !linked {
		t.Error("no sample is linked to the span")
	}
}

// The collector has a limit, and what is over it is lost with a reason.
func TestPushTooLarge(t *testing.T) {
	behind := newBackend(t)
	p := push(t, collector(t, behind.URL, "        max_request_body_size: 100"))
	eventually(t, "a profile of more than 100 bytes is taken", func() bool { return p.told(onstackhttp.PushFailed, "too large") })
	if s := p.end(); s.Sent != 0 || s.Failed == 0 || len(behind.profiles()) != 0 {
		t.Errorf("%+v: %v", s, p.events)
	}
	t.Log(p.events[0].Err)
}
