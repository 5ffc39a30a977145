// SPDX-License-Identifier: MIT OR Apache-2.0

package onstackhttp

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/pprof/profile"
	"github.com/onstack-profiler/onstack/bindings/go/internal/pprofcheck"
	profiles "go.opentelemetry.io/proto/slim/otlp/profiles/v1development"
	"google.golang.org/protobuf/proto"
)

// Most tests send made-up profiles, which are numbered; push_profile_test.go sends real ones.

// pushPatience is for what happens at some time on a busy machine.
const pushPatience = time.Minute

// numbered is a source of profiles of one sample, whose value is the profile's number, from 1 on.
type numbered struct {
	taken   atomic.Int64
	fails   bool
	padding int // bytes that cannot be compressed
	stopped atomic.Bool
}

func (n *numbered) TakeTo(w io.Writer) (int64, error) {
	if n.fails {
		return 0, errors.New("no memory")
	}
	function := &profile.Function{ID: 1, Name: "f"}
	location := &profile.Location{ID: 1, Line: []profile.Line{{Function: function}}}
	p := &profile.Profile{
		SampleType: []*profile.ValueType{{Type: "samples", Unit: "count"}},
		Sample:     []*profile.Sample{{Location: []*profile.Location{location}, Value: []int64{n.taken.Add(1)}}},
		Location:   []*profile.Location{location},
		Function:   []*profile.Function{function},
		TimeNanos:  time.Now().UnixNano(),
	}
	padding := make([]byte, n.padding*8/7) // servers take text alone, of which 7 of 8 bits are random here
	for i := range padding {
		padding[i] = byte(rand.N(128))
	}
	p.Comments = []string{string(padding)}
	return 0, p.Write(w)
}

func (n *numbered) Stop() error  { n.stopped.Store(true); return nil }
func (n *numbered) Close() error { return nil }

// ingest is a server that takes profiles as strictly as Pyroscope does.
type ingest struct {
	*httptest.Server
	t *testing.T
	// answer may write an answer other than 200, and then says so.
	answer func(w http.ResponseWriter, r *http.Request) bool

	mu       sync.Mutex
	requests int
	names    []string
	got      []*profile.Profile
}

func newIngest(t *testing.T, answer func(http.ResponseWriter, *http.Request) bool) *ingest {
	s := &ingest{t: t, answer: answer}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

// newIngestAway refuses all with that status until `away` is false.
func newIngestAway(t *testing.T, status int) (server *ingest, away *atomic.Bool) {
	away = new(atomic.Bool)
	away.Store(true)
	return newIngest(t, func(w http.ResponseWriter, _ *http.Request) bool {
		if away.Load() {
			http.Error(w, "not yet", status)
		}
		return away.Load()
	}), away
}

func (s *ingest) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.requests++
	s.mu.Unlock()
	if s.answer == nil || !s.answer(w, r) {
		s.accept(w, r)
	}
}

