// SPDX-License-Identifier: MIT OR Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bytecodealliance/wasmtime-go/v39"
)

// compileUntil compiles modules on `workers` goroutines until ctx ends, and tells w once a second how far it is.
// The compiler is Rust (Cranelift) and works on threads of its own besides the goroutines'.
func compileUntil(ctx context.Context, w io.Writer, workers int) (compiled uint64, err error) {
	engine := wasmtime.NewEngine()
	defer engine.Close()
	var count atomic.Uint64
	failures := make(chan error, workers)
	var running sync.WaitGroup
	for worker := range workers {
		running.Go(func() {
			for seed := uint64(worker); ctx.Err() == nil; seed += uint64(workers) {
				if err := compile(engine, seed); err != nil {
					failures <- err
					return
				}
				count.Add(1)
			}
		})
	}
	begun := time.Now()
	ended := make(chan struct{})
	go func() { running.Wait(); close(ended) }()
	second := time.NewTicker(time.Second)
	defer second.Stop()
	for {
		select {
		case <-second.C:
			fmt.Fprintf(w, "  %2.0f s: %d modules of %d functions compiled\n", time.Since(begun).Seconds(), count.Load(),
				functionsPerModule)
		case <-ended:
			select {
			case err = <-failures:
			default:
			}
			return count.Load(), err
		}
	}
}

func compile(engine *wasmtime.Engine, seed uint64) error {
	binary, err := wasmtime.Wat2Wasm(moduleText(seed))
	if err != nil {
		return fmt.Errorf("module %d: %w", seed, err)
	}
	module, err := wasmtime.NewModule(engine, binary)
	if err != nil {
		return fmt.Errorf("module %d: %w", seed, err)
	}
	module.Close()
	return nil
}
