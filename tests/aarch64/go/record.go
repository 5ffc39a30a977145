// SPDX-License-Identifier: MIT OR Apache-2.0

//go:build record

// This form of the program records samples for tests/aarch64/fixtures instead of judging them.
package main

/*
#cgo CFLAGS: -std=gnu11 -I../../../core/include -I../../../core -I../fixtures
#include <stdlib.h>
#include "record.h"
#include "native.h"
*/
import "C"

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"time"
	"unsafe"
)

// quotas: at most so many samples of each kind, by a function that their stacks hold; the last takes the rest.
var quotas = []struct {
	holds string
	left  int
}{{"runtime.morestack;", 90}, {"main.callNothing;", 160}, {"main.callBridge;", 60}, {"", 100}}

func takeQuota(s string) bool {
	for i := range quotas {
		if strings.Contains(s, quotas[i].holds) {
			quotas[i].left--
			return quotas[i].left >= 0
		}
	}
	return false
}

// names gives the Go functions of a stack, leaf first.
func names(frames []C.uint64_t) string {
	var b strings.Builder
	for i, frame := range frames {
		pc := uintptr(frame)
		if i > 0 {
			pc--
		}
		if f := runtime.FuncForPC(pc); f != nil {
			b.WriteString(f.Name() + ";")
		}
	}
	return b.String()
}

// believable: by what the program itself knows of its stacks.
func believable(s string) bool {
	if strings.Contains(s, "main.") {
		return strings.HasSuffix(s, "main.onGoroutine.func1;runtime.goexit;") ||
			strings.HasSuffix(s, "runtime.main;runtime.goexit;")
	}
	for _, root := range []string{"runtime.goexit;", "runtime.mcall;", "runtime.mstart;", "runtime.gopreempt_m;runtime.morestack;"} {
		if strings.HasSuffix(s, root) {
			return true
		}
	}
	return false
}

func load(d time.Duration) {
	onGoroutine(func() { goOuter(d) })
	onGoroutine(func() { callNative(d / 4) })
	for range 8 {
		onGoroutine(func() { callBridge(2, d/8) })
	}
	for end := time.Now().Add(d); time.Now().Before(end); {
		onGoroutine(growOnce)
	}
	onGoroutine(func() {
		for end := time.Now().Add(3 * d); time.Now().Before(end); {
			callNothing(2000)
		}
	})
}

func main() {
	if status := C.record_start(); status != 0 {
		fmt.Println("not ok go/record: start:", status)
		os.Exit(1)
	}
	load(2 * time.Second)
	C.record_stop()
	kept, written, bad, cut := map[string]bool{}, 0, 0, 0
	var frames [64]C.uint64_t
	for i := range int(C.record_count()) {
		count := int(C.record_frames(C.int(i), &frames[0]))
		if count < 2 {
			cut++
			continue
		}
		kind := fmt.Sprintf("%x %x", frames[0], frames[1])
		if kept[kind] {
			continue
		}
		kept[kind] = true
		stack := names(frames[:count])
		if !believable(stack) {
			bad++
			fmt.Println("   left out:", stack)
		} else if takeQuota(stack) {
			written++
			C.record_keep(C.int(i))
		}
	}
	for i := 0; ; i++ {
		low := C.record_special_at(C.int(i))
		if low == 0 {
			break
		}
		f := runtime.FuncForPC(uintptr(low))
		name := C.CString(f.Name())
		C.record_special(name, C.uint64_t(f.Entry()))
		C.free(unsafe.Pointer(name))
	}
	fmt.Printf("   %d kept, %d left out, %d were cut\n", written, bad, cut)
	C.record_print()
}
