// SPDX-License-Identifier: MIT OR Apache-2.0

//go:build cgo && linux

package onstackhttp

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/onstack-profiler/onstack/bindings/go/internal/pprofcheck"
)

func TestThreadsOverPprof(t *testing.T) {
	server := httptest.NewServer(OverPprof(http.NotFoundHandler()))
	defer server.Close()
	response, body := get(t, server.URL+"/debug/pprof/threads?debug=1")
	if response.StatusCode != http.StatusOK || response.Header.Get("Content-Type") != "text/plain; charset=utf-8" ||
		!strings.HasPrefix(body, "onstack dump of process ") || !strings.Contains(body, "onstackhttp.threads") {
		t.Errorf("%s %s", response.Status, body)
	}
	response, body = get(t, server.URL+"/debug/pprof/threads")
	if p, err := pprofcheck.Parse([]byte(body)); err != nil || len(p.Sample) == 0 || p.SampleType[0].Type != "threads" {
		t.Errorf("%s %v %v", response.Status, err, p)
	}
	posted, err := http.Post(server.URL+"/debug/pprof/threads", "text/plain", nil)
	if err != nil {
		t.Fatal(err)
	}
	posted.Body.Close()
	if posted.StatusCode != http.StatusMethodNotAllowed || answering.count() != 0 {
		t.Errorf("%s, %d dumps still count", posted.Status, answering.count())
	}
}
