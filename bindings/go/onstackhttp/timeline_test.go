// SPDX-License-Identifier: MIT OR Apache-2.0

//go:build cgo && linux

package onstackhttp

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/onstack-profiler/onstack/bindings/go/internal/pprofcheck"
	"github.com/onstack-profiler/onstack/bindings/go/internal/testburn"
)

// What is no 0 or 1 is refused: testdata/alike.txt has it.
func TestTimelineOverHTTP(t *testing.T) {
	url := serveOn(t, time.Minute)
	for query, wanted := range map[string]bool{"&timeline=1": true, "&timeline=0": false, "": false} {
		burnt := make(chan struct{})
		go func() {
			defer close(burnt)
			testburn.Native(600 * time.Millisecond)
		}()
		response, body := get(t, url+"?seconds=0.5&hz=199"+query)
		<-burnt
		if response.StatusCode != http.StatusOK {
			t.Fatal(query, response.Status, body)
		}
		parsed, err := pprofcheck.Parse([]byte(body))
		if err != nil {
			t.Fatal(err)
		}
		ticks := int64(0)
		for _, sample := range parsed.Sample {
			ticks += sample.Value[0]
		}
		if ticks == 0 {
			t.Errorf("%q: no samples", query)
		}
		times, err := pprofcheck.Times([]byte(body))
		if err != nil {
			t.Fatal(err)
		}
		comments := strings.Join(parsed.Comments, "\n")
		if !wanted {
			if len(times) > 0 || strings.Contains(comments, "onstack.timeline") {
				t.Errorf("%q: %d times that nobody asked for", query, len(times))
			}
			continue
		}
		if len(times) == 0 || int64(len(times)) > ticks {
			t.Errorf("%q: %d times of %d ticks", query, len(times), ticks)
		}
		if want := fmt.Sprintf("onstack.timeline kept=%d lost=0", len(times)); !strings.Contains(comments, want) {
			t.Errorf("%q: no comment %q in\n%s", query, want, comments)
		}
		for _, at := range times {
			if at < 0 || at > time.Duration(parsed.DurationNanos)+50*time.Millisecond {
				t.Errorf("%q: %v in a profile of %v", query, at, time.Duration(parsed.DurationNanos))
			}
		}
	}
}
