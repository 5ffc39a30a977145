// SPDX-License-Identifier: MIT OR Apache-2.0

//go:build cgo && linux

package onstackhttp_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	onstack "github.com/onstack-profiler/onstack/bindings/go"
	"github.com/onstack-profiler/onstack/bindings/go/onstackhttp"
)

// In a program ctx is the one that ends when the program shall, of signal.NotifyContext for one.
func ExamplePush() {
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})) // Pyroscope, say
	defer server.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
	defer cancel()
	err := onstackhttp.Push(ctx, onstackhttp.PushOptions{
		URL:     server.URL,
		Service: "shop",
		Labels:  map[string]string{"env": "staging"},
		Header:  http.Header{"Authorization": {"Bearer ..."}},
		Profile: []onstack.Option{onstack.WithRate(19)},
	})
	fmt.Println(errors.Is(err, context.DeadlineExceeded))
	// Output: true
}

func ExampleNewPusher() {
	_, err := onstackhttp.NewPusher(onstackhttp.PushOptions{
		URL:     "http://pyroscope:4040",
		Service: "shop",
		Labels:  map[string]string{"git-ref": "main"}, // the server would refuse every profile
	})
	fmt.Println(errors.Is(err, onstack.ErrOptions))
	// Output: true
}

func ExamplePusher_Stats() {
	pusher, err := onstackhttp.NewPusher(onstackhttp.PushOptions{URL: "http://pyroscope:4040", Service: "shop"})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- pusher.Run(ctx) }()
	// ... elsewhere, as metrics:
	stats := pusher.Stats()
	fmt.Println(stats.Sent, stats.Failed, stats.Dropped)
	cancel()
	<-ended
	// Output: 0 0 0
}
