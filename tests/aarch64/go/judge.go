// SPDX-License-Identifier: MIT OR Apache-2.0

//go:build !record

package main

import (
	"bytes"
	"fmt"
	"os"
	"sort"
	"strings"

	"github.com/google/pprof/profile"
	"github.com/onstack-profiler/onstack/bindings/go"
)

var failed bool

// byRecords: the unwinder is frame_pointer, which loses the caller of an interrupted leaf. A program's name tells.
var byRecords = strings.HasSuffix(os.Args[0], "-fp")

func check(good bool, name, format string, args ...any) {
	word := "ok"
	if !good {
		word, failed = "not ok", true
	}
	variant := "go"
	if byRecords {
		variant = "go-fp"
	}
	fmt.Printf("%s %s/%s: %s\n", word, variant, name, fmt.Sprintf(format, args...))
}

// stack is a sample's function names, leaf first, in one string: "leaf;caller;...;root;".
type stack struct {
	names  string
	label  string // of the goroutine: "kind"
	weight int64
}

// sample runs `work` under a session until `mine` holds at least 100 ticks: where the machine underneath stands still, one
// sample somewhere has the ticks of hundreds.
func sample(mine func(string) bool, work func()) ([]stack, onstack.Stats) {
	var stacks []stack
	var all onstack.Stats
	var ticks int64
	for round := 0; round < 4 && ticks < 100; round++ {
		more, stats := session(work)
		for _, s := range more {
			if mine(s.names) {
				ticks += s.weight
			}
		}
		stacks = append(stacks, more...)
		all.Samples += stats.Samples
		all.Truncated += stats.Truncated
		all.GoroutineLabels = stats.GoroutineLabels
		for i := range stats.TruncatedBy {
			all.TruncatedBy[i] += stats.TruncatedBy[i]
		}
	}
	return stacks, all
}

func session(work func()) ([]stack, onstack.Stats) {
	options := []onstack.Option{onstack.WithRate(250), onstack.WithMaxDepth(512)}
	if byRecords {
		options = append(options, onstack.WithUnwinder("frame_pointer"))
	}
	p, err := onstack.Start(options...)
	if err != nil {
		fmt.Println("not ok go/start:", err)
		os.Exit(1)
	}
	work()
	if err := p.Stop(); err != nil {
		fmt.Println("not ok go/stop:", err)
		os.Exit(1)
	}
	var raw bytes.Buffer
	if _, err := p.WriteTo(&raw); err != nil {
		fmt.Println("not ok go/write:", err)
		os.Exit(1)
	}
	stats := p.Stats()
	p.Close()
	parsed, err := profile.Parse(&raw)
	if err != nil {
		fmt.Println("not ok go/parse:", err)
		os.Exit(1)
	}
	var stacks []stack
	for _, s := range parsed.Sample {
		var b strings.Builder
		for _, location := range s.Location {
			for _, line := range location.Line {
				b.WriteString(line.Function.Name + ";")
			}
			if len(location.Line) == 0 {
				fmt.Fprintf(&b, "%#x;", location.Address)
			}
		}
		stacks = append(stacks, stack{b.String(), strings.Join(s.Label["kind"], ","), s.Value[0]})
	}
	return stacks, stats
}

// verify weighs the stacks that `mine` holds: those that are not exact are printed.
func verify(name string, permille int64, stacks []stack, mine, exact func(string) bool) {
	var all, good, samples int64
	wrong := map[string]int64{}
	for _, s := range stacks {
		samples += s.weight
		if !mine(s.names) {
			continue
		}
		all += s.weight
		if exact(s.names) {
			good += s.weight
		} else {
			wrong[s.names] += s.weight
		}
	}
	check(all >= 100 && good*1000 >= all*permille, name, "%d of %d ticks exact (%d in all)", good, all, samples)
	var list []string
	for names := range wrong {
		list = append(list, names)
	}
	sort.Slice(list, func(i, k int) bool { return wrong[list[i]] > wrong[list[k]] })
	for i, names := range list {
		if i == 8 {
			fmt.Printf("   ... %d more\n", len(list)-i)
			break
		}
		fmt.Printf("   inexact x%d: %s\n", wrong[names], names)
	}
}
