// SPDX-License-Identifier: MIT OR Apache-2.0

package main

import (
	"strings"
	"testing"
	"time"

	"github.com/bytecodealliance/wasmtime-go/v39"
	"github.com/google/pprof/profile"
)

func TestNativeTimeOfGoroutinesHasItsCallers(t *testing.T) {
	functions := map[string]*profile.Location{}
	for name, file := range map[string]string{
		"malloc": "malloc.c", "wasm": "compile.rs", "runtime.asmcgocall": "asm_amd64.s", "main.f": "main.go", "start_thread": "",
		"threadentry": "", "std::sys::thread::Thread::new::thread_start": "thread.rs",
	} {
		functions[name] = &profile.Location{Line: []profile.Line{{Function: &profile.Function{Name: name, Filename: file}}}}
	}
	p := &profile.Profile{SampleType: []*profile.ValueType{{Type: "cpu"}}}
	for i, stack := range []string{
		"malloc wasm runtime.asmcgocall main.f",              // 1: as it should be
		"main.f",                                             // 2: not native
		"malloc wasm start_thread",                           // 4: a thread of Rust's
		"malloc wasm",                                        // 8: lost its callers
		"malloc threadentry start_thread",                    // 16: a thread of Go's without its callers
		"runtime.asmcgocall threadentry start_thread",        // 32: the runtime itself
		"malloc std::sys::thread::Thread::new::thread_start", // 64: another of Rust's
	} {
		sample := &profile.Sample{Value: []int64{1 << i}}
		for _, name := range strings.Fields(stack) {
			sample.Location = append(sample.Location, functions[name])
		}
		p.Sample = append(p.Sample, sample)
	}
	if c := nativeCallers(p, 0); c != (callers{native: 1 + 8 + 16, withGo: 1}) {
		t.Errorf("%+v", c)
	}
}

func TestOnlyFunctionsCountAsNamed(t *testing.T) {
	library := &profile.Mapping{ID: 1, File: "/usr/lib/libc.so.6"}
	at := func(cpu int64, name string) *profile.Sample {
		location := &profile.Location{Mapping: library, Address: 0x10}
		if name != "" {
			location.Line = []profile.Line{{Function: &profile.Function{Name: name}}, {Function: &profile.Function{Name: "outer"}}}
		}
		return &profile.Sample{Location: []*profile.Location{location}, Value: []int64{1, cpu}}
	}
	p := &profile.Profile{
		SampleType: []*profile.ValueType{{Type: "samples"}, {Type: "cpu"}},
		Sample: []*profile.Sample{
			at(30, "main.f"), at(20, "core::ptr::drop"), at(1, ""), at(2, "libc.so.6+0x16db20"), at(3, "0xff"),
			at(4, "runtime._ExternalCode"), at(5, "runtime._GC"), at(6, "[vdso]"), at(7, "runtime.cgocall"),
		},
	}
	p.Sample[0].Label = map[string][]string{"thread": {"worker"}}
	p.Sample[0].NumLabel = map[string][]int64{"thread_id": {7}}
	p.Sample[1].NumLabel = map[string][]int64{"thread_id": {8}}
	s, err := summarize(p)
	if err != nil {
		t.Fatal(err)
	}
	if s.total != 78 || s.named != 57 || s.boundary != 7 || s.threads != 1 {
		t.Errorf("total %d, named %d, threads %d", s.total, s.named, s.threads)
	}
	if s.top[0] != (flat{"main.f", 30}) || s.top[len(s.top)-1] != (flat{"[libc.so.6]", 1}) {
		t.Errorf("%v", s.top)
	}
	var out strings.Builder
	printSideBySide(&out, s, summary{total: time.Second}, time.Second)
	if !strings.Contains(out.String(), "73.1%           0.0%") {
		t.Error(out.String())
	}
}

func TestModulesDifferAndCompile(t *testing.T) {
	if moduleText(1) == moduleText(2) {
		t.Error("two seeds give one module")
	}
	engine := wasmtime.NewEngine()
	defer engine.Close()
	if err := compile(engine, 1); err != nil {
		t.Error(err)
	}
}
