// SPDX-License-Identifier: MIT OR Apache-2.0

//go:build cgo && linux

package onstackhttp

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/pprof/profile"
	"github.com/onstack-profiler/onstack/bindings/go/internal/pprofcheck"
)

var heapKept [][]byte

//go:noinline
func heapGrows() { heapKept = append(heapKept, make([]byte, 16<<20)) }

func heapAsk(t *testing.T, url string) *profile.Profile {
	t.Helper()
	response, body := get(t, url)
	if response.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s %s", url, response.Status, body)
	}
	parsed, err := pprofcheck.Parse([]byte(body))
	if err != nil {
		t.Fatal(err)
	}
	return parsed
}

func heapOf(p *profile.Profile, function string) (sum int64) {
	index, _ := p.SampleIndexByName("inuse_space")
	for _, sample := range p.Sample {
		for _, location := range sample.Location {
			if len(location.Line) > 0 && strings.HasSuffix(location.Line[0].Function.Name, function) {
				sum += sample.Value[index]
				break
			}
		}
	}
	return sum
}

func TestHeapOverPprof(t *testing.T) {
	const writeTimeout = 3 * time.Second
	server := serveBy(t, writeTimeout, OverPprof(http.NotFoundHandler()))
	url := server + "/debug/pprof/heap"
	heapGrows()
	if got := heapOf(heapAsk(t, url+"?debug=0&gc=1"), "heapGrows"); got < 16<<20 {
		t.Errorf("debug=0: %d bytes in use of 16 MiB", got)
	}
	if response, body := get(t, url+"?seconds=4"); response.StatusCode != http.StatusBadRequest || !strings.Contains(body, "WriteTimeout of 3s") {
		t.Errorf("longer than the server writes: %s %q", response.Status, body)
	}
	if got := heapOf(heapAsk(t, url+"?gc=1"), "heapGrows"); got < 16<<20 {
		t.Errorf("%d bytes in use of 16 MiB", got)
	}
	if p := heapAsk(t, server+"/debug/pprof/allocs?gc=1"); p.DefaultSampleType != "alloc_space" || heapOf(p, "heapGrows") < 16<<20 {
		t.Errorf("allocs: %s, %d bytes in use", p.DefaultSampleType, heapOf(p, "heapGrows"))
	}
	// A delta has nothing of what was there before.
	grown := heapAsk(t, url+"?gc=1&seconds=1")
	if got := heapOf(grown, "heapGrows"); got != 0 {
		t.Errorf("%d bytes have grown in a second without work", got)
	}
	if want := []string{"onstack.delta seconds=1"}; !slices.Equal(grown.Comments, want) {
		t.Errorf("the comments of a delta are %q, which describe something else than %q", grown.Comments, want)
	}
	if response, body := get(t, server+"/debug/pprof/memory"); response.StatusCode != http.StatusOK ||
		!strings.Contains(body, "resident\n") || !strings.Contains(body, "Go, in use\n") {
		t.Errorf("memory: %s %s", response.Status, body)
	}
	for _, query := range []string{"?seconds=0", "?seconds=301", "?seconds=x", "?gc=x", "?gc=-1", "?older=x", "?older=0", "?seconds=", "?older=", "?gc="} {
		if response, body := get(t, url+query); response.StatusCode != http.StatusBadRequest || !strings.Contains(body, "give") {
			t.Errorf("%s: %s %q", query, response.Status, body)
		}
	}
}

// Heap profiles have a limit of their own, that of a moment's and those of a while together.
func TestHeapsAtOnceAreBounded(t *testing.T) {
	server := serveBy(t, 0, OverPprof(http.NotFoundHandler()))
	heap, allocs := server+"/debug/pprof/heap", server+"/debug/pprof/allocs"
	gone := clients(t, mostHeaps, heap) // of a minute
	waitFor(t, "not all clients have a profile", func() bool { return heapAnswers.count() == mostHeaps })
	for _, url := range []string{heap, allocs} {
		wantRefused(t, url, http.StatusTooManyRequests, "4 heap profiles are being made over HTTP already")
		response, _ := get(t, url)
		after, err := strconv.Atoi(response.Header.Get("Retry-After"))
		if response.StatusCode != http.StatusTooManyRequests || err != nil || after > 60 {
			t.Errorf("%s: Retry-After: %q for profiles of 60 s", response.Status, response.Header.Get("Retry-After"))
		}
	}
	if response, body := get(t, heap+"?seconds=x"); response.StatusCode != http.StatusBadRequest {
		t.Errorf("a bad value meanwhile: %s %q", response.Status, body)
	}
	for _, other := range []string{"/debug/pprof/profile?seconds=0.1", "/debug/pprof/threads", "/debug/pprof/memory"} {
		if response, body := get(t, server+other); response.StatusCode != http.StatusOK {
			t.Errorf("%s beside them: %s %.100q", other, response.Status, body)
		}
	}
	gone()
	heapAsk(t, heap)
	heapAsk(t, allocs)
	if n := heapAnswers.count(); n != 0 {
		t.Errorf("%d requests count when they are over", n)
	}
}
