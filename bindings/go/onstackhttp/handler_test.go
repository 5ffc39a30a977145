// SPDX-License-Identifier: MIT OR Apache-2.0

//go:build cgo && linux

package onstackhttp

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"

	onstack "github.com/onstack-profiler/onstack/bindings/go"
	"github.com/onstack-profiler/onstack/bindings/go/internal/pprofcheck"
	"github.com/onstack-profiler/onstack/bindings/go/internal/testburn"
)

const maxSessions = 8

func serveOn(t *testing.T, writeTimeout time.Duration, opts ...onstack.Option) string {
	t.Helper()
	return serveBy(t, writeTimeout, Handler(opts...))
}

func serveBy(t *testing.T, writeTimeout time.Duration, handler http.Handler) string {
	t.Helper()
	server := httptest.NewUnstartedServer(handler)
	server.Config.WriteTimeout = writeTimeout
	server.Start()
	t.Cleanup(server.Close)
	return server.URL
}

func get(t *testing.T, url string) (*http.Response, string) {
	t.Helper()
	response, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response, string(body)
}

func TestProfile(t *testing.T) {
	url := serveOn(t, time.Minute)
	burnt := make(chan struct{})
	go func() {
		defer close(burnt)
		testburn.Native(900 * time.Millisecond)
	}()
	response, body := get(t, url+"?seconds=0.8&hz=200")
	<-burnt
	if response.StatusCode != http.StatusOK {
		t.Fatal(response.Status, body)
	}
	for name, want := range map[string]string{
		"Content-Type":           "application/octet-stream",
		"X-Content-Type-Options": "nosniff",
		"Content-Disposition":    `attachment; filename="profile.pb.gz"`,
	} {
		if got := response.Header.Get(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	if !strings.HasPrefix(body, "\x1f\x8b") {
		t.Error("not gzip")
	}
	p, err := pprofcheck.Parse([]byte(body))
	if err != nil {
		t.Fatal(err)
	}
	if p.Period != (5 * time.Millisecond).Nanoseconds() {
		t.Errorf("period %d ns at 200 Hz", p.Period)
	}
	if !strings.Contains(p.String(), "testburn_leaf") {
		t.Errorf("no testburn_leaf in\n%s", p)
	}
}

func TestBadRequests(t *testing.T) {
	url := serveOn(t, 2*time.Second)
	for query, text := range map[string]string{
		"?seconds=x":         "number above 0",
		"?seconds=":          "number above 0",
		"?seconds=1&hz=":     "whole number",
		"?seconds=1&clock=":  "cpu, wall or wall-signal",
		"?seconds=0":         "number above 0",
		"?seconds=-1":        "number above 0",
		"?seconds=NaN":       "number above 0",
		"?seconds=1e300":     "number above 0",
		"?seconds=301":       "number above 0 and up to 300, HandlerOptions.MaxDuration",
		"?seconds=1&hz=0":    "whole number from 1",
		"?seconds=1&hz=-5":   "whole number from 1",
		"?seconds=1&hz=99.5": "whole number",
		"?seconds=1&hz=x":    "whole number",
		"?seconds=1&clock=x": "cpu, wall or wall-signal",
		"?seconds=1&hz=1001": "from 1 to 1000, HandlerOptions.MaxRate",
		// The two ways of asking for more than WriteTimeout allows.
		"?seconds=2": "WriteTimeout of 2s",
		"":           "30s is more than",
	} {
		begun := time.Now()
		response, body := get(t, url+query)
		if response.StatusCode != http.StatusBadRequest || !strings.Contains(body, text) {
			t.Errorf("%q: %s %q, want 400 and %q", query, response.Status, body, text)
		}
		if response.Header.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%q: sniffable", query)
		}
		if time.Since(begun) > 500*time.Millisecond {
			t.Errorf("%q: refused after %v", query, time.Since(begun))
		}
	}
	response, err := http.Post(url+"?seconds=1", "text/plain", nil)
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	if response.StatusCode != http.StatusMethodNotAllowed || response.Header.Get("Allow") != "GET" {
		t.Errorf("POST: %s", response.Status)
	}
}

func TestDefaults(t *testing.T) {
	request, err := Handler().(*handler).parse(httptest.NewRequest(http.MethodGet, "/", nil))
	if err != nil || request.duration != 30*time.Second || len(request.options) != 0 {
		t.Errorf("%+v %v", request, err)
	}
	url := serveOn(t, 0, onstack.WithRate(50))
	_, body := get(t, url+"?seconds=0.1")
	p, err := pprofcheck.Parse([]byte(body))
	if err != nil {
		t.Fatal(err)
	}
	if p.Period != (20 * time.Millisecond).Nanoseconds() {
		t.Errorf("period %d ns with the handler's 50 Hz", p.Period)
	}
}

func TestWallClock(t *testing.T) {
	url := serveOn(t, 0)
	kinds := map[string]string{"&clock=wall": "wall", "&clock=wall&hz=50": "wall", "&clock=wall-signal": "wall", "&clock=cpu": "cpu", "": "cpu"}
	for clock, kind := range kinds {
		_, body := get(t, url+"?seconds=0.3"+clock)
		p, err := pprofcheck.Parse([]byte(body))
		if err != nil {
			t.Fatal(err)
		}
		// Without a sample a profile does not say what its clock is; this one's threads wait, which only one clock sees.
		if len(p.Sample) == 0 && kind == "wall" {
			t.Error("nothing waits on the wall clock")
		}
		if last := p.SampleType[len(p.SampleType)-1].Type; len(p.Sample) > 0 && last != kind {
			t.Errorf("%q: %s", clock, last)
		}
		if hz := map[string]int64{"&clock=wall": 20, "&clock=wall&hz=50": 50}[clock]; hz != 0 && p.Period != time.Second.Nanoseconds()/hz {
			t.Errorf("%q: period %d ns", clock, p.Period)
		}
	}
}

// The command that everybody has must be able to fetch from us, where it fetches from net/http/pprof otherwise.
func TestOverPprofWithTheRealClient(t *testing.T) {
	next := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "next "+r.URL.Path) })
	server := httptest.NewServer(OverPprof(next))
	defer server.Close()
	if _, body := get(t, server.URL+"/debug/pprof/heap?debug=1"); body != "next /debug/pprof/heap" {
		t.Errorf("another path: %q", body)
	}
	if response, _ := get(t, server.URL+"/debug/pprof/onstack?seconds=0"); response.StatusCode != http.StatusBadRequest {
		t.Errorf("/debug/pprof/onstack: %s", response.Status)
	}
	// The first `go tool pprof` of a machine is built before it asks.
	done, burnt := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(burnt)
		for {
			select {
			case <-done:
				return
			default:
				testburn.Native(20 * time.Millisecond)
			}
		}
	}()
	command := exec.CommandContext(t.Context(), "go", "tool", "pprof", "-symbolize=none", "-seconds", "1",
		"-timeout", "120", "-top", server.URL+"/debug/pprof/profile")
	command.Env = append(os.Environ(), "PPROF_TMPDIR="+t.TempDir())
	out, err := command.CombinedOutput()
	close(done)
	<-burnt
	if err != nil || !strings.Contains(string(out), "testburn_leaf") {
		t.Errorf("%v\n%s", err, out)
	}
}

// running counts the sessions by their goroutines, without starting one to find out.
func running() int {
	stacks := make([]byte, 1<<20)
	stacks = stacks[:runtime.Stack(stacks, true)]
	return strings.Count(string(stacks), "session).drain(")
}

func waitFor(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(5 * time.Second); !holds(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal(what)
		}
	}
}
