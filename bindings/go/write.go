// SPDX-License-Identifier: MIT OR Apache-2.0

//go:build cgo && linux

package onstack

/*
#include <stdlib.h>
#include "bridge.h"
*/
import "C"

import (
	"bytes"
	"io"
	"runtime"
	"runtime/cgo"
	"time"
	"unsafe"

	"github.com/onstack-profiler/onstack/bindings/go/internal/nativelines"
	"github.com/onstack-profiler/onstack/bindings/go/internal/optional"
)

// WriteTo writes the profile as gzip-compressed pprof, for `go tool pprof` and profile servers. It may be called while
// the profile runs, and then tells what has been sampled so far. The number is of bytes written.
//
// Errors: ErrClosed, and those of w. Nothing is written when the profile itself cannot be made.
func (p *Profile) WriteTo(w io.Writer) (int64, error) {
	defer runtime.KeepAlive(p)
	raw, err := p.render(pprofForm)
	if err != nil {
		return 0, err
	}
	return compress(raw, w)
}

// TakeTo writes as WriteTo does and begins anew: the next TakeTo tells what came since. Each sample is in exactly one of
// the profiles that are taken, so they add up; where w fails its samples are lost. Context and errors are WriteTo's.
func (p *Profile) TakeTo(w io.Writer) (int64, error) {
	defer runtime.KeepAlive(p)
	raw, err := p.renderTaken(pprofForm)
	if err != nil {
		return 0, err
	}
	return compress(raw, w)
}

// WriteFolded writes one line for each stack, "thread;main;f;g 12": root first, the number in samples with their
// weight. It is the input of flame graph tools. Context and errors are WriteTo's.
func (p *Profile) WriteFolded(w io.Writer) error {
	defer runtime.KeepAlive(p)
	raw, err := p.render(foldedForm)
	if err != nil {
		return err
	}
	_, err = w.Write(raw)
	return err
}

// outputForm is the form that onstackgo_write writes.
type outputForm C.int

const (
	pprofForm  outputForm = C.ONSTACKGO_PPROF
	foldedForm outputForm = C.ONSTACKGO_FOLDED
)

// render collects what the core writes.
func (s *profileState) render(form outputForm) ([]byte, error) { return s.renderOlder(form, 0) }

// renderOlder does so, of a heap with what has been in use for that long as what is in use.
func (s *profileState) renderOlder(form outputForm, age time.Duration) ([]byte, error) {
	s.session.poll()
	options := s.session.writeOptions()
	options.heap_age_ns = C.uint64_t(max(age, 0))
	defer releaseOptions(&options)
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.table == nil {
		return nil, ErrClosed
	}
	return writeTable(s.table, form, &options)
}

// renderTaken takes the samples out of the profile and collects what the core writes of them.
func (s *profileState) renderTaken(form outputForm) ([]byte, error) {
	s.session.poll()
	options := s.session.writeOptions()
	defer releaseOptions(&options)
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.table == nil {
		return nil, ErrClosed
	}
	var taken *C.onstack_profile
	if err := coreError("take", int(C.onstack_profile_take(s.table, &taken))); err != nil {
		return nil, err
	}
	defer C.onstack_profile_free(taken)
	s.session.restartSpan()
	return writeTable(taken, form, &options)
}

// releaseOptions frees what writeOptions has made.
func releaseOptions(options *C.onstack_write_options) { C.free(unsafe.Pointer(options.comments)) }

// writeOptions are what the session knows of the profile. The caller releases them.
func (s *session) writeOptions() C.onstack_write_options {
	start, length := s.span()
	var kind C.onstack_kind // an empty profile has no other way to know
	comments := s.text()
	if s.heap {
		kind = C.ONSTACK_KIND_ALLOCATION
		if memory, err := s.memoryText(); err == nil { // without /proc there is none
			comments = append(comments[:len(comments):len(comments)], memory...)
		}
	}
	options := namingOptions()
	options.kind = kind
	options.start_time_unix_ns = C.int64_t(start.UnixNano())
	options.duration_ns = C.int64_t(length.Nanoseconds())
	options.period = C.uint64_t(s.stats().Period.Amount)
	options.comments = C.CString(string(comments))
	return options
}

// namingOptions name Go's code and native code.
func namingOptions() C.onstack_write_options {
	options := C.onstack_write_options{
		size:       C.sizeof_onstack_write_options,
		symbolizer: C.onstack_symbolizer(C.onstackgo_on_addresses),
	}
	if optional.Demangle.Load() != nil {
		options.demangler = C.onstack_demangler(C.onstackgo_on_name)
	}
	return options
}

func writeTable(table *C.onstack_profile, form outputForm, options *C.onstack_write_options) ([]byte, error) {
	var out bytes.Buffer
	handle := cgo.NewHandle(&out)
	defer handle.Delete()
	result := C.onstackgo_write(table, C.int(form), options, C.uintptr_t(handle))
	if err := coreError("write", int(result)); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

//export onstackgoCollect
func onstackgoCollect(handle C.uintptr_t, data unsafe.Pointer, length C.size_t) C.int {
	out := cgo.Handle(handle).Value().(*bytes.Buffer)
	out.Write(unsafe.Slice((*byte)(data), int(length)))
	return 0
}

// onstackgoDemangle is called by the core: the name for people into out, and its length; 0 where there is none.
//
//export onstackgoDemangle
func onstackgoDemangle(name, out *C.char, capacity C.size_t) C.size_t {
	demangle := optional.Demangle.Load()
	if demangle == nil {
		return 0
	}
	system := C.GoString(name)
	people := (*demangle)(system)
	if people == system {
		return 0
	}
	return C.size_t(copy(unsafe.Slice((*byte)(unsafe.Pointer(out)), int(capacity)), people))
}

// dump collects what the core writes: the text of a dump.
func dump() ([]byte, error) {
	nativelines.Note()
	var out bytes.Buffer
	handle := cgo.NewHandle(&out)
	defer handle.Delete()
	options := namingOptions()
	err := coreError("dump", int(C.onstackgo_dump(&options, C.uintptr_t(handle))))
	return out.Bytes(), err
}

// dumpProfile collects the pprof form.
func dumpProfile() ([]byte, error) {
	nativelines.Note()
	var table *C.onstack_profile
	if err := coreError("dump", int(C.onstack_profile_new(nil, &table))); err != nil {
		return nil, err
	}
	defer C.onstack_profile_free(table)
	C.onstack_interpreters_register()
	missing := C.onstack_dump_take(table)
	if err := coreError("dump", int(missing)); err != nil {
		return nil, err
	}
	options := namingOptions()
	options.kind = C.ONSTACK_KIND_DUMP
	options.comments = C.CString(dumpComment(int(missing)))
	defer C.free(unsafe.Pointer(options.comments))
	return writeTable(table, pprofForm, &options)
}
