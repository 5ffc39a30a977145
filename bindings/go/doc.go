// SPDX-License-Identifier: MIT OR Apache-2.0

// Package onstack is a sampling CPU profiler for Go programs with C, C++ or Rust inside: one profile of the whole
// process, with the frames of all languages in one stack.
//
// runtime/pprof works before, while and after it runs; its samples are not touched. Every thread of the process is
// sampled, those that Go does not know as well, each by its own CPU-time timer.
//
// The short form is that of runtime/pprof:
//
//	err := onstack.StartCPUProfile(file)
//	...
//	err = onstack.StopCPUProfile() // writes the profile
//
// Up to eight profiles run side by side, each with its own rate:
//
//	profile, err := onstack.Start(onstack.WithRate(19))
//	defer profile.Close()
//	...
//	err = profile.Stop()
//	_, err = profile.WriteTo(file) // gzip-compressed pprof, for `go tool pprof`
//	err = profile.WriteFolded(out) // "thread;main;f;g 12" lines, for flame graph tools
//
// Collect is all of that in one call, for a while or until a context ends. Package onstackhttp serves profiles over HTTP,
// onstacktest takes them of benchmarks, cgotraceback shows native frames in runtime/pprof, panics and runtime.Callers.
//
// # What a sample holds
//
// The stack, leaf first, with inlined functions; the labels "thread" (the kernel's name of the thread) and "thread_id",
// and those that runtime/pprof.Do gave the goroutine, in native code too; samples/count and cpu/nanoseconds, where a
// sample stands for all ticks that came with it.
//
// Go functions have the names and lines that runtime/pprof gives them. Native functions have those of the ELF symbols,
// and with DWARF debug information, in the file or in a separate one under /usr/lib/debug, lines and inlined functions.
// Symbols of C++ and Rust are demangled if the program imports onstackhttp, onstacktest or nativeheap, or calls SetDemangler
// (Function.SystemName keeps the symbol); if not, go tool pprof demangles them when it shows the profile. This package
// brings no demangler because that would add 0.8 MB to each program. An address that lies in no symbol
// is shown as "library+0x1234", not under a neighbour's name: install the debug symbols (libc6-dbg for the C library) or
// build with symbols to see the name. `go run` and `go test` link without the symbol table, as -ldflags=-s does; profile
// a binary of `go build` to see names of native functions.
//
// Names and lines are looked up when a profile is written, not while it is taken: the time that StopCPUProfile takes, and
// that a profile of runtime/pprof shows under onstackgoSymbolize, is spent in unpacking the debug information of each file
// in which the profile has native addresses that no profile of the process had before. That is some 50 milliseconds for the
// C library with libc6-dbg or the program, two files at a time, and some two for a profile without new addresses.
//
// # What it needs
//
// Linux, cgo and a C compiler: the core is C and is compiled with the package. Elsewhere, and with CGO_ENABLED=0,
// the package builds and Start returns ErrUnsupported. Native code needs no frame pointers: its unwind tables are read.
// A stack that cannot be followed to its root is cut there and counted in Stats.Truncated, never guessed.
//
// While nothing is being profiled there is no signal, timer, thread or goroutine of this package.
package onstack
