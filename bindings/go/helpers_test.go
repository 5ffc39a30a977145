// SPDX-License-Identifier: MIT OR Apache-2.0

//go:build cgo && linux

package onstack_test

import (
	"bytes"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/pprof/profile"
	onstack "github.com/onstack-profiler/onstack/bindings/go"
	"github.com/onstack-profiler/onstack/bindings/go/internal/pprofcheck"
)

func TestMain(m *testing.M) {
	if order := os.Getenv(guestEnv); order != "" {
		runGuest(order)
		return
	}
	os.Exit(m.Run())
}

func start(t *testing.T, opts ...onstack.Option) *onstack.Profile {
	t.Helper()
	p, err := onstack.Start(opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p
}

// take profiles work.
func take(t *testing.T, work func(), opts ...onstack.Option) (*onstack.Profile, *profile.Profile) {
	t.Helper()
	p := start(t, opts...)
	work()
	if err := p.Stop(); err != nil {
		t.Fatal(err)
	}
	return p, written(t, p)
}

func written(t *testing.T, p *onstack.Profile) *profile.Profile {
	t.Helper()
	var out bytes.Buffer
	n, err := p.WriteTo(&out)
	if err != nil {
		t.Fatal(err)
	}
	if n != int64(out.Len()) {
		t.Errorf("WriteTo says %d bytes, wrote %d", n, out.Len())
	}
	return parse(t, out.Bytes())
}

func parse(t *testing.T, b []byte) *profile.Profile {
	t.Helper()
	parsed, err := pprofcheck.Parse(b)
	if err != nil {
		t.Fatal(err)
	}
	return parsed
}

// names of a sample's functions, leaf first, inlined ones included.
func names(s *profile.Sample) []string {
	var all []string
	for _, location := range s.Location {
		for _, line := range location.Line {
			all = append(all, line.Function.Name)
		}
	}
	return all
}

// hasInOrder says whether the stack holds these functions, C's by name and Go's from the package on, in this order,
// leaf first.
func hasInOrder(stack []string, wanted ...string) bool {
	for _, want := range wanted {
		at := slices.IndexFunc(stack, func(name string) bool {
			return name == want || strings.HasSuffix(name, "/"+want) || strings.HasSuffix(name, "."+want)
		})
		if at < 0 {
			return false
		}
		stack = stack[at+1:]
	}
	return true
}

// count adds up the ticks for which the condition holds. On a busy machine there are fewer samples, of more ticks each.
func count(p *profile.Profile, holds func(*profile.Sample) bool) (sum int64) {
	for _, sample := range p.Sample {
		if holds(sample) {
			sum += sample.Value[1] / p.Period
		}
	}
	return sum
}

func total(p *profile.Profile) int64 {
	return count(p, func(*profile.Sample) bool { return true })
}

// wantMost fails when less than three quarters of `whole`, which must be some, is `part`. On a busy machine a tenth of
// Go's ticks comes right after the scheduler's own signal, and has runtime.asyncPreempt on top.
func wantMost(t *testing.T, what string, part, whole int64) {
	t.Helper()
	if whole < 20 || part*4 < whole*3 {
		t.Errorf("%s: %d of %d ticks", what, part, whole)
	}
}
