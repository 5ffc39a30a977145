// SPDX-License-Identifier: MIT OR Apache-2.0

// Package nativeheap makes the executable's malloc one that heap profiles see: C.malloc, and that of every native library
// in the process. It is used for its side effect:
//
//	import _ "github.com/onstack-profiler/onstack/bindings/go/nativeheap"
//
//	heap, err := onstack.Start(onstack.WithClock(onstack.ClockHeap))
//	...
//	err = onstack.WriteHeapProfile(file)
//
// libc's malloc (or that of a library that is preloaded) does the work as before; while no profile with
// onstack.ClockHeap runs, each call costs a load and a branch more. Native stacks go on into the goroutines that called.
//
// It needs Linux and cgo; elsewhere importing it does nothing. Not seen: memory that native code takes by mmap, an allocator
// that is linked into the program or into a Rust library, and Go's own heap, which onstack.WriteHeapProfile adds. A c-shared
// library that its host loads by dlopen comes behind libc: of its own code's blocks alone it sees the malloc. A program
// that is linked statically has no malloc below this one, says so and ends with status 127.
package nativeheap
