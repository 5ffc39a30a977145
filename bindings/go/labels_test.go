// SPDX-License-Identifier: MIT OR Apache-2.0

//go:build cgo && linux

package onstack

import (
	"bytes"
	"context"
	"runtime"
	"runtime/pprof"
	"strings"
	"testing"
	"time"

	"github.com/onstack-profiler/onstack/bindings/go/internal/pprofcheck"
	"github.com/onstack-profiler/onstack/bindings/go/internal/testburn"
)

// skipUnknown: the core knows the runtime's structures on amd64 only.
func skipUnknown(t *testing.T) {
	t.Helper()
	if runtime.GOARCH != "amd64" {
		t.Skip("goroutine labels are off on " + runtime.GOARCH)
	}
}

func TestGoroutineLabelsAreFound(t *testing.T) {
	skipUnknown(t)
	pprof.Do(context.Background(), pprof.Labels("mine", "yes"), func(context.Context) {
		before := getProfLabel()
		if !goroutineLabels() {
			t.Error("the labels of this Go version are not found")
		}
		if getProfLabel() != before {
			t.Error("the goroutine's own labels are gone")
		}
	})
}

func labelledTicks(t *testing.T, opts ...Option) (inGo, inC, wrong, all int64, stats Stats) {
	t.Helper()
	p, err := Start(opts...)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	pprof.Do(context.Background(), pprof.Labels("job", "go", "long", strings.Repeat("x", 300)), func(context.Context) {
		testburn.Go(400 * time.Millisecond)
	})
	pprof.Do(context.Background(), pprof.Labels("job", "native"), func(context.Context) {
		testburn.Native(400 * time.Millisecond)
	})
	testburn.Go(300 * time.Millisecond)
	var out bytes.Buffer
	if err := p.Stop(); err != nil {
		t.Fatal(err)
	}
	if _, err := p.WriteTo(&out); err != nil {
		t.Fatal(err)
	}
	parsed, err := pprofcheck.Parse(out.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	for _, sample := range parsed.Sample {
		ticks := sample.Value[1] / parsed.Period
		all += ticks
		native := strings.HasPrefix(sample.Location[0].Line[0].Function.Name, "testburn_")
		switch job := strings.Join(sample.Label["job"], ","); {
		case job == "go" && !native:
			inGo += ticks
		case job == "native" && native:
			inC += ticks
		case job == "go" && native, sample.Label["long"] != nil:
			wrong += ticks
		}
	}
	return inGo, inC, wrong, all, p.Stats()
}

func TestSamplesCarryGoroutineLabels(t *testing.T) {
	skipUnknown(t)
	inGo, inC, wrong, all, stats := labelledTicks(t)
	t.Logf("%d ticks with the label in Go, %d in C, %d wrong, of %d", inGo, inC, wrong, all)
	// 40 % of Go code's time is labelled, and no label outlives its goroutine's use of it.
	if inGo < 20 || inC < 20 || wrong > 0 || inGo+inC > all-15 || !stats.GoroutineLabels {
		t.Errorf("%+v", stats)
	}
	inGo, inC, _, _, stats = labelledTicks(t, WithGoroutineLabels(false))
	if inGo+inC > 0 || stats.GoroutineLabels {
		t.Errorf("off: %d %d", inGo, inC)
	}
}
