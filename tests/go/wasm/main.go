// SPDX-License-Identifier: MIT OR Apache-2.0

//go:build wasmtime

// Command wasm compiles generated WebAssembly modules (Rust) on goroutines. Its module.go is that of
// examples/go-wasmtime, laid over at the build.
package main

import (
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/bytecodealliance/wasmtime-go/v39"

	"github.com/onstack-profiler/onstack/tests/go/recorder"
)

func main() {
	duration, err := time.ParseDuration(os.Args[2] + "s")
	if err == nil {
		err = recorder.Record(os.Args[4], 1000, func() { compileFor(duration) })
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "wasm:", err)
		os.Exit(1)
	}
}

func compileFor(duration time.Duration) {
	engine := wasmtime.NewEngine()
	end := time.Now().Add(duration)
	var running sync.WaitGroup
	for worker := range uint64(2) {
		running.Add(1)
		go func() {
			defer running.Done()
			for seed := worker; time.Now().Before(end); seed += 2 {
				binary, err := wasmtime.Wat2Wasm(moduleText(seed))
				if err != nil {
					panic(err)
				}
				if _, err = wasmtime.NewModule(engine, binary); err != nil {
					panic(err)
				}
			}
		}()
	}
	running.Wait()
}
