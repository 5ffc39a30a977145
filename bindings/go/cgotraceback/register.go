// SPDX-License-Identifier: MIT OR Apache-2.0

//go:build cgo && linux && (amd64 || arm64)

package cgotraceback

/*
// Defined in package onstack (cgotraceback.c).
extern void onstackgo_traceback(void *);
extern void onstackgo_context(void *);
extern void onstackgo_symbolizer(void *);
*/
import "C"

import (
	"runtime"
	"unsafe"

	onstack "github.com/onstack-profiler/onstack/bindings/go"
)

func init() {
	runtime.SetCgoTraceback(0, unsafe.Pointer(C.onstackgo_traceback), unsafe.Pointer(C.onstackgo_context),
		unsafe.Pointer(C.onstackgo_symbolizer))
	// An error leaves stacks as they are without this package. There is nobody to tell.
	go func() { _ = onstack.PrepareTraceback() }()
}
