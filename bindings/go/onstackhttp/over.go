// SPDX-License-Identifier: MIT OR Apache-2.0

package onstackhttp

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"time"

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

// serveNow answers with what the process is like now, as text or as a file to keep.
func serveNow(w http.ResponseWriter, write func(io.Writer) error, file string) {
	w.Header().Set("X-Content-Type-Options", "nosniff")
	var out bytes.Buffer
	if err := write(&out); err != nil {
		status := http.StatusInternalServerError
		if errors.Is(err, onstack.ErrSessions) {
			status = http.StatusServiceUnavailable
			answering.retryLater(w)
		} else if errors.Is(err, onstack.ErrUnsupported) {
			status = http.StatusNotImplemented
		}
		http.Error(w, err.Error(), status)
		return
	}
	if file != "" {
		sendFile(w, file, out.Bytes())
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = w.Write(out.Bytes()) // a peer that has gone is nobody to tell
}

// memory serves onstack.WriteMemory.
func memory(w http.ResponseWriter, _ *http.Request) { serveNow(w, onstack.WriteMemory, "") }

// dumpDuration is more than most dumps take, and mostAnswers how many of them and of profiles are made at once: a process that
// hangs can be asked while four profiles are taken, and has sessions left for itself.
const (
	dumpDuration = time.Second
	mostAnswers  = 6
)

// threads serves onstack.DumpProfile; with debug=1 or more, as those of net/http/pprof, onstack.Dump. Each has a session
// meanwhile, so it counts as a profile.
func threads(w http.ResponseWriter, r *http.Request) {
	over := time.Now().Add(dumpDuration)
	if !answering.admit(w, over, mostAnswers, "profiles and dumps") {
		return
	}
	defer answering.leave(over)
	if asksForText(r) {
		serveNow(w, onstack.Dump, "")
		return
	}
	serveNow(w, onstack.DumpProfile, "threads")
}

// asksForText is net/http/pprof's debug=1 or more.
func asksForText(r *http.Request) bool {
	debug := r.FormValue("debug")
	return debug != "" && debug != "0"
}
