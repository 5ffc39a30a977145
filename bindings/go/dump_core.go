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
	"runtime/cgo"
	"unsafe"

	"github.com/onstack-profiler/onstack/bindings/go/internal/nativelines"
)

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
