// SPDX-License-Identifier: MIT OR Apache-2.0

package onstackhttp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

func TestPushNothingIsLostInAnOutage(t *testing.T) {
	byEach(t, func(t *testing.T, protocol PushProtocol) {
		server, away := newIngestAway(t, http.StatusServiceUnavailable)
		p := pushBy(t, protocol, server.URL, func(p *Pusher) { p.queue.limit = 1 << 20 })
		eventually(t, "no retries while the server answers 503", func() bool { return p.Stats().Retries >= 10 })
		if s := p.Stats(); s.Sent != 0 || s.Failed != 0 || s.Dropped != 0 {
			t.Errorf("in the outage: %+v", s)
		}
		away.Store(false)
		eventually(t, "nothing arrives after the outage", func() bool { return p.Stats().Sent >= 10 })
		s := p.end()
		if s.Dropped != 0 || s.Failed != 0 {
			t.Errorf("%+v", s)
		}
		wantAll(t, server.numbers(), s.Sent)
		if p.count(PushRetry, "503 Service Unavailable: not yet") == 0 {
			t.Error("the reason was not told")
		}
	})
}

func TestPushServerThatComesLate(t *testing.T) {
	byEach(t, func(t *testing.T, protocol PushProtocol) {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		address := listener.Addr().String()
		listener.Close()
		p := pushBy(t, protocol, "http://"+address, func(p *Pusher) { p.queue.limit = 1 << 20 })
		eventually(t, "no retries while nobody listens", func() bool { return p.count(PushRetry, "connection refused") >= 3 })
		server := &ingest{t: t, Server: httptest.NewUnstartedServer(nil)}
		server.Config.Handler = server
		server.Listener.Close()
		if server.Listener, err = net.Listen("tcp", address); err != nil {
			t.Skip("somebody else has taken the port: ", err)
		}
		server.Start()
		defer server.Close()
		eventually(t, "nothing arrives when the server is there", func() bool { return p.Stats().Sent > 0 })
		s := p.end()
		wantAll(t, server.numbers(), s.Sent)
	})
}

func TestPushHangingServer(t *testing.T) {
	byEach(t, func(t *testing.T, protocol PushProtocol) {
		server := newIngest(t, func(_ http.ResponseWriter, r *http.Request) bool {
			io.Copy(io.Discard, r.Body) // net/http notices that the client has gone only once the body is read
			<-r.Context().Done()
			return true
		})
		p := pushBy(t, protocol, server.URL, func(p *Pusher) {
			p.client, p.ours = newPushClient(&PushOptions{Timeout: 20 * time.Millisecond})
			p.flush = 100 * time.Millisecond
		})
		eventually(t, "a hanging server is waited for", func() bool { return p.count(PushRetry, "Timeout exceeded") >= 3 })
		if s := p.end(); s.Sent != 0 || s.Dropped == 0 || p.count(PushDropped, "the end came") == 0 {
			t.Errorf("%+v", s)
		}
	})
}

func TestPushEndWhileTheServerHangs(t *testing.T) {
	server := newIngest(t, func(_ http.ResponseWriter, r *http.Request) bool {
		io.Copy(io.Discard, r.Body)
		<-r.Context().Done()
		return true
	})
	p := push(t, server.URL, func(p *Pusher) { p.flush = 50 * time.Millisecond }) // the request itself may take 10 s
	eventually(t, "no request", func() bool { return server.requested() > 0 })
	ending := time.Now()
	p.end()
	if took := time.Since(ending); took > 9*time.Second {
		t.Errorf("the end took %v with a FlushTimeout of 50 ms", took)
	}
	if n := server.requested(); n != 1 {
		t.Errorf("%d requests", n)
	}
}

// Whatever the server does, profiles arrive in order, each that counts as sent is there, and the accounting closes.
func TestPushServerOfMoods(t *testing.T) {
	byEach(t, func(t *testing.T, protocol PushProtocol) {
		var kept atomic.Uint64 // accepted, with an answer that was lost
		server := newIngest(t, nil)
		server.answer = func(w http.ResponseWriter, r *http.Request) bool {
			switch rand.N(7) {
			case 0:
				w.WriteHeader(http.StatusServiceUnavailable)
			case 1:
				w.Header().Set("Retry-After", "0")
				w.WriteHeader(http.StatusTooManyRequests)
			case 2:
				w.WriteHeader(http.StatusBadRequest)
			case 3:
				panic(http.ErrAbortHandler) // hangs up, with the body read in part or not at all
			case 4:
				server.accept(w, r)
				kept.Add(1)
				panic(http.ErrAbortHandler)
			default:
				return false
			}
			return true
		}
		p := pushBy(t, protocol, server.URL, func(p *Pusher) { p.queue.limit, p.interval = 10, time.Millisecond })
		eventually(t, "too little happens", func() bool {
			s := p.Stats()
			return s.Sent >= 50 && s.Failed >= 10 && s.Retries >= 50 && kept.Load() >= 10
		})
		s := p.end()
		numbers, distinct := server.numbers(), map[int64]bool{}
		for i, number := range numbers {
			distinct[number] = true
			if i > 0 && number < numbers[i-1] {
				t.Errorf("%d after %d", number, numbers[i-1])
			}
		}
		if n := uint64(len(distinct)); n < s.Sent || n > s.Sent+kept.Load() || uint64(len(numbers)) != s.Sent+kept.Load() {
			t.Errorf("%d came, %d of them different, %d with an answer that was lost, of %+v", len(numbers), n, kept.Load(), s)
		}
		if p.count(PushRetry, "EOF")+p.count(PushRetry, "reset") == 0 {
			t.Error("a server that hangs up was not told of")
		}
	})
}

