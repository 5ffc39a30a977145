// SPDX-License-Identifier: MIT OR Apache-2.0

//go:build cgo && linux

// Package loadrust adds the mix "rust" to package load: Go that calls Rust that calls C. A program that imports it is linked
// with ../rust/load (the Makefile says how).
package loadrust

/*
void matrix_load_rust(void);
*/
import "C"

import "github.com/onstack-profiler/onstack/tests/matrix/load"

func init() { load.Rust = func() { C.matrix_load_rust() } }
