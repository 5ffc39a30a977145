// SPDX-License-Identifier: MIT OR Apache-2.0

package onstackhttp

import (
	"net/http"

	onstack "github.com/onstack-profiler/onstack/bindings/go"
	_ "github.com/onstack-profiler/onstack/bindings/go/internal/demangler"
	_ "github.com/onstack-profiler/onstack/bindings/go/internal/heaps"
)

// OverPprof serves /debug/pprof/profile and /debug/pprof/onstack by Handler, /debug/pprof/heap by onstack.WriteHeapProfile and
// /debug/pprof/allocs by the same with alloc_space as what is shown first
// (gc=1, seconds=N as in net/http/pprof; older=N counts only what has been in use for so many seconds; with debug= it is
// next's; beyond four of these two at once the answer is 429 with Retry-After), /debug/pprof/memory by onstack.WriteMemory, /debug/pprof/threads by onstack.DumpProfile or, with debug=1, as text by
// onstack.Dump, and all else by next. Scrapers that know net/http/pprof get whole-process profiles then without any change on
// their side:
//
//	import _ "net/http/pprof"
//	...
//	http.ListenAndServe("localhost:6060", onstackhttp.OverPprof(http.DefaultServeMux))
//
// It is a wrapper since net/http/pprof has taken that path in http.DefaultServeMux, which refuses it to a second.
func OverPprof(next http.Handler, opts ...onstack.Option) http.Handler {
	return OverPprofBy(next, Handler(opts...))
}

// OverPprofBy is OverPprof with a handler of NewHandler, which has limits of its own.
func OverPprofBy(next, ours http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		serve := ours.ServeHTTP
		switch r.URL.Path {
		case "/debug/pprof/profile", "/debug/pprof/onstack":
		case "/debug/pprof/heap", "/debug/pprof/allocs":
			if serve = onlyGet(heap); asksForText(r) {
				serve = next.ServeHTTP
			}
		case "/debug/pprof/memory":
			serve = onlyGet(memory)
		case "/debug/pprof/threads":
			serve = onlyGet(threads)
		default:
			serve = next.ServeHTTP
		}
		serve(w, r)
	})
}