// Neither the password nor the query is told.
func TestPushTellsNoSecret(t *testing.T) {
	for _, answer := range []func(http.ResponseWriter, *http.Request) bool{
		func(http.ResponseWriter, *http.Request) bool { panic(http.ErrAbortHandler) },
		func(w http.ResponseWriter, _ *http.Request) bool { w.WriteHeader(http.StatusForbidden); return true },
		func(w http.ResponseWriter, r *http.Request) bool {
			http.Redirect(w, r, "http://127.0.0.1/?"+r.URL.RawQuery, http.StatusFound)
			return true
		},
	} {
		url := strings.Replace(newIngest(t, answer).URL, "//", "//me:hunter2@", 1) + "?token=hunter2"
		p := push(t, url, func(p *Pusher) {
			p.target.header.Set("Authorization", "hunter2")
			p.flush = 10 * time.Millisecond
		})
		told := func(text string) uint64 { return p.count(PushRetry, text) + p.count(PushFailed, text) }
		eventually(t, "nothing is told", func() bool { return told("") > 2 })
		p.end()
		if told("hunter2") != 0 || told("//127.0.0.1") == 0 {
			t.Errorf("%v", p.events)
		}
	}
}

func TestPushWhatIsTriedAgain(t *testing.T) {
	for _, c := range []struct {
		status int
		text   string
		again  bool
	}{
		{400, "name: invalid", false}, {401, "", false}, {403, "", false}, {404, "", false}, {413, "", false},
		{422, "pushing IngestInput-pprof failed invalid_argument: invalid label name 'unavailable:'", false},
		{422, "pushing IngestInput-pprof failed resource_exhausted: push rate limit (0 B) exceeded", true},
		{422, "pushing IngestInput-pprof failed unavailable: no healthy instance", true},
		{408, "", true}, {429, "", true}, {500, "", true}, {502, "", true}, {503, "", true}, {504, "", true},
	} {
		t.Run(fmt.Sprint(c.status, " ", c.text), func(t *testing.T) {
			var asked atomic.Int64
			server := newIngest(t, func(w http.ResponseWriter, _ *http.Request) bool {
				first := asked.Add(1) == 1
				if first {
					http.Error(w, c.text, c.status)
				}
				return first
			})
			p := push(t, server.URL, func(p *Pusher) { p.queue.limit = 1 << 20 })
			eventually(t, "the next one is not sent", func() bool { return p.Stats().Sent > 0 })
			s, first := p.end(), server.numbers()[0]
			outcome, want := PushFailed, PushStats{Failed: 1}
			if c.again {
				outcome, want = PushRetry, PushStats{Retries: 1}
			}
			if s.Failed != want.Failed || s.Retries != want.Retries || s.Dropped != 0 || (first == 1) != c.again {
				t.Errorf("%+v, first was %d", s, first)
			}
			if p.count(outcome, fmt.Sprint(c.status)) != 1 || p.count(outcome, c.text) != 1 {
				t.Errorf("told: %v", p.events)
			}
		})
	}
}

func TestPushRetryAfter(t *testing.T) {
	byEach(t, func(t *testing.T, protocol PushProtocol) {
		now := time.Now()
		for text, want := range map[string]time.Duration{
			"": 0, "3": 3 * time.Second, "0": 0, "-3": 0, "1.5": 0, "soon": 0, "99999999": time.Hour, "99999999999999999999": 0,
			now.Add(90 * time.Second).UTC().Format(http.TimeFormat): 90 * time.Second,
			now.Add(-time.Hour).UTC().Format(http.TimeFormat):       0,
		} {
			if got := retryAfter(text, now.Truncate(time.Second)); got != want {
				t.Errorf("%q: %v, want %v", text, got, want)
			}
		}
		var asked []time.Time
		server := newIngest(t, func(w http.ResponseWriter, _ *http.Request) bool {
			asked = append(asked, time.Now()) // one connection, one request at a time
			if len(asked) == 1 {
				w.Header().Set("Retry-After", "1")
				w.WriteHeader(http.StatusTooManyRequests)
			}
			return len(asked) == 1
		})
		p := pushBy(t, protocol, server.URL, nil)
		eventually(t, "no second attempt", func() bool { return p.Stats().Sent > 0 })
		p.end()
		if waited := asked[1].Sub(asked[0]); waited < 990*time.Millisecond {
			t.Errorf("asked again after %v", waited)
		}
	})
}

