// SPDX-License-Identifier: MIT OR Apache-2.0

//go:build cgo && linux

package onstack_test

import (
	"encoding/json"
	"io"
	"math/rand/v2"
	"regexp"
	"sync"
	"testing"
	"text/template"
	"time"

	onstack "github.com/onstack-profiler/onstack/bindings/go"
)

//go:noinline
func benchLeft(depth int, r *rand.Rand) int { return benchDescend(depth-1, r) + 1 }

//go:noinline
func benchRight(depth int, r *rand.Rand) int { return benchDescend(depth-1, r) + 2 }

// benchDescend takes another way each time, so that nearly every sample has a stack of its own.
func benchDescend(depth int, r *rand.Rand) (sum int) {
	if depth == 0 {
		for range 5000 {
			sum += int(r.Uint32() & 1)
		}
		return sum
	}
	if r.Uint32()&1 == 0 {
		return benchLeft(depth, r)
	}
	return benchRight(depth, r)
}

func benchWork(seed uint64, until time.Time) {
	r := rand.New(rand.NewPCG(seed, 1))
	numbers := regexp.MustCompile(`(\d+)-(\w+)`)
	page := template.Must(template.New("").Parse(`{{range .}}{{.}} {{end}}`))
	for time.Now().Before(until) {
		for range 20 {
			benchDescend(40, r)
		}
		text, _ := json.Marshal([]any{r.Uint64(), "12-ab", map[string]int{"a": 1}})
		var back any
		_ = json.Unmarshal(text, &back)
		numbers.FindAll(text, -1)
		_ = page.Execute(io.Discard, []int{1, 2, 3})
	}
}

// From a stopped profile to its bytes.
func BenchmarkWriteTo(b *testing.B) {
	p, err := onstack.Start(onstack.WithRate(1000))
	if err != nil {
		b.Fatal(err)
	}
	defer p.Close()
	until := time.Now().Add(3 * time.Second)
	var workers sync.WaitGroup
	for seed := range uint64(4) {
		workers.Go(func() { benchWork(seed, until) })
	}
	workers.Wait()
	if err := p.Stop(); err != nil {
		b.Fatal(err)
	}
	b.Run("pprof", func(b *testing.B) {
		for b.Loop() {
			if _, err := p.WriteTo(io.Discard); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(p.Stats().Samples), "samples")
	})
	b.Run("folded", func(b *testing.B) {
		for b.Loop() {
			if err := p.WriteFolded(io.Discard); err != nil {
				b.Fatal(err)
			}
		}
	})
}
