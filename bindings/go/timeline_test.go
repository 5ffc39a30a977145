// SPDX-License-Identifier: MIT OR Apache-2.0

//go:build cgo && linux

package onstack_test

import (
	"bytes"
	"fmt"
	"slices"
	"testing"
	"time"

	onstack "github.com/onstack-profiler/onstack/bindings/go"
	"github.com/onstack-profiler/onstack/bindings/go/internal/pprofcheck"
	"github.com/onstack-profiler/onstack/bindings/go/internal/testburn"
)

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
	all, err := pprofcheck.Times(out.Bytes())
	if err != nil {
		t.Fatal(err)
	}
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
