// SPDX-License-Identifier: MIT OR Apache-2.0

//go:build cgo && linux

package onstackhttp

import (
	"fmt"
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
