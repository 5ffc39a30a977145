// SPDX-License-Identifier: MIT OR Apache-2.0

//go:build cgo && linux

package onstack

// #include "bridge.h"
import "C"

import (
	"bytes"
	"context"
	"reflect"
	"runtime"
	"runtime/pprof"
	"sync"
	"unsafe"
)

// The runtime promises other packages to keep these two (go.dev/issue/67401).

//go:linkname getProfLabel runtime/pprof.runtime_getProfLabel
func getProfLabel() unsafe.Pointer

//go:linkname setProfLabel runtime/pprof.runtime_setProfLabel
func setProfLabel(labels unsafe.Pointer)

// goroutineLabels turns the reading of goroutine labels on, once in the process, and says whether it works. Go does not
// promise where a goroutine keeps them: they are looked for with labels of our own, and off where what is read is not
// what was set.
var goroutineLabels = sync.OnceValue(func() bool {
	text := C.uint64_t(reflect.ValueOf(runtime.GC).Pointer())
	offset, ok := findLabels(text)
	return ok && C.onstack_go_labels_use(text, offset) == 0
})

// findLabels asks twice: a word that equals one label set by accident does not equal the next.
func findLabels(text C.uint64_t) (offset C.uint32_t, ok bool) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer setProfLabel(getProfLabel())
	for round, labels := range [][]string{{"onstack", "α"}, {"one", "1", "two", ""}} {
		pprof.SetGoroutineLabels(pprof.WithLabels(context.Background(), pprof.Labels(labels...)))
		found := C.onstack_go_labels_find(text, C.uint64_t(uintptr(getProfLabel())))
		if found < 0 || round > 0 && C.uint32_t(found) != offset || !readsBack(text, C.uint32_t(found), labels) {
			return 0, false
		}
		offset = C.uint32_t(found)
	}
	return offset, true
}

// readsBack says whether the core reads these keys and values, which are sorted, as the runtime's are.
func readsBack(text C.uint64_t, offset C.uint32_t, labels []string) bool {
	var got [64]byte
	n := C.onstack_go_labels_read(text, offset, (*C.char)(unsafe.Pointer(&got[0])), C.uint32_t(len(got)))
	var want []byte
	for _, text := range labels {
		want = append(append(want, text...), 0)
	}
	return n >= 0 && bytes.Equal(got[:n], want)
}
