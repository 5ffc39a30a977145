// SPDX-License-Identifier: MIT OR Apache-2.0

// Package recorder takes raw samples of the process into a file. The C library is given by CGO_CFLAGS and CGO_LDFLAGS.
package recorder

/*
#include <stdlib.h>
#include "recorder.h"
*/
import "C"

import (
	"fmt"
	"unsafe"
)

// Record samples the process while work runs, and writes the samples to path.
func Record(path string, frequency uint, work func()) error {
	if result := C.recorder_start(C.uint(frequency)); result < 0 {
		return fmt.Errorf("start: %d", int(result))
	}
	work()
	name := C.CString(path)
	defer C.free(unsafe.Pointer(name))
	if result := C.recorder_stop(name); result < 0 {
		return fmt.Errorf("stop: %d", int(result))
	}
	return nil
}
