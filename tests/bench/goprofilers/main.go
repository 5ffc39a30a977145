// SPDX-License-Identifier: MIT OR Apache-2.0

// Command goprofilers is the benchmark of profilers for Go in a Go process: PROGRAM VARIANT CASE [key=value ...], as the
// programs in C. The variants are "pprof", which is runtime/pprof, and "onstack", the Go package. The work is Go's.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"
)

type options struct {
	hz, threads, lifeMs, repeats int
	seconds                      float64
}

func (o *options) length() time.Duration { return time.Duration(o.seconds * float64(time.Second)) }

var cases = map[string]func(profiler, *options) error{
	"weights":          measureWeights,
	"short-threads":    measureShortThreads,
	"overhead":         measureOverhead,
	"memory":           measureMemory,
	"start-stop":       measureStartStop,
	"finished-profile": measureFinishedProfile,
}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(arguments []string) error {
	if len(arguments) < 2 {
		return fmt.Errorf("a variant and a case are needed")
	}
	chosen, measure := profilers[arguments[0]], cases[arguments[1]]
	if chosen == nil || measure == nil {
		return fmt.Errorf("no variant %q, or no case %q", arguments[0], arguments[1])
	}
	asked, err := parse(arguments[2:])
	if err != nil {
		return err
	}
	return measure(chosen, asked)
}

func parse(arguments []string) (*options, error) {
	asked := options{hz: 100, threads: 1, lifeMs: 20, repeats: 20, seconds: 1}
	places := map[string]any{
		"hz": &asked.hz, "threads": &asked.threads, "life_ms": &asked.lifeMs, "repeats": &asked.repeats,
		"seconds": &asked.seconds,
	}
	for _, argument := range arguments {
		key, value, _ := strings.Cut(argument, "=")
		if places[key] == nil {
			return nil, fmt.Errorf("%s: no such setting", argument)
		}
		if _, err := fmt.Sscan(value, places[key]); err != nil {
			return nil, fmt.Errorf("%s: %w", argument, err)
		}
	}
	return &asked, nil
}

func emit(metric, unit string, value float64) error {
	return json.NewEncoder(os.Stdout).Encode(struct {
		Metric string  `json:"metric"`
		Unit   string  `json:"unit"`
		Value  float64 `json:"value"`
	}{metric, unit, value})
}

func median(values []float64) float64 {
	slices.Sort(values)
	half := len(values) / 2
	if len(values)%2 == 1 {
		return values[half]
	}
	return (values[half-1] + values[half]) / 2
}
