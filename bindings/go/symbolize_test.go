// SPDX-License-Identifier: MIT OR Apache-2.0

//go:build cgo && linux

package onstack

import (
	"reflect"
	"runtime"
	"testing"

	"github.com/onstack-profiler/onstack/bindings/go/internal/testburn"
)

// Every address of a function with inlined code must get the line that the runtime's own table has for it, the
// addresses where one line's code ends and the next one's begins above all.
func TestGoFramesAreExact(t *testing.T) {
	entry := reflect.ValueOf(testburn.Go).Pointer()
	name := runtime.FuncForPC(entry).Name()
	inlined := 0
	address := entry
	for ; ; address++ {
		frames := goFrames(address)
		if len(frames) == 0 || frames[len(frames)-1].Function != name {
			break
		}
		if len(frames) > 1 {
			inlined++
		}
		file, line := runtime.FuncForPC(address).FileLine(address)
		if frames[0].File != file || frames[0].Line != line {
			t.Errorf("%s+%#x: %s:%d, want %s:%d", name, address-entry, frames[0].File, frames[0].Line, file, line)
		}
	}
	if address-entry < 50 || inlined == 0 {
		t.Errorf("%s: %d bytes, %d of them inlined", name, address-entry, inlined)
	}
}

func TestNativeCodeIsLeftToTheCore(t *testing.T) {
	for _, address := range []uintptr{0, 1, 1 << 40, ^uintptr(0)} {
		if frames := goFrames(address); frames != nil {
			t.Errorf("%#x: %v", address, frames)
		}
	}
}
