// SPDX-License-Identifier: MIT OR Apache-2.0

// Command wazero runs WebAssembly that was compiled to machine code on Go's own heap: generated code under Go, on stacks
// that the runtime does not know, and no cgo below it. With the work "loop" the guest is one loop without calls, entered by Go
// or left to Go and entered again.
package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"

	"github.com/onstack-profiler/onstack/tests/go/recorder"
)

func main() {
	duration, err := time.ParseDuration(os.Args[2] + "s")
	if err == nil {
		err = recorder.Record(os.Args[4], 1000, func() { err = runFor(os.Args[1], duration) })
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "wazero:", err)
		os.Exit(1)
	}
}

func runFor(kind string, duration time.Duration) error {
	ctx := context.Background()
	runtime := wazero.NewRuntime(ctx)
	defer runtime.Close(ctx)
	_, err := runtime.NewHostModuleBuilder("host").NewFunctionBuilder().
		WithFunc(func(ctx context.Context, caller api.Module, n uint32) uint32 { return hostWork(ctx, caller, n) }).
		Export("work").Instantiate(ctx)
	if err != nil {
		return err
	}
	end := time.Now().Add(duration)
	var running sync.WaitGroup
	failed := make(chan error, 2)
	for worker := range 2 {
		running.Add(1)
		go func() {
			defer running.Done()
			failed <- work(ctx, runtime, calls{kind, worker}, end)
		}()
	}
	running.Wait()
	if err = <-failed; err != nil {
		return err
	}
	return <-failed
}

// calls are what a worker calls of the guest.
type calls struct {
	kind   string
	worker int
}

func (c calls) function() (name string, argument uint64) {
	if c.kind != "loop" {
		return "all", 22
	}
	return [...]string{"loop", "after"}[c.worker], 20_000_000
}

func work(ctx context.Context, runtime wazero.Runtime, c calls, end time.Time) error {
	config := wazero.NewModuleConfig().WithName(fmt.Sprint("worker", c.worker))
	module, err := runtime.InstantiateWithConfig(ctx, binary(), config)
	if err != nil {
		return err
	}
	name, argument := c.function()
	function := module.ExportedFunction(name)
	for time.Now().Before(end) {
		if _, err = function.Call(ctx, argument); err != nil {
			return err
		}
	}
	return nil
}

// hostWork is called by the guest, works in Go, and calls the guest again.
func hostWork(ctx context.Context, caller api.Module, n uint32) uint32 {
	numbers := make([]uint32, 20000)
	for i := range numbers {
		numbers[i] = uint32(i) * 2654435761 % (n + 1000)
	}
	slices.Sort(numbers)
	result, err := caller.ExportedFunction("fib").Call(ctx, 18)
	if err != nil {
		panic(err)
	}
	return numbers[n] + uint32(result[0])
}