func (s *ingest) accept(w http.ResponseWriter, r *http.Request) {
	read := readPush
	if strings.HasSuffix(r.URL.Path, "/v1development/profiles") {
		read = readOTLP
	}
	p, err := read(r)
	if err != nil {
		s.t.Errorf("the server cannot take %s: %v", r.URL, err)
		http.Error(w, err.Error(), http.StatusUnprocessableEntity)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.names = append(s.names, r.URL.Query().Get("name"))
	s.got = append(s.got, p)
}

var (
	nameOfPush  = regexp.MustCompile(`^[-\w./]+\{(\w+=[^,}]*(,\w+=[^,}]*)*)?\}$`)
	labelOfPush = regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_]*$`)
)

func readPush(r *http.Request) (*profile.Profile, error) {
	query := r.URL.Query()
	if r.Method != http.MethodPost || !strings.HasSuffix(r.URL.Path, "/ingest") {
		return nil, fmt.Errorf("%s %s", r.Method, r.URL.Path)
	}
	if query.Has("format") {
		return nil, errors.New("Pyroscope does not look for a form when it is told a format")
	}
	if !nameOfPush.MatchString(query.Get("name")) {
		return nil, fmt.Errorf("name=%s", query.Get("name"))
	}
	var from, until int64
	if _, err := fmt.Sscan(query.Get("from")+" "+query.Get("until"), &from, &until); err != nil || from < 1e9 || until < from {
		return nil, fmt.Errorf("from=%s until=%s: %v", query.Get("from"), query.Get("until"), err)
	}
	file, _, err := r.FormFile("profile")
	if err != nil {
		return nil, err
	}
	defer file.Close()
	body, err := io.ReadAll(file)
	if err != nil {
		return nil, err
	}
	if !bytes.HasPrefix(body, []byte("\x1f\x8b")) {
		return nil, errors.New("not gzip")
	}
	p, err := pprofcheck.Parse(body)
	if err != nil {
		return nil, err
	}
	for _, sample := range p.Sample {
		for key := range sample.Label {
			if !labelOfPush.MatchString(key) {
				return nil, fmt.Errorf("invalid label name %q", key)
			}
		}
	}
	return p, nil
}

// readOTLP reads what numbered makes; tests/otlp has a true reader.
func readOTLP(r *http.Request) (*profile.Profile, error) {
	if r.Method != http.MethodPost || r.Header.Get("Content-Type") != otlpContentType || r.Header.Get("Content-Encoding") != "gzip" ||
		r.Header.Get("OTLP-Profiles-Development-Version") != "1" {
		return nil, fmt.Errorf("%s with %v", r.Method, r.Header)
	}
	unpacked, err := gzip.NewReader(r.Body)
	if err != nil {
		return nil, err
	}
	raw, err := io.ReadAll(unpacked)
	if err != nil {
		return nil, err
	}
	var data profiles.ProfilesData
	if err := proto.Unmarshal(raw, &data); err != nil {
		return nil, err
	}
	values := data.ResourceProfiles[0].ScopeProfiles[0].Profiles[0].Samples[0].Values
	return &profile.Profile{Sample: []*profile.Sample{{Value: values}}}, nil
}

func (s *ingest) profiles() []*profile.Profile {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]*profile.Profile(nil), s.got...)
}

func (s *ingest) requested() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.requests
}

// numbers of the made-up profiles that came, in their order.
func (s *ingest) numbers() (all []int64) {
	for _, p := range s.profiles() {
		all = append(all, p.Sample[0].Value[0])
	}
	return all
}

// pushing is a Pusher of made-up profiles that runs.
type pushing struct {
	*Pusher
	t      *testing.T
	source *numbered
	cancel context.CancelFunc
	ended  chan error

	mu     sync.Mutex
	events []PushEvent
}

// byEach runs a test with each protocol.
func byEach(t *testing.T, run func(*testing.T, PushProtocol)) {
	t.Run("ingest", func(t *testing.T) { run(t, PushIngest) })
	t.Run("otlp", func(t *testing.T) { run(t, PushOTLP) })
}

// push starts one with short times. `change` may alter it before.
func push(t *testing.T, url string, change func(*Pusher)) *pushing {
	t.Helper()
	return pushBy(t, PushIngest, url, change)
}

func pushBy(t *testing.T, protocol PushProtocol, url string, change func(*Pusher)) *pushing {
	t.Helper()
	p := &pushing{t: t, source: &numbered{}, ended: make(chan error, 1)}
	pusher, err := NewPusher(PushOptions{Protocol: protocol, URL: url, Service: "test", FlushTimeout: pushPatience, Report: p.note})
	if err != nil {
		t.Fatal(err)
	}
	p.Pusher = pusher
	p.interval, p.least, p.most = 5*time.Millisecond, time.Millisecond, 4*time.Millisecond
	p.Pusher.start = func() (pushSource, error) { return p.source, nil }
	if change != nil {
		change(p.Pusher)
	}
	var ctx context.Context
	ctx, p.cancel = context.WithCancel(context.Background())
	go func() { p.ended <- p.Run(ctx) }()
	t.Cleanup(p.cancel)
	return p
}

func (p *pushing) note(e PushEvent) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if sum := e.Stats.Sent + e.Stats.Failed + e.Stats.Dropped + e.Stats.Empty + e.Stats.Waiting; sum != e.Stats.Taken {
		p.t.Errorf("the accounting does not close: %+v", e.Stats)
	}
	p.events = append(p.events, e)
}

// count of the events of a kind whose error holds the text.
func (p *pushing) count(outcome PushOutcome, text string) (n uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, e := range p.events {
		if e.Outcome == outcome && strings.Contains(e.Err.Error(), text) {
			n++
		}
	}
	return n
}

// end cancels, waits, and closes the accounting: nothing waits any more, and what was lost has been told.
func (p *pushing) end() PushStats {
	p.t.Helper()
	p.cancel()
	select {
	case err := <-p.ended:
		if !errors.Is(err, context.Canceled) {
			p.t.Errorf("Run: %v", err)
		}
	case <-time.After(2 * pushPatience):
		p.t.Fatal("Run does not return")
	}
	s := p.Stats()
	if s.Waiting != 0 || s.Taken != s.Sent+s.Failed+s.Dropped+s.Empty {
		p.t.Errorf("the accounting does not close: %+v", s)
	}
	if p.count(PushFailed, "") != s.Failed || p.count(PushDropped, "") != s.Dropped || p.count(PushRetry, "") != s.Retries {
		p.t.Errorf("not all was told: %+v of %+v", p.events, s)
	}
	if !p.source.stopped.Load() {
		p.t.Error("the profile was not stopped")
	}
	return s
}

func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(pushPatience); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal(what)
		}
	}
}

// wantAll fails unless the numbers are 1, 2, 3 and so on, up to `last`.
func wantAll(t *testing.T, numbers []int64, last uint64) {
	t.Helper()
	for i, number := range numbers {
		if number != int64(i+1) {
			t.Fatalf("profile %d is number %d: %v", i+1, number, numbers)
		}
	}
	if uint64(len(numbers)) != last {
		t.Errorf("%d profiles came, %d were sent", len(numbers), last)
	}
}
