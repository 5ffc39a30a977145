// SPDX-License-Identifier: MIT OR Apache-2.0

//go:build cgo && linux

package onstack_test

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/google/pprof/profile"
	onstack "github.com/onstack-profiler/onstack/bindings/go"
)

func heapProfile(t *testing.T) *profile.Profile {
	t.Helper()
	var out bytes.Buffer
	if err := onstack.WriteHeapProfile(&out); err != nil {
		t.Fatal(err)
	}
	return parse(t, out.Bytes())
}

func TestAHeapProfileWithoutANativePartSaysSo(t *testing.T) {
	saysNone := func(p *profile.Profile) bool {
		return slices.ContainsFunc(p.Comments, func(comment string) bool {
			return strings.HasPrefix(comment, "onstack.heap native=none ")
		})
	}
	if p := heapProfile(t); !saysNone(p) {
		t.Errorf("without a profile with ClockHeap the comments are %q", p.Comments)
	}
	heap := start(t, onstack.WithClock(onstack.ClockHeap))
	if p := heapProfile(t); saysNone(p) {
		t.Errorf("with a profile with ClockHeap the comments are %q", p.Comments)
	}
	heap.Close()
	if p := heapProfile(t); !saysNone(p) {
		t.Errorf("after its end the comments are %q", p.Comments)
	}
}
