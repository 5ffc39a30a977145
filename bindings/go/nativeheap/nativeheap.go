// SPDX-License-Identifier: MIT OR Apache-2.0

//go:build cgo && linux

package nativeheap

/*
#cgo CFLAGS: -O2 -std=gnu11 -fno-omit-frame-pointer -fno-lto
#cgo LDFLAGS: -ldl
*/
import "C"

import (
	// The calls that malloc.c reports by are in this package's C code.
	_ "github.com/onstack-profiler/onstack/bindings/go"
	_ "github.com/onstack-profiler/onstack/bindings/go/internal/demangler"
	_ "github.com/onstack-profiler/onstack/bindings/go/internal/heaps"
)
