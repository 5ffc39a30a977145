// SPDX-License-Identifier: MIT OR Apache-2.0

// Command heap is the Go program of the heap profilers' benchmark, under whatever is preloaded:
//
//	heap sampled depth=N    the case of heap/pairs.c, below as many frames of Go as of C
//	heap service modules=N  wasmtime compiles N modules on two goroutines
package main

/*
#cgo CFLAGS: -O2 -g -fno-omit-frame-pointer -D_GNU_SOURCE -DPAIRS_HOSTED
#include <stdlib.h>
int pairs_main(int count, char **arguments);
*/
import "C"

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"unsafe"

	"github.com/bytecodealliance/wasmtime-go/v39"
)

const framesOfGo = 15

func main() {
	if len(os.Args) != 3 {
		exitOn(fmt.Errorf("usage: heap sampled depth=N | service modules=N"))
	}
	if os.Args[1] == "service" {
		_, text, _ := strings.Cut(os.Args[2], "=")
		modules, err := strconv.Atoi(text)
		exitOn(err)
		service(modules)
		return
	}
	os.Exit(below(framesOfGo, func() int { return pairs(os.Args) }))
}

func exitOn(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

//go:noinline
func below(frames int, call func() int) int {
	if frames > 0 {
		return below(frames-1, call)
	}
	return call()
}

func pairs(arguments []string) int {
	argv := C.malloc(C.size_t(len(arguments)+1) * C.size_t(unsafe.Sizeof(uintptr(0))))
	list := unsafe.Slice((**C.char)(argv), len(arguments)+1)
	for i, argument := range arguments {
		list[i] = C.CString(argument)
	}
	list[len(arguments)] = nil
	return int(C.pairs_main(C.int(len(arguments)), (**C.char)(argv)))
}

// Its module.go is that of examples/go-wasmtime, laid over at the build.
func service(modules int) {
	config := wasmtime.NewConfig()
	config.SetParallelCompilation(false)
	engine := wasmtime.NewEngineWithConfig(config)
	var workers sync.WaitGroup
	for worker := range 2 {
		workers.Add(1)
		go func() {
			defer workers.Done()
			for seed := worker; seed < modules; seed += 2 {
				binary, err := wasmtime.Wat2Wasm(moduleText(uint64(seed + 1)))
				exitOn(err)
				_, err = wasmtime.NewModule(engine, binary)
				exitOn(err)
			}
		}()
	}
	workers.Wait()
}
