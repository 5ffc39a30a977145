// SPDX-License-Identifier: MIT OR Apache-2.0

//go:build nativeheap

package main

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/pprof/profile"
	onstack "github.com/onstack-profiler/onstack/bindings/go"
	_ "github.com/onstack-profiler/onstack/bindings/go/nativeheap"
)

func init() { heap = heapOf }

// mostUnexplained is a percentage of the resident size.
const mostUnexplained = 5

// heapOf has a heap profile of the host's work, and tells what the resident size consists of while that goes on.
func heapOf(one host) (string, error) {
	p, err := onstack.Start(onstack.WithClock(onstack.ClockHeap))
	if err != nil {
		return "", err
	}
	defer p.Close()
	done := begin(one, time.Now().Add(seconds*time.Second))
	time.Sleep((seconds - 1) * time.Second)
	var written bytes.Buffer
	err = onstack.WriteHeapProfile(&written)
	worked := <-done
	if err := errors.Join(err, worked.err); err != nil {
		return "", err
	}
	parsed, err := profile.ParseData(written.Bytes())
	if err != nil {
		return "", err
	}
	parts, table := map[string]int64{}, ""
	for _, line := range parsed.Comments {
		var size int64
		if rest, is := strings.CutPrefix(line, "onstack.memory bytes="); is {
			number, part, _ := strings.Cut(rest, " of=")
			if _, err := fmt.Sscan(number, &size); err != nil {
				return "", err
			}
			parts[part] = size
			table += fmt.Sprintf("%10.2f MiB  %s\n", float64(size)/(1<<20), part)
		}
	}
	var native, theirs int64
	for _, sample := range parsed.Sample {
		if sample.Label["heap"][0] != "native" {
			continue
		}
		native += sample.Value[3]
		for _, location := range sample.Location {
			if len(location.Line) > 0 && strings.Contains(location.Line[0].Function.Name, one.frame) {
				theirs += sample.Value[3]
				break
			}
		}
	}
	whole := parts["resident"]
	if native == 0 || whole == 0 {
		return "", fmt.Errorf("%d native bytes of %d resident ones", native, whole)
	}
	of := func(part int64) float64 { return 100 * float64(part) / float64(whole) }
	if of(parts["unexplained"]) >= mostUnexplained {
		return "", fmt.Errorf("unexplained: %.1f %%\n%s", of(parts["unexplained"]), table)
	}
	return fmt.Sprintf("%s; %.1f MiB in use in the native profile, %.1f of them by %s; of %.1f MiB resident native %.1f %%, Go's %.1f %%, "+
		"unexplained %.1f %%\n%s", worked.did, float64(native)/(1<<20), float64(theirs)/(1<<20), one.frame, float64(whole)/(1<<20),
		of(native), of(parts["Go, in use"]), of(parts["unexplained"]), table), nil
}
