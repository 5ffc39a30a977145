// SPDX-License-Identifier: MIT OR Apache-2.0

//go:build cgo && linux

package onstack

/*
#include <stdlib.h>
#include <time.h>
#include "bridge.h"
*/
import "C"

import (
	"bytes"
	"runtime"
	"runtime/cgo"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"
)

// How often the waiting samples move into the profile. A new thread that no process tick meets, and a newer owner of the
// signal, wait for the next poll. An idle program is polled less often: where a processor is idle, the runtime takes some 150 to
// 400 us of CPU time to run a poll.
const (
	pollBusy  = 20 * time.Millisecond
	pollIdle  = 50 * time.Millisecond // once it is idle, and twice as long each time, up to
	pollRest  = 200 * time.Millisecond
	busyAbove = 500 * time.Microsecond // of CPU time since the last poll; the poll itself takes less
)

// inLibrary says whether Go is a c-archive or c-shared library. There the runtime installs its handler over ours with each
// profile of its own (runtime/signal_unix.go, setProcessCPUProfilerTimer), and counts our ticks as its own until the next
// look. A goroutine looks too late where all processors are busy, so the core's thread does it there.
var inLibrary = sync.OnceValue(func() bool {
	if info, known := debug.ReadBuildInfo(); known {
		for _, setting := range info.Settings {
			if setting.Key == "-buildmode" {
				return setting.Value == "c-archive" || setting.Value == "c-shared"
			}
		}
	}
	return false
})

// labelBytes is the room for labels in each sample: a request id and two or three names.
const labelBytes = 256

// session is a session of the core and the goroutine that empties its buffer. It makes no thread but in a library, and for
// ClockWall: looks by polls would be fewer than are asked for.
type session struct {
	quit         chan struct{}
	done         chan struct{}
	ending       sync.Once
	handle       *C.onstack_session // written under mu; nil once stopped
	mu           sync.RWMutex       // read: the handle is in use; write: it is going away
	final        Stats              // once stopped
	finalModules []ModuleStats      // once stopped
	finalText    []byte             // once stopped
	stopped      time.Time
	started      time.Time
	labels       bool          // samples carry goroutine labels
	heap         bool          // samples are of allocations
	rest         time.Duration // between two polls of an idle program, at most
	polls        atomic.Int64  // so far
}

// startSession begins sampling into table, which must outlive the session.
func startSession(c *config, table *C.onstack_profile) (*session, error) {
	var options C.onstack_options
	if err := coreError("start", int(C.onstackgo_options(&options, table))); err != nil {
		return nil, err
	}
	options.frequency = C.uint32_t(c.rate)
	options.max_depth = C.uint32_t(c.maxDepth)
	options.buffer_bytes = C.uint32_t(c.bufferBytes)
	options.signal = C.int32_t(c.signal)
	options.clock = C.onstack_clock(c.clock)
	options.heap_interval = C.uint32_t(c.interval)
	options.interpreters = C.onstack_switch(c.interpreters)
	if c.interpreters == C.ONSTACK_ON {
		if err := coreError("start", int(C.onstack_interpreters_register())); err != nil {
			return nil, err
		}
	}
	if inLibrary() || Clock(c.clock) == ClockWall {
		options.threads = C.ONSTACK_ON
	}
	labels := c.goroutineLabels != 2 && goroutineLabels()
	if labels {
		options.label_bytes = labelBytes
	}
	if c.unwinder != "" {
		name := C.CString(c.unwinder)
		defer C.free(unsafe.Pointer(name))
		options.unwinder = name
	}
	s := &session{quit: make(chan struct{}), done: make(chan struct{}), started: time.Now(), labels: labels,
		heap: c.clock == ClockHeap, rest: pollIdle}
	// Other clocks sample threads that only wait, too, and an interpreter's functions are named before they are gone.
	if onlyWork := c.clock == 0 || c.clock == ClockCPU || s.heap; onlyWork && c.interpreters != C.ONSTACK_ON {
		s.rest = pollRest
	}
	code := int(C.onstack_session_start(&options, &s.handle))
	if refused := code == -int(syscall.EAGAIN) || code == -int(syscall.EPERM); refused && !inLibrary() && options.threads == C.ONSTACK_ON {
		options.threads = C.ONSTACK_OFF // polls look less often, and are better than nothing
		code = int(C.onstack_session_start(&options, &s.handle))
	}
	if code < 0 {
		return nil, optionError(code, C.GoString(C.onstack_options_fault(&options)))
	}
	go s.drain()
	return s, nil
}

