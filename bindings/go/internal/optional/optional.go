// SPDX-License-Identifier: MIT OR Apache-2.0

// Package optional holds what package onstack uses only if another package of the module brings it. It keeps
// dependencies that many programs do not need out of programs that import package onstack alone.
package optional

import (
	"io"
	"sync/atomic"
)

// Demangle returns the readable form of a C++ or Rust symbol, or the symbol itself. Internal package demangler sets it;
// so does onstack.SetDemangler.
var Demangle atomic.Pointer[func(symbol string) string]

// MergeHeaps writes Go's heap profile and the native one as one pprof profile; native is nil if there is none. Internal
// package heaps sets it when the program is initialized.
var MergeHeaps func(w io.Writer, goHeap, native []byte, comments []string) error
