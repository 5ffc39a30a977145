// SPDX-License-Identifier: MIT OR Apache-2.0

//go:build cgo && linux

package onstack

/*
#include <stdlib.h>
#include "bridge.h"
*/
import "C"

import (
	"runtime"
	"runtime/cgo"
	"unsafe"
)

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
