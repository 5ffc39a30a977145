// SPDX-License-Identifier: MIT OR Apache-2.0

// Command wazero runs WebAssembly that was compiled to machine code on Go's own heap: generated code under Go, on stacks
// that the runtime does not know, and no cgo below it.
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
		err = recorder.Record(os.Args[4], 1000, func() { err = runFor(duration) })
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "wazero:", err)
		os.Exit(1)
	}
}

func runFor(duration time.Duration) error {
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
			failed <- work(ctx, runtime, fmt.Sprint("worker", worker), end)
		}()
	}
	running.Wait()
	if err = <-failed; err != nil {
		return err
	}
	return <-failed
}

func work(ctx context.Context, runtime wazero.Runtime, name string, end time.Time) error {
	module, err := runtime.InstantiateWithConfig(ctx, binary(), wazero.NewModuleConfig().WithName(name))
	if err != nil {
		return err
	}
	all := module.ExportedFunction("all")
	for time.Now().Before(end) {
		if _, err = all.Call(ctx, 22); err != nil {
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
