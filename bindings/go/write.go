// SPDX-License-Identifier: MIT OR Apache-2.0

//go:build cgo && linux

package onstack

// #include "bridge.h"
import "C"

import (
	"bytes"
	"fmt"
	"io"
	"runtime"
	"runtime/cgo"
	"time"
	"unsafe"

	"github.com/google/pprof/profile"
)

// WriteTo writes the profile as gzip-compressed pprof, for `go tool pprof` and profile servers. It may be called while
// the profile runs, and then tells what has been sampled so far. The number is of bytes written.
//
// Errors: ErrClosed, and those of w. Nothing is written when the profile itself cannot be made.
func (p *Profile) WriteTo(w io.Writer) (int64, error) {
	defer runtime.KeepAlive(p)
	raw, err := p.render(C.ONSTACKGO_PPROF)
	if err != nil {
		return 0, err
	}
	return p.finish(raw, w)
}

// TakeTo writes as WriteTo does and begins anew: the next TakeTo tells what came since. Each sample is in exactly one of
// the profiles that are taken, so they add up; where w fails its samples are lost. Context and errors are WriteTo's.
func (p *Profile) TakeTo(w io.Writer) (int64, error) {
	defer runtime.KeepAlive(p)
	raw, err := p.renderTaken()
	if err != nil {
		return 0, err
	}
	return p.finish(raw, w)
}

// finish turns what the core wrote into what people read.
func (s *profileState) finish(raw []byte, w io.Writer) (int64, error) {
	parsed, err := profile.ParseUncompressed(raw)
	if err == nil {
		err = parsed.CheckValid() // pprof writes what it would not read
	}
	if err != nil {
		return 0, fmt.Errorf("onstack: the core wrote a profile that cannot be read: %w", err)
	}
	if parsed.Period == 0 { // the core reads it off the samples, and there are none
		parsed.Period = s.session.stats().Period.Nanoseconds()
	}
	demangleProfile(parsed)
	parsed.Comments = append(parsed.Comments, comments(s.session.stats(), s.session.modules())...)
	counted := &countingWriter{w: w}
	err = parsed.Write(counted)
	return counted.n, err
}

// WriteFolded writes one line for each stack, "thread;main;f;g 12": root first, the number in samples with their
// weight. It is the input of flame graph tools. Context and errors are WriteTo's.
func (p *Profile) WriteFolded(w io.Writer) error {
	defer runtime.KeepAlive(p)
	raw, err := p.render(C.ONSTACKGO_FOLDED)
	if err != nil {
		return err
	}
	return demangleFolded(raw, w)
}

// render collects what the core writes.
func (s *profileState) render(form C.int) ([]byte, error) {
	s.session.poll()
	start, length := s.session.span()
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.table == nil {
		return nil, ErrClosed
	}
	return writeTable(s.table, form, start, length)
}

// renderTaken takes the samples out of the profile and collects what the core writes of them.
func (s *profileState) renderTaken() ([]byte, error) {
	s.session.poll()
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.table == nil {
		return nil, ErrClosed
	}
	var taken *C.onstack_profile
	start, length := s.session.span()
	if err := coreError("take", int(C.onstack_profile_take(s.table, &taken))); err != nil {
		return nil, err
	}
	defer C.onstack_profile_free(taken)
	s.session.restartSpan()
	return writeTable(taken, C.ONSTACKGO_PPROF, start, length)
}

func writeTable(table *C.onstack_profile, form C.int, start time.Time, length time.Duration) ([]byte, error) {
	var out bytes.Buffer
	handle := cgo.NewHandle(&out)
	defer handle.Delete()
	code := C.onstackgo_write(table, form, C.int64_t(start.UnixNano()), C.int64_t(length.Nanoseconds()),
		C.uintptr_t(handle))
	if err := coreError("write", int(code)); err != nil {
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

type countingWriter struct {
	w io.Writer
	n int64
}

func (c *countingWriter) Write(b []byte) (int, error) {
	n, err := c.w.Write(b)
	c.n += int64(n)
	return n, err
}
