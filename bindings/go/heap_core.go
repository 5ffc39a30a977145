// SPDX-License-Identifier: MIT OR Apache-2.0

//go:build cgo && linux

package onstack

import (
	"errors"
	"io"
	"sync/atomic"
	"time"
)

// nativeHeap is the profile with ClockHeap that was started last and is not closed.
var nativeHeap atomic.Pointer[profileState]

// writeNativeHeap writes its pprof profile; false: there is none. What is younger does not count as in use.
func writeNativeHeap(w io.Writer, age time.Duration) (bool, error) {
	state := nativeHeap.Load()
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
