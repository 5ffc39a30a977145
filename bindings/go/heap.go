// SPDX-License-Identifier: MIT OR Apache-2.0

package onstack

import (
	"bytes"
	"fmt"
	"io"
	"runtime/pprof"
	"strings"
	"time"

	"github.com/google/pprof/profile"
)

// noNativeHeap is no error: a service may serve its heap profile whether it watches native memory or not.
const noNativeHeap = "onstack.heap native=none (no profile with ClockHeap is open: this is Go's heap alone)"

type heapQuestion struct {
	age time.Duration
}

// HeapOption is an option of WriteHeapProfile.
type HeapOption func(*heapQuestion)

// WithHeapAge counts native blocks as in use only if they were allocated that long ago or earlier: what a service keeps, and
// not what its last requests need. Go's part is as without it, since Go's heap profile has no times.
func WithHeapAge(age time.Duration) HeapOption {
	return func(asked *heapQuestion) { asked.age = age }
}

// WriteHeapProfile writes Go's heap and the native one as one compressed pprof profile: inuse_space (the default),
// inuse_objects, alloc_space, alloc_objects. The label "heap" tells "go" from "native". The native part is that of the
// profile with ClockHeap, running or stopped, that was started last and is not closed. Without one the profile is Go's heap alone,
// and the comment "onstack.heap native=none" says so.
//
// Go's part is runtime/pprof's: as of its last garbage collection. The native part has goroutines above native frames.
// The comments have the lines of WriteMemory. Errors: those of w, and of a profile that cannot be read back.
func WriteHeapProfile(w io.Writer, opts ...HeapOption) error {
	var asked heapQuestion
	for _, opt := range opts {
		opt(&asked)
	}
	var raw bytes.Buffer
	if err := pprof.Lookup("heap").WriteTo(&raw, 0); err != nil {
		return fmt.Errorf("onstack: Go's heap profile: %w", err)
	}
	merged, err := labelled(&raw, "go")
	if err != nil {
		return err
	}
	raw.Reset()
	there, err := writeNativeHeap(&raw, asked.age)
	if err != nil {
		return err
	}
	if !there {
		merged.Comments = append(merged.Comments, noNativeHeap)
		if lines, err := memory(); err == nil {
			merged.Comments = append(merged.Comments, strings.Split(strings.TrimSpace(string(lines)), "\n")...)
		}
		return write(merged, w)
	}
	native, err := labelled(&raw, "native")
	if err != nil {
		return err
	}
	dropped := native.DropFrames
	if merged, err = profile.Merge([]*profile.Profile{merged, native}); err != nil {
		return fmt.Errorf("onstack: Go's heap profile and the native one: %w", err)
	}
	merged.DropFrames = dropped // what allocators are called; Go's profile begins at their callers
	return write(merged, w)
}

// write: a heap profile is of a moment (core/profile/report.c).
func write(merged *profile.Profile, w io.Writer) error {
	merged.TimeNanos, merged.DurationNanos = time.Now().UnixNano(), 0
	merged.DefaultSampleType = "inuse_space"
	return merged.Write(w)
}

// labelled reads a profile and says on each sample whose heap it is.
func labelled(from io.Reader, heap string) (*profile.Profile, error) {
	parsed, err := profile.Parse(from)
	if err != nil {
		return nil, fmt.Errorf("onstack: the %s heap's profile: %w", heap, err)
	}
	for _, sample := range parsed.Sample {
		if sample.Label == nil {
			sample.Label = map[string][]string{}
		}
		sample.Label["heap"] = []string{heap}
	}
	return parsed, nil
}
