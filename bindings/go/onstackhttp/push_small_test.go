// SPDX-License-Identifier: MIT OR Apache-2.0

// A sanitizer's own memory is several times what is counted here.
//go:build cgo && linux && !race && !asan && !msan

package onstackhttp

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"sync/atomic"
	"testing"
	"time"

	onstack "github.com/onstack-profiler/onstack/bindings/go"
	"github.com/onstack-profiler/onstack/bindings/go/internal/testburn"
)

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
