// SPDX-License-Identifier: MIT OR Apache-2.0

package main

import (
	"log"
	"time"

	"go.opentelemetry.io/collector/pdata/pprofile"
)

// amount is what a span has used of the CPU.
type amount struct {
	cpu       time.Duration
	functions map[string]time.Duration // without spend, which all use
}

// linked reads the profile as a server would: for each trace id and span id, what is linked to them.
func linked(otlp []byte) map[string]amount {
	all, err := (&pprofile.ProtoUnmarshaler{}).UnmarshalProfiles(otlp)
	if err != nil {
		log.Fatal(err)
	}
	used, dictionary := map[string]amount{}, all.Dictionary()
	cpu := all.ResourceProfiles().At(0).ScopeProfiles().At(0).Profiles().At(0) // the first one is in nanoseconds
	for _, sample := range cpu.Samples().All() {
		if sample.LinkIndex() == 0 {
			continue
		}
		link := dictionary.LinkTable().At(int(sample.LinkIndex()))
		key := link.TraceID().String() + link.SpanID().String()
		one, value := used[key], time.Duration(sample.Values().At(0))
		if one.functions == nil {
			one.functions = map[string]time.Duration{}
		}
		one.cpu += value
		one.functions[leaf(dictionary, sample)] += value
		used[key] = one
	}
	return used
}

// leaf is the innermost function that is not spend.
func leaf(dictionary pprofile.ProfilesDictionary, sample pprofile.Sample) string {
	for _, index := range dictionary.StackTable().At(int(sample.StackIndex())).LocationIndices().All() {
		for _, line := range dictionary.LocationTable().At(int(index)).Lines().All() {
			function := dictionary.FunctionTable().At(int(line.FunctionIndex()))
			name := dictionary.StringTable().At(int(function.NameStrindex()))
			if name != "main.spend" {
				return name
			}
		}
	}
	return ""
}
