// SPDX-License-Identifier: MIT OR Apache-2.0

// Package heaps merges heap profiles for onstack.WriteHeapProfile. It is used for its side effect.
package heaps

import (
	"fmt"
	"io"
	"time"

	"github.com/google/pprof/profile"

	"github.com/onstack-profiler/onstack/bindings/go/internal/optional"
)

func init() { optional.MergeHeaps = merge }

func merge(w io.Writer, goHeap, native []byte, comments []string) error {
	merged, err := labelled(goHeap, "go")
	if err != nil {
		return err
	}
	if native != nil {
		other, err := labelled(native, "native")
		if err != nil {
			return err
		}
		if merged, err = profile.Merge([]*profile.Profile{merged, other}); err != nil {
			return fmt.Errorf("onstack: Go's heap profile and the native one: %w", err)
		}
		merged.DropFrames = other.DropFrames // what allocators are called; Go's profile begins at their callers
	}
	merged.Comments = append(merged.Comments, comments...)
	// A heap profile is of a moment (core/profile/report.c).
	merged.TimeNanos, merged.DurationNanos = time.Now().UnixNano(), 0
	merged.DefaultSampleType = "inuse_space"
	return merged.Write(w)
}

// labelled reads a profile and says on each sample whose heap it is.
func labelled(raw []byte, heap string) (*profile.Profile, error) {
	parsed, err := profile.ParseData(raw)
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
