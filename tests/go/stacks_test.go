// SPDX-License-Identifier: MIT OR Apache-2.0

package stacks

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/onstack-profiler/onstack/tests/go/trace"
)

// host is one program and what is asked of its stacks.
type host struct {
	name   string
	build  func(*builder) string // the program; "" with a reason logged where it cannot be had
	work   string
	rooted float64  // smallest share of stacks that reach a root, per cent
	must   []string // functions that must be seen as callers: the work did run and was walked through
}

var hosts = []host{
	{name: "pure Go", build: plainHost, work: "pure", rooted: 99, must: []string{"main.deep", "main.grow"}},
	{name: "C without frame pointers", build: plainHost, work: "native", rooted: 99.5,
		must: []string{"native_recurse", "runtime.asmcgocall", "main.native"}},
	{name: "callbacks that grow the stack", build: plainHost, work: "callback", rooted: 99.5,
		must: []string{"native_call_back", "main.deep", "runtime.morestack", "main.growInCallback.func1"}},
	{name: "Go and C five deep", build: plainHost, work: "nested", rooted: 99.5,
		must: []string{"native_nest", "main.goNest", "crosscall2"}},
	{name: "C++", build: plainHost, work: "cxx", rooted: 99.5, must: []string{"cxx_work"}},
	{name: "tiny calls", build: plainHost, work: "tiny", rooted: 99.5, must: []string{"runtime.cgocall"}},
	{name: "stripped PIE", build: strippedHost, work: "mixed", rooted: 99, must: []string{"main.deep", "runtime.morestack"}},
	{name: "C archive", build: archiveHost, work: "mixed", rooted: 99, must: []string{"main.deep", "runtime.morestack"}},
	{name: "shared library loaded later", build: sharedHost, work: "mixed", rooted: 98.5,
		must: []string{"main.deep", "runtime.morestack"}},
	{name: "wasmtime (Rust)", build: wasmHost, work: "wasm", rooted: 99.5, must: []string{"runtime.asmcgocall"}},
	{name: "wazero (generated code)", build: wazeroHost, work: "wazero", rooted: 99,
		must: []string{"github.com/tetratelabs/wazero/internal/engine/wazevo.(*callEngine).callWithStack", "main.hostWork"}},
	{name: "wazero (a loop without calls)", build: wazeroHost, work: "loop", rooted: 99, must: []string{"main.work"}},
	{name: "Go 1.25", build: olderHost("go1.25.4"), work: "mixed", rooted: 99, must: []string{"main.deep", "runtime.morestack"}},
	{name: "Go 1.24", build: olderHost("go1.24.9"), work: "mixed", rooted: 99, must: []string{"main.deep", "runtime.morestack"}},
	// racecall keeps the goroutine's SP in a register only: stacks through the detector's C code end there, and say so.
	{name: "race detector", build: raceHost, work: "pure", rooted: 30, must: []string{"main.deep"}},
}

const enough = 300 // samples, to say anything

// A busy machine gives a program less time, and a late sample has several ticks.
var seconds = []string{"4", "16", "40"}

var table []string

func TestStacks(t *testing.T) {
	b := newBuilder(t)
	for _, h := range hosts {
		t.Run(h.name, func(t *testing.T) { h.run(t, b) })
	}
	fmt.Printf("%-30s %8s %8s %9s %6s %9s %7s  %s\n", "host", "samples", "rooted", "returns", "bad", "neighbours", "wrong",
		"truncated")
	fmt.Println(strings.Join(table, "\n"))
}

func (h host) run(t *testing.T, b *builder) {
	program := h.build(b.for_(t))
	path := filepath.Join(b.directory, strings.ReplaceAll(h.name, " ", "-")+".samples")
	if program == "" {
		t.Skip("the program cannot be built here")
	}
	samples, err := record(b, program, h.work, path)
	if err != nil {
		t.Fatal(err)
	}
	symbols, err := trace.Load(samples)
	if err != nil {
		t.Fatal(err)
	}
	v := trace.Check(samples, symbols)
	h.check(t, v)
	missing := h.missing(samples, symbols)
	if len(missing) > 0 {
		t.Errorf("no stack goes through %v", missing)
	}
}

func record(b *builder, program, work, path string) (samples *trace.Trace, err error) {
	for _, duration := range seconds {
		command := b.command(program, work, duration, "1000", path)
		if out, err := command.CombinedOutput(); err != nil {
			return nil, fmt.Errorf("%v: %v\n%s", command, err, out)
		}
		if samples, err = trace.Read(path); err != nil || len(samples.Samples) >= enough {
			break
		}
	}
	return samples, err
}

func (h host) check(t *testing.T, v *trace.Verdict) {
	rooted := 100 * float64(v.Rooted) / float64(max(v.Samples, 1))
	table = append(table, fmt.Sprintf("%-30s %8d %7.2f%% %9d %6d %9d %7d  %v", h.name, v.Samples, rooted, v.Returns,
		v.BadReturns, v.Direct, v.Strangers, v.Truncated))
	for what, counts := range map[string]map[string]int{"truncated": v.Sites, "ends at": v.FalseRoots, "wrong": v.Wrong} {
		for _, line := range trace.Top(counts, 5) {
			t.Logf("%s: %s", what, line)
		}
	}
	if v.Samples < enough {
		t.Errorf("%d samples: too few to say anything", v.Samples)
	}
	if rooted < h.rooted {
		t.Errorf("%.2f%% of the stacks reach a root, wanted %.2f%%", rooted, h.rooted)
	}
	if v.BadReturns > 0 {
		t.Errorf("%d return addresses do not follow a call", v.BadReturns)
	}
	// One in ten thousand: code that moves the stack by hand while the table cannot say so.
	if v.Strangers*10000 > v.Direct {
		t.Errorf("%d of %d callers call something else than the frame below", v.Strangers, v.Direct)
	}
}

// missing are the functions of h.must that no stack goes through.
func (h host) missing(samples *trace.Trace, symbols *trace.Symbols) []string {
	seen := map[string]bool{}
	for _, sample := range samples.Samples {
		for _, address := range sample.Frames[1:] {
			seen[strings.TrimSuffix(symbols.Name(address-1), ".abi0")] = true
		}
	}
	var missing []string
	for _, name := range h.must {
		if !seen[name] {
			missing = append(missing, name)
		}
	}
	return missing
}
