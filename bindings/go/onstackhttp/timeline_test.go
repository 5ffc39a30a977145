// SPDX-License-Identifier: MIT OR Apache-2.0

//go:build cgo && linux

package onstackhttp

import (
	"compress/gzip"
	"encoding/binary"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/onstack-profiler/onstack/bindings/go/internal/pprofcheck"
	"github.com/onstack-profiler/onstack/bindings/go/internal/testburn"
)

// bytesFields calls visit for each field of a message that has bytes; a profile's other fields are numbers.
func bytesFields(t *testing.T, message []byte, visit func(field uint64, body []byte)) {
	t.Helper()
	number := func() uint64 {
		value, n := binary.Uvarint(message)
		if n <= 0 {
			t.Fatal("a number that does not end")
		}
		message = message[n:]
		return value
	}
	for len(message) > 0 {
		key, value := number(), number()
		if key&7 != 2 {
			continue
		}
		visit(key>>3, message[:value])
		message = message[value:]
	}
}

// timesOf samples since the profile's start, as onstack.h says: ONSTACK_PPROF_SAMPLE_TIMES.
func timesOf(t *testing.T, body string) (all []time.Duration) {
	t.Helper()
	unpacked, err := gzip.NewReader(strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	profile, err := io.ReadAll(unpacked)
	if err != nil {
		t.Fatal(err)
	}
	const sample, times = 2, 1000
	bytesFields(t, profile, func(field uint64, message []byte) {
		if field != sample {
			return
		}
		bytesFields(t, message, func(field uint64, packed []byte) {
			for at := int64(0); field == times && len(packed) > 0; all = append(all, time.Duration(at)*time.Microsecond) {
				value, n := binary.Uvarint(packed)
				packed = packed[n:]
				at += int64(value>>2) ^ -int64(value>>1&1)
				if value&1 != 0 { // its weight
					_, n = binary.Uvarint(packed)
					packed = packed[n:]
				}
			}
		})
	})
	return all
}

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
		times, comments := timesOf(t, body), strings.Join(parsed.Comments, "\n")
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
