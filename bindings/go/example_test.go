// SPDX-License-Identifier: MIT OR Apache-2.0

//go:build cgo && linux

package onstack_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"runtime/pprof"
	"time"

	onstack "github.com/onstack-profiler/onstack/bindings/go"
	"github.com/onstack-profiler/onstack/bindings/go/internal/testburn"
)

func work() { testburn.Native(100 * time.Millisecond) }

func ExampleStart() {
	profile, err := onstack.Start(onstack.WithRate(250))
	if err != nil {
		fmt.Println(err) // says what to do
		return
	}
	defer profile.Close()
	work()
	if err := profile.Stop(); err != nil {
		fmt.Println(err)
	}
	fmt.Println(profile.Stats().Samples > 0)
	// Output: true
}

func ExampleStartCPUProfile() {
	var file bytes.Buffer // a file, of mode 0600: a profile tells where the code lies
	if err := onstack.StartCPUProfile(&file); err != nil {
		fmt.Println(err)
		return
	}
	work()
	if err := onstack.StopCPUProfile(); err != nil {
		fmt.Println(err)
	}
	fmt.Println(file.Len() > 0)
	// Output: true
}

func ExampleCollect() {
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	_, err := onstack.Collect(ctx, time.Hour)
	fmt.Println(errors.Is(err, context.DeadlineExceeded))
	// Output: true
}

func ExampleProfile_WriteFolded() {
	profile, err := onstack.Start(onstack.WithThreadNames(false))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer profile.Close()
	// Labels of the goroutine come along in WriteTo's pprof.
	pprof.Do(context.Background(), pprof.Labels("request", "17"), func(context.Context) { work() })
	profile.Stop()
	if err := profile.WriteFolded(os.Stderr); err != nil { // root;...;leaf 12
		fmt.Println(err)
	}
}
