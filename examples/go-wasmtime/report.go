// SPDX-License-Identifier: MIT OR Apache-2.0

package main

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/google/pprof/profile"
)

const (
	topFunctions = 15
	columnWidth  = 58
)

// flat is CPU time by the function that was running.
type flat struct {
	name string
	cpu  time.Duration
}

// summary is what the demo says about one profile.
type summary struct {
	top          []flat
	total, named time.Duration
	boundary     time.Duration // in runtime.cgocall, Go's name for whatever native code was called
	callers      callers
	threads      int // distinct threads that have a name
}

func summarize(p *profile.Profile) (summary, error) {
	cpuIndex := slices.IndexFunc(p.SampleType, func(t *profile.ValueType) bool { return t.Type == "cpu" })
	if cpuIndex < 0 {
		return summary{}, fmt.Errorf("the profile has no CPU time")
	}
	var s summary
	byName := map[string]time.Duration{}
	threads := map[int64]bool{}
	for _, sample := range p.Sample {
		cpu := time.Duration(sample.Value[cpuIndex])
		name := leaf(sample)
		byName[name] += cpu
		s.total += cpu
		if isName(name) {
			s.named += cpu
		}
		if name == "runtime.cgocall" {
			s.boundary += cpu
		}
		if id := sample.NumLabel["thread_id"]; len(id) > 0 && len(sample.Label["thread"]) > 0 {
			threads[id[0]] = true
		}
	}
	s.callers = nativeCallers(p, cpuIndex)
	s.threads = len(threads)
	for name, cpu := range byName {
		s.top = append(s.top, flat{name, cpu})
	}
	slices.SortFunc(s.top, func(a, b flat) int {
		return cmp.Or(cmp.Compare(b.cpu, a.cpu), cmp.Compare(a.name, b.name))
	})
	return s, nil
}

// leaf is the innermost function of a sample; where there is none, the file in brackets, as `go tool pprof` shows it.
func leaf(sample *profile.Sample) string {
	if len(sample.Location) == 0 {
		return "[no stack]"
	}
	location := sample.Location[0]
	if len(location.Line) > 0 && location.Line[0].Function != nil && location.Line[0].Function.Name != "" {
		return location.Line[0].Function.Name
	}
	if location.Mapping != nil && location.Mapping.File != "" {
		return "[" + filepath.Base(location.Mapping.File) + "]"
	}
	return fmt.Sprintf("0x%x", location.Address)
}

// isName says whether a profile attributed the time to a function: not to a file, an address, or Go's stand-ins for
// what it could not see.
func isName(name string) bool {
	switch name {
	case "", "runtime._ExternalCode", "runtime._LostExternalCode", "runtime._System", "runtime._GC",
		"runtime._LostSIGPROFDuringAtomic64", "runtime._VDSO", "runtime._LostContendedRuntimeLock",
		"_ExternalCode", "_LostExternalCode":
		return false
	}
	return !strings.HasPrefix(name, "[") && !strings.HasPrefix(name, "0x") && !strings.Contains(name, "+0x")
}

func share(part, whole time.Duration) float64 {
	if whole == 0 {
		return 0
	}
	return 100 * float64(part) / float64(whole)
}

// printSideBySide shows what each profile says of the same seconds, in which the process spent `spent` of CPU time.
func printSideBySide(w io.Writer, ours, gos summary, spent time.Duration) {
	fmt.Fprintf(w, "\n%-*s  %s\n", columnWidth, "onstack: flat CPU time", "runtime/pprof: flat CPU time")
	for i := range topFunctions {
		fmt.Fprintf(w, "%-*s  %s\n", columnWidth, column(ours, i), column(gos, i))
	}
	fmt.Fprintf(w, "\n%-46s %10s  %13s\n", "", "onstack", "runtime/pprof")
	fmt.Fprintf(w, "%-46s %9.1fs  %12.1fs\n", fmt.Sprintf("CPU time in the profile (process: %.1fs)", spent.Seconds()), ours.total.Seconds(), gos.total.Seconds())
	fmt.Fprintf(w, "%-46s %9.1f%%  %12.1f%%\n", "attributed to a named function", share(ours.named, ours.total),
		share(gos.named, gos.total))
	fmt.Fprintf(w, "%-46s %9.1f%%  %12.1f%%\n", "  of these runtime.cgocall: native code unseen", share(ours.boundary, ours.total),
		share(gos.boundary, gos.total))
	fmt.Fprintf(w, "%-46s %9.1f%%\n", "native time on goroutines with its Go callers",
		share(ours.callers.withGo, ours.callers.native))
	fmt.Fprintf(w, "%-46s %10d  %13d\n", "threads with a name", ours.threads, gos.threads)
}

// column is the i-th line of one profile's half, cut to its width.
func column(s summary, i int) string {
	if i >= len(s.top) {
		return ""
	}
	const numbers = len("12.34s 56.7%  ")
	name := []rune(s.top[i].name)
	if room := columnWidth - numbers; len(name) > room {
		name = append(name[:room-1], '…')
	}
	return fmt.Sprintf("%5.2fs %4.1f%%  %s", s.top[i].cpu.Seconds(), share(s.top[i].cpu, s.total), string(name))
}

// libcSymbols says whether the C library's debug symbols are installed: much of it has no other names.
func libcSymbols(p *profile.Profile) string {
	for _, mapping := range p.Mapping {
		if !strings.HasPrefix(filepath.Base(mapping.File), "libc.so") || len(mapping.BuildID) < 3 {
			continue
		}
		debug := filepath.Join("/usr/lib/debug/.build-id", mapping.BuildID[:2], mapping.BuildID[2:]+".debug")
		if _, err := os.Stat(debug); err != nil {
			return "not installed (libc6-dbg): parts of libc show as libc.so.6+0x..., which does not count as a name"
		}
		return "installed (" + debug + ")"
	}
	return "unknown: no sample in libc"
}
