// SPDX-License-Identifier: MIT OR Apache-2.0

package onstackhttp

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"time"

	onstack "github.com/onstack-profiler/onstack/bindings/go"
)

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
