// SPDX-License-Identifier: MIT OR Apache-2.0

// Command go-wazero runs WebAssembly without cgo, and profiles host and guest together. wazero tells what its code is called
// where it is built with the tag perfmap:
//
//	GOOS=wasip1 GOARCH=wasm go build -o guest.wasm ./guest
//	go run -tags perfmap . -out service.pb.gz guest.wasm
//
// It prints how much of the CPU time is in the guest's functions, and how many of these stacks reach the host's.
package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"strings"
	"time"

	"github.com/google/pprof/profile"
	onstack "github.com/onstack-profiler/onstack/bindings/go"
	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/imports/wasi_snapshot_preview1"
)

func main() {
	seconds := flag.Float64("seconds", 3, "how long to work")
	out := flag.String("out", "", "write the profile to this file")
	flag.Parse()
	if flag.NArg() != 1 {
		log.Fatal("name the guest: guest.wasm")
	}
	if err := run(flag.Arg(0), time.Duration(*seconds*float64(time.Second)), *out); err != nil {
		log.Fatal(err)
	}
}

func run(guest string, length time.Duration, path string) error {
	code, err := os.ReadFile(guest)
	if err != nil {
		return err
	}
	defer os.Remove(fmt.Sprintf("/tmp/perf-%d.map", os.Getpid())) // in which wazero tells the names
	ctx := context.Background()
	runtime := wazero.NewRuntime(ctx)
	defer runtime.Close(ctx) // the code is there until the profile is written
	if _, err = wasi_snapshot_preview1.Instantiate(ctx, runtime); err != nil {
		return err
	}
	module, err := runtime.CompileModule(ctx, code)
	if err != nil {
		return err
	}
	var profiled bytes.Buffer
	if err = onstack.StartCPUProfile(&profiled); err != nil {
		return err
	}
	err = handleRequests(ctx, runtime, module, time.Now().Add(length))
	if stopped := onstack.StopCPUProfile(); err == nil {
		err = stopped
	}
	if err == nil && path != "" {
		err = os.WriteFile(path, profiled.Bytes(), 0o600)
	}
	if err != nil {
		return err
	}
	return tell(profiled.Bytes())
}

// Each request is an instance of its own.
func handleRequests(ctx context.Context, runtime wazero.Runtime, module wazero.CompiledModule, end time.Time) error {
	config := wazero.NewModuleConfig().WithName("").WithStdout(io.Discard).WithStderr(os.Stderr)
	for time.Now().Before(end) {
		instance, err := runtime.InstantiateModule(ctx, module, config)
		if err != nil {
			return err
		}
		if err = instance.Close(ctx); err != nil {
			return err
		}
	}
	return nil
}

func tell(data []byte) error {
	p, err := profile.ParseData(data)
	if err != nil {
		return err
	}
	var all, guest, whole int64
	for _, sample := range p.Sample {
		value := sample.Value[len(sample.Value)-1]
		all += value
		if !has(sample, "main.serve") {
			continue
		}
		guest += value
		if has(sample, "main.handleRequests") {
			whole += value
		}
	}
	if guest == 0 {
		return fmt.Errorf("no sample of %d ns names the guest's functions: build with -tags perfmap", all)
	}
	fmt.Printf("%.2f s of CPU time: %.1f%% in the guest's main.serve; of these %.1f%% reach main.handleRequests\n",
		float64(all)/1e9, 100*float64(guest)/float64(all), 100*float64(whole)/float64(guest))
	return nil
}

func has(sample *profile.Sample, name string) bool {
	for _, location := range sample.Location {
		for _, line := range location.Line {
			if strings.HasSuffix(line.Function.Name, name) {
				return true
			}
		}
	}
	return false
}
