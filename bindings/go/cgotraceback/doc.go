// SPDX-License-Identifier: MIT OR Apache-2.0

// Package cgotraceback shows C, C++ and Rust frames by name where the Go runtime prints or records stacks itself: in
// runtime/pprof's CPU profile, in panics and crashes, in runtime.Callers. It is used for its side effect:
//
//	import _ "github.com/onstack-profiler/onstack/bindings/go/cgotraceback"
//
// It works alone: no profile of package onstack need be running. While nothing asks for a stack it costs a few dozen
// nanoseconds for each callback from C to Go, and nothing else.
//
// The runtime calls these functions in its signal handler, and in threads that hold any lock. Ours take no lock,
// allocate nothing and ask neither the loader nor libgcc: a goroutine reads unwind tables and symbols right after the
// program's start, and until it is done (some ten milliseconds) stacks are as without the package. Libraries opened
// later are noticed when the runtime next asks for names; onstack.PrepareTraceback has them at once.
//
// The text of a panic that nobody recovers is printed after the runtime's own deferred calls, which have forgotten
// callbacks then; crashes, debug.Stack and SIGQUIT show them.
//
// Texts show native frames among their first fifty frames alone. For one further up Go 1.26 goes around two thousand
// million times in a loop that nothing interrupts (ten to twenty seconds, in which the whole process waits if a garbage
// collection is due), so it is given none there. Where the fiftieth frame of a text is a native one, and it has less than
// fifty more, as many Go frames are missing behind it as native ones of that callback were printed. Package onstack tells
// the passes of the runtime apart by a trial at the program's start; where a Go version does not let it, texts are as the
// runtime alone makes them. Profiles and runtime.Callers are not concerned.
//
// Names and unwind tables are kept by address: where a library is closed and another one comes to lie in its place, its
// functions go by the names of the first one, and a caller can be missing, until code is met that no library had, or
// onstack.PrepareTraceback is called.
//
// A stack has at most 32 native frames, which is the runtime's limit. Names are those of the symbol table: `go tool
// pprof` demangles them, panics show them raw. A program may have one such package: the runtime panics at the
// second. `go run` and `go test` link without the symbol table (so does -ldflags=-s); exported functions and those of
// libraries have names all the same.
//
// It needs Linux on amd64 or arm64, and cgo; elsewhere importing it does nothing.
package cgotraceback
