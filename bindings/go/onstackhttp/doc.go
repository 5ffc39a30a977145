// SPDX-License-Identifier: MIT OR Apache-2.0

// Package onstackhttp serves CPU profiles of the running process over HTTP, in the way of net/http/pprof:
//
//	http.Handle("/debug/onstack/profile", onstackhttp.Handler())
//
//	go tool pprof 'http://localhost:8080/debug/onstack/profile?seconds=10&hz=99'
//
// OverPprof puts it in the place of net/http/pprof's CPU profile, for scrapers that know that one.
//
// A profile names the program's functions and files and costs CPU time: serve it where you would serve net/http/pprof,
// which is not the public side. The package registers nothing by itself.
package onstackhttp