// drain moves samples into the profile until the session ends. The poll does the core's housekeeping too.
func (s *session) drain() {
	defer close(s.done)
	s.poll() // at once: the unwind tables of large objects, this program's for one, are made by the first
	timer := time.NewTimer(pollBusy)
	defer timer.Stop()
	idle := pollIdle
	for then := processCPU(); ; {
		select {
		case <-s.quit:
			return
		case <-timer.C:
			s.poll()
		}
		pause, now := idle, processCPU()
		idle = min(2*idle, s.rest)
		if now-then > busyAbove {
			pause, idle = pollBusy, pollIdle
		}
		then = now
		timer.Reset(pause)
	}
}

// processCPU is the CPU time of all threads. Not by cgo: a sample of native code, even of this look, is a reason to read the
// program's debug information, some 50 ms at the first profile.
func processCPU() time.Duration {
	var now syscall.Timespec
	const ofProcess = C.CLOCK_PROCESS_CPUTIME_ID
	if _, _, err := syscall.Syscall(syscall.SYS_CLOCK_GETTIME, ofProcess, uintptr(unsafe.Pointer(&now)), 0); err != 0 {
		return 0
	}
	return time.Duration(now.Nano())
}

// poll brings the profile up to date. Errors mean that the session is over, and stop says so.
func (s *session) poll() {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.handle != nil {
		s.polls.Add(1)
		C.onstack_session_poll(s.handle, 0)
	}
}

// stop ends the session and gives its memory back; only the numbers stay. The second call returns ErrStopped, once the
// first is through.
func (s *session) stop() error {
	err := coreError("stop", int(ErrStopped))
	s.ending.Do(func() { err = s.end() })
	return err
}

func (s *session) end() error {
	close(s.quit)
	<-s.done
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stopped = time.Now()
	err := coreError("stop", int(C.onstack_session_stop(s.handle)))
	s.final = s.coreStats()
	s.finalModules = s.coreModules()
	s.finalText = s.coreText()
	if freed := coreError("stop", int(C.onstack_session_free(s.handle))); freed != nil {
		return freed
	}
	s.handle = nil
	return err
}

// over says whether the core has let go of everything that the session used.
func (s *session) over() bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.handle == nil
}

// span is the time that the samples cover so far.
func (s *session) span() (start time.Time, length time.Duration) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.handle == nil {
		return s.started, s.stopped.Sub(s.started)
	}
	return s.started, time.Since(s.started)
}

// restartSpan begins a new span, after the samples so far were forgotten.
func (s *session) restartSpan() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.handle != nil {
		s.started = time.Now()
	}
}

// text is the statistics as the core says them, for the comments of a profile.
func (s *session) text() []byte {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.handle == nil {
		return s.finalText
	}
	return s.coreText()
}

// coreText needs the handle: under mu. Where memory is short there is none: a profile is worth as much without.
func (s *session) coreText() []byte {
	var out bytes.Buffer
	handle := cgo.NewHandle(&out)
	defer handle.Delete()
	if C.onstackgo_stats_text(s.handle, C.uintptr_t(handle)) < 0 {
		return nil
	}
	return out.Bytes()
}

func (s *session) stats() Stats {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.handle == nil {
		return s.final
	}
	return s.coreStats()
}

