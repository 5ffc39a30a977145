// SPDX-License-Identifier: MIT OR Apache-2.0

//go:build cgo && linux

package onstack_test

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"fmt"
	"io"
	"slices"
	"testing"
	"time"

	onstack "github.com/onstack-profiler/onstack/bindings/go"
	"github.com/onstack-profiler/onstack/bindings/go/internal/testburn"
)

// fields calls visit for each field of a message with its number and, where it has any, bytes.
func fields(t *testing.T, message []byte, visit func(uint64, []byte)) {
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

// moments of a profile's samples, since its start: onstack.h says how they are written.
func moments(t *testing.T, profile []byte) (all []time.Duration) {
	t.Helper()
	const sample, times = 2, 1000
	fields(t, profile, func(field uint64, message []byte) {
		if field != sample {
			return
		}
		fields(t, message, func(field uint64, packed []byte) {
			at := time.Duration(0)
			for field == times && len(packed) > 0 {
				value, n := binary.Uvarint(packed)
				packed = packed[n:]
				since := value >> 1
				at += time.Duration(int64(since>>1)^-int64(since&1)) * time.Microsecond
				all = append(all, at)
				if value&1 != 0 {
					_, n = binary.Uvarint(packed)
					packed = packed[n:]
				}
			}
		})
	})
	return all
}

func TestTimeline(t *testing.T) {
	p := start(t, onstack.WithTimeline(), onstack.WithRate(199))
	begun := time.Now()
	testburn.Go(300 * time.Millisecond)
	time.Sleep(300 * time.Millisecond)
	testburn.Native(300 * time.Millisecond)
	lasted := time.Since(begun)
	if err := p.Stop(); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if _, err := p.WriteTo(&out); err != nil {
		t.Fatal(err)
	}
	parsed := parse(t, out.Bytes())
	unpacked, err := gzip.NewReader(&out)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := io.ReadAll(unpacked)
	if err != nil {
		t.Fatal(err)
	}
	all := moments(t, raw)
	if want := fmt.Sprintf("onstack.timeline kept=%d lost=0", len(all)); !slices.Contains(parsed.Comments, want) {
		t.Errorf("no comment %q in %q", want, parsed.Comments)
	}
	if len(all) < 80 || int64(len(all)) > total(parsed) {
		t.Fatalf("%d times of %d ticks", len(all), total(parsed))
	}
	slices.Sort(all)
	if all[0] < 0 || all[len(all)-1] > lasted+50*time.Millisecond {
		t.Errorf("times from %v to %v in a profile of %v", all[0], all[len(all)-1], lasted)
	}
	widest := time.Duration(0)
	for i := range all[1:] {
		widest = max(widest, all[i+1]-all[i])
	}
	// Go's own threads may run in the pause.
	if widest < 100*time.Millisecond {
		t.Errorf("the pause of 300 ms is one of %v", widest)
	}
}