// A server that said "in an hour" is not asked again at the end, nor is the hour waited for.
func TestPushRetryAfterAtTheEnd(t *testing.T) {
	server := newIngest(t, func(w http.ResponseWriter, _ *http.Request) bool {
		w.Header().Set("Retry-After", "3600")
		w.WriteHeader(http.StatusServiceUnavailable)
		return true
	})
	p := push(t, server.URL, nil)
	eventually(t, "no attempt", func() bool { return p.Stats().Retries > 0 })
	ending := time.Now()
	s := p.end()
	if took := time.Since(ending); took > pushPatience/2 {
		t.Errorf("the end took %v", took)
	}
	if server.requested() != 1 || s.Dropped == 0 {
		t.Errorf("%d requests, %+v", server.requested(), s)
	}
}

func TestPushBackoff(t *testing.T) {
	b := backoff{least: time.Second, most: 10 * time.Second}
	for _, want := range []time.Duration{1, 2, 4, 8, 10, 10} {
		if got := b.next(0); got < want*time.Second/2 || got > want*time.Second {
			t.Errorf("%v, want %d s or down to half", got, want)
		}
	}
	if got := b.next(time.Minute); got < time.Minute || got > time.Minute+b.least {
		t.Errorf("%v after Retry-After: 60", got)
	}
	b.reset()
	if got := b.next(0); got > time.Second {
		t.Errorf("%v after a success", got)
	}
	same := true
	for first := b.next(0); same; same = b.next(0) == first {
		b.reset()
	}
}

func TestPushProfileThatCannotBeMade(t *testing.T) {
	byEach(t, func(t *testing.T, protocol PushProtocol) {
		server := newIngest(t, nil)
		p := pushBy(t, protocol, server.URL, func(p *Pusher) {
			p.start = func() (pushSource, error) { return &numbered{fails: true}, nil }
		})
		p.source.stopped.Store(true) // it is another
		eventually(t, "not told", func() bool { return p.count(PushFailed, "no memory") > 1 })
		if s := p.end(); s.Failed != s.Taken {
			t.Errorf("%+v", s)
		}
	})
}

func TestPushDoesNotFollowRedirections(t *testing.T) {
	other := newIngest(t, nil)
	server := newIngest(t, func(w http.ResponseWriter, r *http.Request) bool {
		http.Redirect(w, r, other.URL+"/elsewhere?"+r.URL.RawQuery, http.StatusTemporaryRedirect)
		return true
	})
	p := push(t, server.URL, nil)
	eventually(t, "not told", func() bool { return p.count(PushFailed, other.URL+"/elsewhere, ") > 0 })
	p.end()
	if n := other.requested(); n != 0 {
		t.Errorf("%d requests at the other host", n)
	}
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestPushByAClientOfOnesOwn(t *testing.T) {
	server := newIngest(t, nil)
	var used atomic.Int64
	own := &http.Client{Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
		used.Add(1)
		return http.DefaultTransport.RoundTrip(r)
	})}
	p := push(t, server.URL, func(p *Pusher) { p.client, p.ours = newPushClient(&PushOptions{Client: own, Timeout: time.Minute}) })
	eventually(t, "nothing sent", func() bool { return p.Stats().Sent > 0 })
	if s := p.end(); used.Load() != int64(s.Sent) || p.ours != nil || own.Timeout != 0 || own.CheckRedirect != nil {
		t.Errorf("used for %d of %+v; now %+v", used.Load(), s, own)
	}
}

func TestPushRunsOnce(t *testing.T) {
	p := push(t, newIngest(t, nil).URL, nil)
	eventually(t, "nothing sent", func() bool { return p.Stats().Sent > 0 })
	if err := p.Run(context.Background()); err == nil || !strings.Contains(err.Error(), "runs once") {
		t.Error(err)
	}
	p.end()
}

func TestPushContextThatHasEnded(t *testing.T) {
	ctx, cancel := context.WithCancelCause(context.Background())
	cause := errors.New("over")
	cancel(cause)
	if err := Push(ctx, PushOptions{URL: "http://localhost:1", Service: "test"}); err != cause {
		t.Error(err)
	}
}

// pushLeft shows what goroutines of a Pusher, or of its connections, are there.
func pushLeft() string {
	stacks := make([]byte, 1<<20)
	stacks = stacks[:runtime.Stack(stacks, true)]
	var left []string
	for _, stack := range strings.Split(string(stacks), "\n\n") {
		if strings.Contains(stack, "onstackhttp.(*Pusher)") || strings.Contains(stack, "net/http.(*persistConn)") {
			left = append(left, stack)
		}
	}
	return strings.Join(left, "\n\n")
}

func TestPushLeavesNoGoroutine(t *testing.T) {
	http.DefaultClient.CloseIdleConnections() // of other tests
	eventually(t, "goroutines of other tests are left", func() bool { return pushLeft() == "" })
	p := push(t, newIngest(t, nil).URL, nil)
	eventually(t, "nothing sent", func() bool { return p.Stats().Sent > 2 })
	if pushLeft() == "" {
		t.Error("the test does not see a Pusher's goroutines")
	}
	p.end()
	// The connections' own end a moment after they were closed.
	for deadline := time.Now().Add(pushPatience); pushLeft() != ""; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("left:\n" + pushLeft())
		}
	}
}
