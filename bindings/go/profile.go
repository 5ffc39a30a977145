// SPDX-License-Identifier: MIT OR Apache-2.0

//go:build cgo && linux

package onstack

/*
// The handler's code must not touch thread-local storage, which a stack protector does; see core/platform/defs.h.
// The core's debug information would add 0.6 MB to each program (-g0): symbols name its functions without.
#cgo CFLAGS: -O2 -g0 -std=gnu11 -fno-stack-protector -fno-omit-frame-pointer -fno-lto
#cgo LDFLAGS: -ldl -lpthread -lrt
#include "bridge.h"
*/
import "C"

import (
	"runtime"
	"sync"

	"github.com/onstack-profiler/onstack/bindings/go/internal/nativelines"
)

// Profile is a CPU profile, being taken or finished. Its methods may be called from any goroutine.
//
// Close gives its memory back; a Profile that is forgotten is stopped and closed by the garbage collector.
type Profile struct {
	*profileState
}

// profileState is apart from Profile so that the collector's cleanup, which must not keep the Profile alive, can hold
// it.
type profileState struct {
	session *session
	table   *C.onstack_profile // where the samples add up; written under mu, nil once closed
	mu      sync.RWMutex       // read: the table is in use; write: it is going away
}

// Start starts a profile of all threads of the process. Up to eight run at the same time, in the whole process.
//
// Errors: ErrFrequency, ErrOptions, ErrUnwinder, ErrSignal, ErrSessions, ErrUnsupported, or a syscall.Errno; nothing
// is left behind then.
func Start(opts ...Option) (*Profile, error) {
	c, err := newConfig(opts)
	if err != nil {
		return nil, err
	}
	tableOptions := C.onstack_profile_options{
		size:         C.sizeof_onstack_profile_options,
		thread_names: C.onstack_switch(c.threadNames),
		thread_ids:   C.onstack_switch(c.threadIDs),
		max_stacks:   C.uint32_t(c.maxStacks),
	}
	if c.timeline {
		tableOptions.timeline_bytes = C.ONSTACK_TIMELINE_BYTES
	}
	nativelines.Note()
	state := &profileState{}
	if err := coreError("start", int(C.onstack_profile_new(&tableOptions, &state.table))); err != nil {
		return nil, err
	}
	if state.session, err = startSession(c, state.table); err != nil {
		C.onstack_profile_free(state.table)
		return nil, err
	}
	if c.clock == ClockHeap {
		openNativeHeap(state)
	}
	p := &Profile{state}
	runtime.AddCleanup(p, func(state *profileState) { state.close() }, state)
	return p, nil
}

// Stop ends sampling. When it returns, all samples are in the profile, which can be written as often as wanted, and
// no signal, timer or goroutine of it is left. Errors: ErrStopped when it was stopped or closed before.
func (p *Profile) Stop() error {
	defer runtime.KeepAlive(p)
	return p.session.stop()
}

// Close stops the profile if it still runs and gives its memory back. Only Stats may be called afterwards. Errors:
// ErrClosed when it was closed before.
func (p *Profile) Close() error {
	defer runtime.KeepAlive(p)
	return p.close()
}

func (s *profileState) close() error {
	// A session that could not be stopped still writes to the table, which therefore stays.
	if err := s.session.stop(); err != nil && !s.session.over() {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.table == nil {
		return ErrClosed
	}
	closeNativeHeap(s)
	C.onstack_profile_free(s.table)
	s.table = nil
	return nil
}

// Reset forgets the samples so far, so that the next WriteTo tells what came since. Samples that arrive between a
// WriteTo and the Reset after it are lost: use TakeTo where reports are to add up. Errors: ErrClosed.
func (p *Profile) Reset() error {
	defer runtime.KeepAlive(p)
	p.session.poll()
	p.mu.RLock()
	defer p.mu.RUnlock()
	if p.table == nil {
		return ErrClosed
	}
	C.onstack_profile_clear(p.table)
	p.session.restartSpan()
	return nil
}

// Stats returns the profile's counters: of now while it runs, the final ones once it is stopped.
func (p *Profile) Stats() Stats {
	defer runtime.KeepAlive(p)
	return p.session.stats()
}

const unsupportedText = "not available on this processor: it needs x86-64 or arm64"
