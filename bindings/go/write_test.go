// SPDX-License-Identifier: MIT OR Apache-2.0

//go:build cgo && linux

package onstack

import (
	"bytes"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/pprof/profile"
	"github.com/onstack-profiler/onstack/bindings/go/internal/demangler"
	_ "github.com/onstack-profiler/onstack/bindings/go/internal/heaps"
	"github.com/onstack-profiler/onstack/bindings/go/internal/pprofcheck"
	"github.com/onstack-profiler/onstack/bindings/go/internal/testburn"
)

// takeMixed is a stopped profile of Go, C, C++ and Rust.
func takeMixed(t *testing.T) *Profile {
	t.Helper()
	p, err := Start(WithRate(500))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	testburn.Mangled(2 * time.Second)
	testburn.Go(300 * time.Millisecond)
	if err := p.Stop(); err != nil {
		t.Fatal(err)
	}
	return p
}

// made is the core's output; raw: with symbols in place of names, and without comments.
func made(t *testing.T, p *Profile, form outputForm, raw bool) []byte {
	t.Helper()
	options := p.session.writeOptions()
	defer releaseOptions(&options)
	if raw {
		releaseOptions(&options)
		options.demangler, options.comments, options.period = nil, nil, 0
	}
	out, err := writeTable(p.table, form, &options)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// rewritten is what google/pprof makes of raw output: names for people, the comments, and a period where there is none.
func rewritten(t *testing.T, p *Profile, raw []byte) *profile.Profile {
	t.Helper()
	parsed, err := pprofcheck.Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	if parsed.Period == 0 {
		parsed.Period = p.Stats().Period.Duration().Nanoseconds()
	}
	for _, function := range parsed.Function {
		if isMangled(function.Name) {
			function.Name = demangler.Name(function.SystemName)
		}
	}
	parsed.Comments = strings.Split(strings.TrimSuffix(string(p.session.text()), "\n"), "\n")
	var out bytes.Buffer
	if err := parsed.Write(&out); err != nil {
		t.Fatal(err)
	}
	if parsed, err = profile.ParseData(out.Bytes()); err != nil {
		t.Fatal(err)
	}
	return parsed
}

func isMangled(name string) bool {
	return strings.HasPrefix(name, "_Z") || strings.HasPrefix(name, "_R") || strings.HasPrefix(name, "__Z")
}

// The core demangles and comments as it writes. Nothing else may differ from what google/pprof makes of the same samples.
func TestWrittenAsPprofWouldRewriteIt(t *testing.T) {
	empty, err := Start()
	if err != nil {
		t.Fatal(err)
	}
	defer empty.Close()
	if err := empty.Stop(); err != nil {
		t.Fatal(err)
	}
	if err := empty.Reset(); err != nil {
		t.Fatal(err)
	}
	for name, p := range map[string]*Profile{"mixed": takeMixed(t), "empty": empty} {
		var out bytes.Buffer
		if _, err := p.WriteTo(&out); err != nil {
			t.Fatal(err)
		}
		got, err := pprofcheck.Parse(out.Bytes())
		if err != nil {
			t.Fatal(err)
		}
		want := rewritten(t, p, made(t, p, pprofForm, true))
		got.TimeNanos, got.DurationNanos = want.TimeNanos, want.DurationNanos // both are now's for a profile that was reset
		if got.String() != want.String() {
			t.Errorf("%s: the core wrote\n%s\nand google/pprof\n%s", name, got, want)
		}
		if g, w := functions(got), functions(want); !slices.Equal(g, w) {
			t.Errorf("%s: functions %q, want %q", name, g, w)
		}
		if name == "mixed" {
			wantNames(t, functions(got))
		}
	}
}

func functions(p *profile.Profile) (all []string) {
	for _, f := range p.Function {
		all = append(all, strings.Join([]string{f.Name, f.SystemName, f.Filename, strconv.FormatInt(f.StartLine, 10)}, "|"))
	}
	slices.Sort(all)
	return all
}

// wantNames fails unless each kind of mangled name is there, with its symbol.
func wantNames(t *testing.T, functions []string) {
	t.Helper()
	for _, want := range []string{
		"testburn::cxx(int, char const*)|_ZN8testburn3cxxEiPKc|",
		"testburn::rust|_ZN8testburn4rust17h0123456789abcdefE|",
		"testburn::rust|_ZN8testburn4rust17hfedcba9876543210E|",
		"testburn::v0|_RNvC8testburn2v0|",
	} {
		if !slices.ContainsFunc(functions, func(have string) bool { return strings.HasPrefix(have, want) }) {
			t.Errorf("%s is not in %q", want, functions)
		}
	}
}

// Stacks of one name for people are one line; each line is there once, and all ticks are.
func TestFoldedByNamesForPeople(t *testing.T) {
	p := takeMixed(t)
	want := map[string]uint64{}
	for line := range strings.Lines(string(made(t, p, foldedForm, true))) {
		stack, ticks := foldedLine(t, line)
		frames := strings.Split(stack, ";")
		for i, frame := range frames {
			if isMangled(frame) {
				frames[i] = strings.ReplaceAll(demangler.Name(frame), ";", ":")
			}
		}
		want[strings.Join(frames, ";")] += ticks
	}
	var out bytes.Buffer
	if err := p.WriteFolded(&out); err != nil {
		t.Fatal(err)
	}
	var merged uint64
	for line := range strings.Lines(out.String()) {
		stack, ticks := foldedLine(t, line)
		if want[stack] != ticks {
			t.Errorf("%s: %d ticks, want %d", stack, ticks, want[stack])
		}
		delete(want, stack)
		if strings.Contains(stack, ";testburn::rust;testburn_caller;testburn_leaf") {
			merged++
		}
	}
	if len(want) > 0 || merged != 1 {
		t.Errorf("missing %v; %d lines of testburn::rust in\n%s", want, merged, out.String())
	}
}

func foldedLine(t *testing.T, line string) (stack string, ticks uint64) {
	t.Helper()
	line = strings.TrimSuffix(line, "\n")
	space := strings.LastIndexByte(line, ' ')
	ticks, err := strconv.ParseUint(line[space+1:], 10, 64)
	if space < 0 || err != nil {
		t.Fatalf("%q is no line of folded stacks", line)
	}
	return line[:space], ticks
}
