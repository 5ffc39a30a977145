// SPDX-License-Identifier: MIT OR Apache-2.0

//go:build wasmtime

package main

/*
#include "host.h"
*/
import "C"

import (
	"unsafe"

	"github.com/bytecodealliance/wasmtime-go/v39"
)

// Its module.go is that of examples/go-wasmtime, laid over at the build.
func init() {
	work = func(over C.uintptr_t, data unsafe.Pointer) {
		config := wasmtime.NewConfig()
		config.SetParallelCompilation(false) // on the thread that is measured
		engine := wasmtime.NewEngineWithConfig(config)
		for seed := uint64(1); C.host_is_over(over, data) == 0; seed++ {
			binary, err := wasmtime.Wat2Wasm(moduleText(seed))
			exitOn(err)
			_, err = wasmtime.NewModule(engine, binary)
			exitOn(err)
		}
	}
}
