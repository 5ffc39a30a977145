// SPDX-License-Identifier: MIT OR Apache-2.0

//go:build cgo && linux

package nativeheap

/*
#cgo CFLAGS: -O2 -std=gnu11 -fno-omit-frame-pointer -fno-lto
#cgo LDFLAGS: -ldl
*/
import "C"

// The calls that malloc.c reports by are in this package's C code.
import _ "github.com/onstack-profiler/onstack/bindings/go"
