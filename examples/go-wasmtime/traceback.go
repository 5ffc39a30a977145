// SPDX-License-Identifier: MIT OR Apache-2.0

//go:build traceback

package main

// With `go build -tags traceback` runtime/pprof's profile has native names too.
import _ "github.com/onstack-profiler/onstack/bindings/go/cgotraceback"
