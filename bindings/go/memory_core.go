// SPDX-License-Identifier: MIT OR Apache-2.0

//go:build cgo && linux

package onstack

/*
#include "bridge.h"
*/
import "C"

import (
	"bytes"
	"errors"
	"io"
	"runtime/cgo"
	"runtime/metrics"
	"slices"
	"sync"
	"time"
	"unsafe"
)

// What Go says of its own memory (runtime/metrics), by the fields of onstack_runtime_memory. All of it is mapped, and nearly
// all resident; what the runtime has given back to the system is in none.
var goMemory = [...][]string{
	{"/memory/classes/heap/objects:bytes"},
	{"/memory/classes/heap/stacks:bytes"},
	{
		"/memory/classes/metadata/mcache/free:bytes", "/memory/classes/metadata/mcache/inuse:bytes",
		"/memory/classes/metadata/mspan/free:bytes", "/memory/classes/metadata/mspan/inuse:bytes",
		"/memory/classes/metadata/other:bytes", "/memory/classes/other:bytes", "/memory/classes/profiling/buckets:bytes",
	},
	{"/memory/classes/heap/free:bytes", "/memory/classes/heap/unused:bytes"},
}

func readGoMemory() (sums [len(goMemory)]C.uint64_t) {
	for i, names := range goMemory {
		samples := make([]metrics.Sample, len(names))
		for j, name := range names {
			samples[j].Name = name
		}
		metrics.Read(samples)
		for _, sample := range samples {
			if sample.Value.Kind() == metrics.KindUint64 { // an unknown name has another
				sums[i] += C.uint64_t(sample.Value.Uint64())
			}
		}
	}
	return sums
}

// memoryObject lies in Go's heap: its address tells the core where that is.
var memoryObject = make([]byte, 64)

// memoryLines are the account of the process's memory as the core says it; handle nil: without a heap profile.
func memoryLines(handle *C.onstack_session) ([]byte, error) {
	var out bytes.Buffer
	back := cgo.NewHandle(&out)
	defer back.Delete()
	g := readGoMemory()
	object := &memoryObject[0]
	result := C.onstackgo_memory_text(handle, C.uint64_t(uintptr(unsafe.Pointer(object))), g[0], g[1], g[2], g[3], C.uintptr_t(back))
	return out.Bytes(), coreError("memory", int(result))
}

// memoryText is the same with what this session knows.
func (s *session) memoryText() ([]byte, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return memoryLines(s.handle)
}

// memory is the account with the heap profile that runs, if one does.
func memory() ([]byte, error) {
	if state := nativeHeap(); state != nil {
		return state.session.memoryText()
	}
	return memoryLines(nil)
}

// nativeHeaps are the profiles with ClockHeap that are not closed, in the order of their starts.
var nativeHeaps struct {
	sync.Mutex
	open []*profileState
}

func openNativeHeap(state *profileState) {
	nativeHeaps.Lock()
	defer nativeHeaps.Unlock()
	nativeHeaps.open = append(nativeHeaps.open, state)
}

// closeNativeHeap does nothing for a profile of another clock.
func closeNativeHeap(state *profileState) {
	nativeHeaps.Lock()
	defer nativeHeaps.Unlock()
	nativeHeaps.open = slices.DeleteFunc(nativeHeaps.open, func(s *profileState) bool { return s == state })
}

// nativeHeap is the one that was started last; nil: there is none.
func nativeHeap() *profileState {
	nativeHeaps.Lock()
	defer nativeHeaps.Unlock()
	if len(nativeHeaps.open) == 0 {
		return nil
	}
	return nativeHeaps.open[len(nativeHeaps.open)-1]
}

// writeNativeHeap writes its pprof profile; false: there is none. What is younger does not count as in use.
func writeNativeHeap(w io.Writer, age time.Duration) (bool, error) {
	state := nativeHeap()
	if state == nil {
		return false, nil
	}
	raw, err := state.renderOlder(pprofForm, age)
	if errors.Is(err, ErrClosed) { // since
		return false, nil
	}
	if err == nil {
		_, err = w.Write(raw)
	}
	return err == nil, err
}
