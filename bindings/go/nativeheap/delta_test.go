// SPDX-License-Identifier: MIT OR Apache-2.0

//go:build cgo && linux

package nativeheap_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"runtime"
	"sync"
	"testing"
	"unsafe"

	"github.com/onstack-profiler/onstack/bindings/go/internal/pprofcheck"
	"github.com/onstack-profiler/onstack/bindings/go/nativeheap/internal/leaktest"
	"github.com/onstack-profiler/onstack/bindings/go/onstackhttp"
)

// waited is a request's context that calls once it is first waited on: a delta has its first profile then.
type waited struct {
	context.Context
	once  sync.Once
	calls func()
}

func (w *waited) Done() <-chan struct{} {
	w.once.Do(w.calls)
	return w.Context.Done()
}

var keptBefore, keptMeanwhile []byte

//go:noinline
func goBefore() { keptBefore = make([]byte, 8<<20) }

//go:noinline
func goMeanwhile() { keptMeanwhile = make([]byte, 16<<20) }

//go:noinline
func meanwhile() {
	for range 500 {
		leaktest.Keep(1000)
	}
}

//go:noinline
func takes() unsafe.Pointer { return leaktest.Take(3000) }

// What has grown and shrunk meanwhile, of both heaps, and nothing of what was there before.
func TestDeltaOfBothHeaps(t *testing.T) {
	start(t, 1)
	keptBefore, keptMeanwhile = nil, nil // of a run before this one: they would shrink meanwhile
	runtime.GC()
	leaks()
	goBefore()
	block := takes()
	request := httptest.NewRequest(http.MethodGet, "/debug/pprof/heap?gc=1&seconds=1", nil)
	answer := httptest.NewRecorder()
	onstackhttp.OverPprof(http.NotFoundHandler()).ServeHTTP(answer, request.WithContext(&waited{Context: t.Context(), calls: func() {
		meanwhile()
		goMeanwhile()
		leaktest.Give(block)
	}}))
	delta, err := pprofcheck.Parse(answer.Body.Bytes())
	if err != nil {
		t.Fatalf("%d: %v", answer.Code, err)
	}
	for _, of := range []struct {
		column, heap, function string
		least, most            int64
	}{
		{"inuse_space", "native", "nativeheap_test.meanwhile", 500 * 1000, 500 * 1000},
		{"inuse_objects", "native", "nativeheap_test.meanwhile", 500, 500},
		{"alloc_space", "native", "nativeheap_test.meanwhile", 500 * 1000, 500 * 1000},
		{"inuse_space", "native", "nativeheap_test.takes", -3000, -3000},
		{"alloc_space", "native", "nativeheap_test.takes", 0, 0},
		{"inuse_space", "native", "nativeheap_test.leaks", 0, 0},
		{"alloc_space", "native", "nativeheap_test.leaks", 0, 0},
		{"inuse_space", "go", "nativeheap_test.goMeanwhile", 16 << 20, 17 << 20},
		{"alloc_space", "go", "nativeheap_test.goMeanwhile", 16 << 20, 17 << 20},
		{"inuse_space", "go", "nativeheap_test.goBefore", 0, 0},
		{"alloc_space", "go", "nativeheap_test.goBefore", 0, 0},
	} {
		if got := sum(delta, of.column, of.heap, of.function); got < of.least || got > of.most {
			t.Errorf("%s of the %s heap by %s: %d, not %d to %d", of.column, of.heap, of.function, got, of.least, of.most)
		}
	}
	runtime.KeepAlive(keptBefore)
	runtime.KeepAlive(keptMeanwhile)
}
