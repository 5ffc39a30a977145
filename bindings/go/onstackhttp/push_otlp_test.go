// SPDX-License-Identifier: MIT OR Apache-2.0

package onstackhttp

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	onstack "github.com/onstack-profiler/onstack/bindings/go"
)

// statusOf is a google.rpc.Status, or an ExportProfilesServiceResponse with a partial success where rejected is not 0.
func statusOf(words string, rejected uint64) []byte {
	body := append(binary.AppendUvarint([]byte{2<<3 | 2}, uint64(len(words))), words...)
	if rejected == 0 {
		return append([]byte{1 << 3, 3}, body...)
	}
	partial := append(binary.AppendUvarint([]byte{1 << 3}, rejected), body...)
	return append([]byte{1<<3 | 2, byte(len(partial))}, partial...)
}

// once answers the first request so; the profiles after it are taken.
func once(t *testing.T, contentType string, status int, answer []byte) *ingest {
	var asked atomic.Int64
	return newIngest(t, func(w http.ResponseWriter, _ *http.Request) bool {
		first := asked.Add(1) == 1
		if first {
			w.Header().Set("Content-Type", contentType)
			w.WriteHeader(status)
			w.Write(answer)
		}
		return first
	})
}

func TestPushOTLPWhatIsTriedAgain(t *testing.T) {
	for _, c := range []struct {
		status int
		again  bool
	}{
		{400, false}, {401, false}, {404, false}, {408, false}, {413, false}, {422, false}, {500, false}, {501, false},
		{429, true}, {502, true}, {503, true}, {504, true},
	} {
		t.Run(fmt.Sprint(c.status), func(t *testing.T) {
			server := once(t, "application/x-protobuf; charset=x", c.status, statusOf("because of this", 0))
			p := pushBy(t, PushOTLP, server.URL, func(p *Pusher) { p.queue.limit = 1 << 20 })
			eventually(t, "the next one is not sent", func() bool { return p.Stats().Sent > 0 })
			s, first := p.end(), server.numbers()[0]
			outcome, want := PushFailed, PushStats{Failed: 1}
			if c.again {
				outcome, want = PushRetry, PushStats{Retries: 1}
			}
			if s.Failed != want.Failed || s.Retries != want.Retries || s.Dropped != 0 || (first == 1) != c.again {
				t.Errorf("%+v, first was %d", s, first)
			}
			if p.count(outcome, fmt.Sprint(c.status)) != 1 || p.count(outcome, ": because of this") != 1 {
				t.Errorf("told: %v", p.events)
			}
		})
	}
}

func TestPushOTLPPartialSuccess(t *testing.T) {
	server := once(t, otlpContentType, 200, statusOf("no room", 2))
	p := pushBy(t, PushOTLP, server.URL, nil)
	eventually(t, "the next one is not sent", func() bool { return p.Stats().Sent > 0 })
	if s := p.end(); s.Failed != 1 || s.Retries != 0 || p.count(PushFailed, "refused 2 of its parts: no room") != 1 {
		t.Errorf("%+v: %v", s, p.events)
	}
}

// Neither an answer in another form nor a damaged one is taken for a refusal.
func TestPushOTLPAnswersOfSuccess(t *testing.T) {
	for _, answer := range []string{"", "{}", "\x0a", "\x0a\x02\x12\x00", "\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01x", "\x0a\x02\x08\x00"} {
		server := once(t, otlpContentType, 200, []byte(answer))
		p := pushBy(t, PushOTLP, server.URL, nil)
		eventually(t, "nothing is sent", func() bool { return p.Stats().Sent > 1 })
		if s := p.end(); s.Failed+s.Retries+s.Dropped != 0 {
			t.Errorf("%q: %+v: %v", answer, s, p.events)
		}
	}
}

func TestPushTooLarge(t *testing.T) {
	byEach(t, func(t *testing.T, protocol PushProtocol) {
		server := once(t, "text/plain", 413, []byte("at most 1 MiB"))
		p := pushBy(t, protocol, server.URL, nil)
		eventually(t, "the next one is not sent", func() bool { return p.Stats().Sent > 0 })
		if p.end(); p.count(PushFailed, "at most 1 MiB: make profiles smaller, by a shorter Interval") != 1 {
			t.Errorf("told: %v", p.events)
		}
	})
}

// A certificate that nobody vouches for loses nothing in silence, and the profile is not sent.
func TestPushWrongCertificate(t *testing.T) {
	byEach(t, func(t *testing.T, protocol PushProtocol) {
		server := &ingest{t: t}
		server.Server = httptest.NewUnstartedServer(server)
		server.Config.ErrorLog = log.New(io.Discard, "", 0)
		server.StartTLS()
		t.Cleanup(server.Close)
		p := pushBy(t, protocol, server.URL, func(p *Pusher) { p.flush = 0 })
		eventually(t, "it is not told", func() bool { return p.count(PushRetry, "certificate") > 1 })
		if s := p.end(); s.Sent != 0 || s.Dropped != s.Taken || server.requested() != 0 {
			t.Errorf("%+v, %d requests", s, server.requested())
		}
	})
}

func TestPushOTLPOptions(t *testing.T) {
	options := func(change func(*PushOptions)) PushOptions {
		o := PushOptions{Protocol: PushOTLP, URL: "http://localhost:4318", Service: "my service"}
		change(&o)
		return o
	}
	p, err := NewPusher(options(func(o *PushOptions) { o.Labels = map[string]string{"deployment.environment.name": "a,b", "x": ""} }))
	if err != nil {
		t.Fatal(err)
	}
	if p.target.String() != "http://localhost:4318/v1development/profiles" || len(p.target.resource) != 3 {
		t.Errorf("%s %v", p.target, p.target.resource)
	}
	for text, change := range map[string]func(*PushOptions){
		"Protocol":  func(o *PushOptions) { o.Protocol = 2 },
		"URL":       func(o *PushOptions) { o.URL = "localhost:4317" },
		"Service":   func(o *PushOptions) { o.Service = "" },
		"NUL":       func(o *PushOptions) { o.Labels = map[string]string{"a": "b\x00"} },
		"UTF-8":     func(o *PushOptions) { o.Labels = map[string]string{"\xff": "b"} },
		"Service'":  func(o *PushOptions) { o.Labels = map[string]string{"service.name": "b"} },
		"not yours": func(o *PushOptions) { o.Header = http.Header{"otlp-profiles-development-version": {"2"}} },
	} {
		if _, err := NewPusher(options(change)); !errors.Is(err, onstack.ErrOptions) || !strings.Contains(err.Error(), text) {
			t.Errorf("%s: %v", text, err)
		}
	}
}
