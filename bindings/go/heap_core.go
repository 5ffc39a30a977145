// SPDX-License-Identifier: MIT OR Apache-2.0

//go:build cgo && linux

package onstack

import (
	"errors"
	"io"
	"slices"
	"sync"
	"time"
)

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
