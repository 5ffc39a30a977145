// SPDX-License-Identifier: MIT OR Apache-2.0

// Package onstackhttp serves CPU profiles of the running process over HTTP, in the way of net/http/pprof, and sends them
// to a server where nothing can fetch them:
//
//	http.Handle("/debug/onstack/profile", onstackhttp.Handler())
//
//	go tool pprof 'http://localhost:8080/debug/onstack/profile?seconds=10&hz=99'
//
// OverPprof puts it in the place of net/http/pprof's CPU profile, for scrapers that know that one.
//
// Push profiles without a pause and sends the profiles to Pyroscope, or to an OpenTelemetry collector.
//
// A profile names the program's functions and files and costs CPU time: serve it where you would serve net/http/pprof,
// which is not the public side. HandlerOptions bound what requests may take; the defaults leave half of the process's
// sessions to the process. The package registers no handler by itself. Importing it gives C++ and Rust functions
// readable names in all profiles of the process.
package onstackhttp
