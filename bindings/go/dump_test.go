// SPDX-License-Identifier: MIT OR Apache-2.0

//go:build cgo && linux

package onstack_test

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	onstack "github.com/onstack-profiler/onstack/bindings/go"
	"github.com/onstack-profiler/onstack/bindings/go/internal/pprofcheck"
	"github.com/onstack-profiler/onstack/bindings/go/internal/testnative"
)

//go:noinline
func sleepsInC(done chan<- bool) {
	testnative.Sleep(1500 * time.Millisecond)
	done <- true
}

func sleeper() (wait func()) {
	done := make(chan bool)
	go sleepsInC(done)
	time.Sleep(100 * time.Millisecond)
	return func() { <-done }
}

// stackOf is the group of a dump that has the function: its threads' lines, then its frames.
func stackOf(dump, function string) string {
	for _, group := range strings.Split(dump, "\n\n") {
		if strings.Contains(group, function) {
			return group
		}
	}
	return ""
}

func TestDumpShowsGoAboveC(t *testing.T) {
	defer sleeper()()
	var out bytes.Buffer
	if err := onstack.Dump(&out); err != nil {
		t.Fatal(err)
	}
	group := stackOf(out.String(), "testnative_sleep")
	for _, part := range []string{"blocked wait=", "go_test.sleepsInC at ", "dump_test.go:", "runtime.goexit"} {
		if !strings.Contains(group, part) {
			t.Errorf("%q is not in\n%s", part, group)
		}
	}
	if asking := stackOf(out.String(), "TestDumpShowsGoAboveC"); !strings.Contains(asking, "go.Dump at ") {
		t.Errorf("the caller is not in\n%s", out.String())
	}
}

func TestDumpProfile(t *testing.T) {
	defer sleeper()()
	var out bytes.Buffer
	if err := onstack.DumpProfile(&out); err != nil {
		t.Fatal(err)
	}
	p, err := pprofcheck.Parse(out.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	if len(p.SampleType) != 1 || p.SampleType[0].Type != "threads" || !strings.HasPrefix(strings.Join(p.Comments, "\n"), "onstack.dump without_stack=") {
		t.Errorf("%v %q", p.SampleType, p.Comments)
	}
	var found bool
	for _, sample := range p.Sample {
		if sample.Value[0] != 1 {
			t.Errorf("%d threads in a sample", sample.Value[0])
		}
		all := names(sample)
		found = found || strings.Contains(strings.Join(all, " "), "testnative_sleep") && sample.Label["state"][0] == "blocked"
	}
	if !found {
		t.Errorf("the thread that sleeps is not in\n%v", p)
	}
}

func TestDumpRefused(t *testing.T) {
	for range 8 {
		start(t)
	}
	if err := onstack.Dump(io.Discard); !errors.Is(err, onstack.ErrSessions) {
		t.Error(err)
	}
	if err := onstack.DumpProfile(io.Discard); !errors.Is(err, onstack.ErrSessions) {
		t.Error(err)
	}
}