// coreStats needs the handle: under mu.
func (s *session) coreStats() Stats {
	c := C.onstack_stats{size: C.sizeof_onstack_stats}
	if C.onstack_session_stats(s.handle, &c) < 0 {
		return Stats{}
	}
	stats := Stats{
		Running:       c.running != 0,
		Period:        Period{Amount: uint64(c.period), Unit: Unit(c.period_unit)},
		CPU:           time.Duration(c.cpu_ns),
		HeapUntracked: uint64(c.heap_untracked),
		HeapReused:    uint64(c.heap_reused),
		HeapInUse:     uint64(c.heap_in_use),
		WallRounds:    uint64(c.wall_rounds),
		WallLooks:     uint64(c.wall_looks),
		WallMoved:     uint64(c.wall_moved),
		WallRefused:   uint64(c.wall_refused),

		Interpreted:          uint64(c.interpreted),
		InterpretedCut:       uint64(c.interpreted_cut),
		InterpretedUnmatched: uint64(c.interpreted_unmatched),
		InterpretedUnnamed:   uint64(c.interpreted_unnamed),

		Ticks:           uint64(c.ticks),
		Recorded:        uint64(c.recorded),
		Samples:         uint64(c.samples),
		Delivered:       uint64(c.delivered),
		Unattributed:    uint64(c.unattributed),
		DroppedRingFull: uint64(c.dropped_ring_full),
		DroppedNoStack:  uint64(c.dropped_no_stack),
		DroppedUnwinder: uint64(c.dropped_unwinder),
		DroppedStopping: uint64(c.dropped_stopping),
		Blocked:         uint64(c.blocked),
		DroppedSink:     uint64(c.dropped_sink),
		Truncated:       uint64(c.truncated),
		ThreadsSeen:     uint64(c.threads_seen),
		ThreadsArmed:    uint64(c.threads_armed),
		ThreadsUnarmed:  uint64(c.threads_unarmed),
		Forwarded:       uint64(c.forwarded),
		ForwardedTimer:  uint64(c.forwarded_timer),
		Swallowed:       uint64(c.swallowed),
		Late:            uint64(c.late),
		Looped:          uint64(c.looped),
		GoroutineLabels: s.labels,
		Unwinder:        C.GoString(c.unwinder),
		Reader:          C.GoString(c.reader),
		Clock:           C.GoString(c.clock),
	}
	for reason := range stats.TruncatedBy {
		stats.TruncatedBy[reason] = uint64(c.truncated_by[reason])
	}
	return stats
}

// Modules tells for each program and library that samples were in how its frames led to their callers, those that lost
// most first: it says which one to build in another way. After Stop the numbers stay.
func (p *Profile) Modules() []ModuleStats {
	defer runtime.KeepAlive(p)
	return p.session.modules()
}

func (s *session) modules() []ModuleStats {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.handle == nil {
		return s.finalModules
	}
	return s.coreModules()
}

// coreModules needs the handle: under mu. What cannot be had (no memory) is left out.
func (s *session) coreModules() []ModuleStats {
	var modules []ModuleStats
	handle := cgo.NewHandle(&modules)
	defer handle.Delete()
	C.onstackgo_modules(s.handle, C.uintptr_t(handle))
	byLoss(modules)
	return modules
}

// advice is the core's, "" where it has none.
func advice(key string) string {
	cKey := C.CString(key)
	defer C.free(unsafe.Pointer(cKey))
	if text := C.onstack_advice(cKey); text != nil {
		return optionNames.Replace(C.GoString(text))
	}
	return ""
}

//export onstackgoModule
func onstackgoModule(handle C.uintptr_t, c *C.onstack_module_stats) {
	modules := cgo.Handle(handle).Value().(*[]ModuleStats)
	m := ModuleStats{
		Path:         C.GoString(c.path),
		Rules:        uint64(c.rules),
		Go:           uint64(c._go),
		FramePointer: uint64(c.frame_pointer),
		Ended:        uint64(c.ended),
		Lost:         uint64(c.lost),
	}
	for reason := range m.LostBy {
		m.LostBy[reason] = uint64(c.lost_by[reason])
	}
	*modules = append(*modules, m)
}
