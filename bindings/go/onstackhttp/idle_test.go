// SPDX-License-Identifier: MIT OR Apache-2.0

//go:build cgo && linux

package onstackhttp

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	onstack "github.com/onstack-profiler/onstack/bindings/go"
	"github.com/onstack-profiler/onstack/bindings/go/internal/testburn"
)

const idleEnv = "ONSTACK_TEST_IDLE"

// held is what a process has of things that cost something while nothing happens.
type held struct {
	threads, goroutines, descriptors, timers, bytes int
}

func entries(t *testing.T, directory string) int {
	t.Helper()
	all, err := os.ReadDir(directory)
	if err != nil {
		t.Fatal(err)
	}
	return len(all)
}

func holds(t *testing.T) (now held) {
	t.Helper()
	debug.FreeOSMemory()
	runtime.GC()
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	_, line, found := strings.Cut(string(status), "RssAnon:")
	if _, err := fmt.Sscan(line, &now.bytes); !found || err != nil {
		t.Skip("the kernel does not tell anonymous memory: ", err)
	}
	now.bytes <<= 10
	timers, _ := os.ReadFile("/proc/self/timers") // a kernel without checkpoints does not tell
	now.timers = strings.Count(string(timers), "ID:")
	now.threads, now.descriptors = entries(t, "/proc/self/task"), entries(t, "/proc/self/fd")
	now.goroutines = runtime.NumGoroutine()
	return now
}

// A process that serves OverPprof and is asked for nothing has no thread, goroutine, descriptor or timer more for it, and less
// than 2 MiB. In a process of its own, whose memory is nobody else's. Go's runtime may begin a thread at any moment: what is
// ours would be there each time.
func TestIdleIsCheap(t *testing.T) {
	if os.Getenv(idleEnv) != "" {
		isIdle(t)
		return
	}
	for range 5 {
		if !strings.Contains(inItsOwnProcess(t), moreThreads) {
			return
		}
	}
	t.Error("a thread more each time")
}

// inItsOwnProcess runs the calling test again, with idleEnv set, and returns what it says.
func inItsOwnProcess(t *testing.T) string {
	t.Helper()
	command := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
	command.Env = append(os.Environ(), idleEnv+"=1")
	out, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Logf("%s", out)
	return string(out)
}

const moreThreads = "a thread more"

// TestPusherIsSmall: what a pusher holds beside a session that runs anyway, whose tables and buffer are the first one's.
func TestPusherIsSmall(t *testing.T) {
	if os.Getenv(idleEnv) != "" {
		pusherIsSmall(t)
		return
	}
	inItsOwnProcess(t)
}

func pusherIsSmall(t *testing.T) {
	var sent atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(io.Discard, r.Body); err == nil {
			sent.Add(1)
		}
	}))
	defer server.Close()
	first, err := onstack.Start(onstack.WithRate(19))
	if err != nil {
		t.Fatal(err)
	}
	defer first.Stop()
	pusher, err := NewPusher(PushOptions{URL: server.URL, Service: "test", Interval: time.Second, Profile: []onstack.Option{onstack.WithRate(19)}})
	if err != nil {
		t.Fatal(err)
	}
	if err := onstack.StartCPUProfile(io.Discard, onstack.WithRate(250)); err != nil { // names that were looked up once are kept
		t.Fatal(err)
	}
	testburn.Go(200 * time.Millisecond)
	if err := onstack.StopCPUProfile(); err != nil {
		t.Fatal(err)
	}
	holds(t) // what the first look itself makes
	before := holds(t)
	ctx, end := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- pusher.Run(ctx) }()
	waitFor(t, "nothing is sent", func() bool { testburn.Go(10 * time.Millisecond); return sent.Load() >= 2 })
	after := holds(t)
	end()
	<-done
	t.Logf("%d bytes more with a pusher", after.bytes-before.bytes)
	if after.bytes-before.bytes > 2<<20 {
		t.Errorf("before %+v, with a pusher %+v", before, after)
	}
}

func isIdle(t *testing.T) {
	var served atomic.Pointer[http.Handler]
	next := http.Handler(http.NotFoundHandler())
	served.Store(&next)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { (*served.Load()).ServeHTTP(w, r) }))
	defer server.Close()
	holds(t) // what the first look itself makes
	time.Sleep(100 * time.Millisecond)
	before := holds(t)

	ours, err := NewHandler(HandlerOptions{})
	if err != nil {
		t.Fatal(err)
	}
	wrapped := OverPprofBy(next, ours)
	served.Store(&wrapped)
	time.Sleep(500 * time.Millisecond)
	after := holds(t)
	if after.goroutines > before.goroutines || after.descriptors > before.descriptors ||
		after.timers > before.timers || after.bytes-before.bytes > 2<<20 {
		t.Errorf("before %+v, while nothing is asked %+v", before, after)
	}
	if after.threads > before.threads {
		t.Log(moreThreads)
	}
	t.Logf("%d bytes more while nothing is asked", after.bytes-before.bytes)

	// The tables of the first profile stay; nothing that runs does.
	for _, path := range []string{"profile?seconds=0.2", "profile?seconds=0.2&clock=wall", "threads", "heap", "memory"} {
		answer := httptest.NewRecorder()
		wrapped.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/debug/pprof/"+path, nil))
		if answer.Code != http.StatusOK {
			t.Errorf("%s: %d %s", path, answer.Code, answer.Body)
		}
	}
	waitFor(t, "a goroutine is left", func() bool { return runtime.NumGoroutine() <= before.goroutines })
	if again := holds(t); again.descriptors > before.descriptors || again.timers > before.timers {
		t.Errorf("before %+v, when all are answered %+v", before, again)
	}
}
