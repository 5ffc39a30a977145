// SPDX-License-Identifier: MIT OR Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"runtime"
	"time"
)

// resident is all and the anonymous memory, in KiB.
func resident() (all, anonymous float64, err error) {
	text, err := os.ReadFile("/proc/self/smaps_rollup")
	if err != nil {
		return 0, 0, err
	}
	for name, place := range map[string]*float64{"\nRss:": &all, "\nAnonymous:": &anonymous} {
		_, rest, _ := bytes.Cut(text, []byte(name))
		if _, err := fmt.Sscan(string(rest), place); err != nil {
			return 0, 0, fmt.Errorf("smaps_rollup has no %q: %w", name, err)
		}
	}
	return all, anonymous, nil
}

// measureMemory is resident memory that a running profiler adds, its garbage included.
func measureMemory(p profiler, asked *options) error {
	burnCPU(50 * time.Millisecond)
	runtime.GC()
	if _, _, err := resident(); err != nil { // its own pages are in before the first reading
		return err
	}
	all, anonymous, err := resident()
	if err != nil {
		return err
	}
	started := time.Now()
	if err := p.start(asked.hz, io.Discard); err != nil {
		return err
	}
	burnCPU(asked.length())
	time.Sleep(time.Until(started.Add(time.Second)))
	allThen, anonymousThen, err := resident()
	if err != nil {
		return err
	}
	if err := p.stop(); err != nil {
		return err
	}
	added, addedAnonymous := allThen-all, anonymousThen-anonymous
	if err := emit("added", "KiB", added); err != nil {
		return err
	}
	if err := emit("anonymous", "KiB", addedAnonymous); err != nil {
		return err
	}
	return emit("file", "KiB", added-addedAnonymous)
}
