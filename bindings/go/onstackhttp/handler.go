// SPDX-License-Identifier: MIT OR Apache-2.0

package onstackhttp

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	onstack "github.com/onstack-profiler/onstack/bindings/go"
)

// defaultDuration is what net/http/pprof profiles without ?seconds.
const defaultDuration = 30 * time.Second

// maxDuration keeps a mistyped request from profiling for ever.
const maxDuration = time.Hour

// Handler returns a handler that profiles the process for a while and answers with gzip-compressed pprof. The query's
// parameters are
//
//	seconds  how long, a decimal number up to 3600; default 30
//	hz       samples per second of the clock, 1 to 10000; default 99, or what opts say
//	clock    "cpu" or "wall" (real time: what waits is seen too); default cpu, or what opts say
//
// Requests are profiled side by side, each by its own session; when all of them are in use the answer is 503 with
// Retry-After. Bad values, and more seconds than the server's WriteTimeout lets it answer, are answered with 400 and a
// text. A client that goes away ends its profile at once. `opts` apply to each profile.
func Handler(opts ...onstack.Option) http.Handler {
	opts = append([]onstack.Option(nil), opts...)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Content-Type-Options", "nosniff")
		if r.Method != http.MethodGet {
			w.Header().Set("Allow", http.MethodGet)
			http.Error(w, "onstack: use GET", http.StatusMethodNotAllowed)
			return
		}
		request, err := parse(r)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		serve(w, r, request, opts)
	})
}

// profileRequest is what a query asks for.
type profileRequest struct {
	duration time.Duration
	options  []onstack.Option // beside the handler's
}

func parse(r *http.Request) (profileRequest, error) {
	request := profileRequest{duration: defaultDuration}
	query := r.URL.Query()
	if text := query.Get("seconds"); text != "" {
		seconds, err := strconv.ParseFloat(text, 64)
		// Written so that not-a-number fails too.
		if err != nil || !(seconds > 0 && seconds <= maxDuration.Seconds()) {
			return request, fmt.Errorf("onstack: seconds=%q: give a number above 0 and up to %.0f", text,
				maxDuration.Seconds())
		}
		request.duration = time.Duration(seconds * float64(time.Second))
	}
	if text := query.Get("hz"); text != "" {
		hz, err := strconv.Atoi(text)
		if err != nil {
			return request, fmt.Errorf("onstack: hz=%q: give a whole number from 1 to 10000", text)
		}
		request.options = append(request.options, onstack.WithRate(hz))
	}
	if text := query.Get("clock"); text != "" {
		clock, known := map[string]onstack.Clock{"cpu": onstack.ClockCPU, "wall": onstack.ClockWall}[text]
		if !known {
			return request, fmt.Errorf("onstack: clock=%q: give cpu or wall", text)
		}
		request.options = append(request.options, onstack.WithClock(clock))
	}
	if limit := writeTimeout(r); limit > 0 && request.duration >= limit {
		return request, fmt.Errorf("onstack: %v is more than this server's WriteTimeout of %v allows: ask for less with "+
			"?seconds=, or raise WriteTimeout", request.duration, limit)
	}
	return request, nil
}

// writeTimeout is the time after which the server would cut the answer off; 0: never.
func writeTimeout(r *http.Request) time.Duration {
	server, ok := r.Context().Value(http.ServerContextKey).(*http.Server)
	if !ok {
		return 0
	}
	return server.WriteTimeout
}

func serve(w http.ResponseWriter, r *http.Request, request profileRequest, opts []onstack.Option) {
	profile, err := onstack.Collect(r.Context(), request.duration, append(opts[:len(opts):len(opts)], request.options...)...)
	if r.Context().Err() != nil {
		return // the client has gone, and there is nobody to tell
	}
	if err != nil {
		refuse(w, err)
		return
	}
	defer profile.Close()
	var body bytes.Buffer
	if _, err := profile.WriteTo(&body); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("Content-Disposition", `attachment; filename="profile.pb.gz"`)
	w.Header().Set("Content-Length", strconv.Itoa(body.Len()))
	// An error here is the client's: it has gone, and there is nobody to tell.
	_, _ = w.Write(body.Bytes())
}

func refuse(w http.ResponseWriter, err error) {
	status := http.StatusInternalServerError
	switch {
	case errors.Is(err, onstack.ErrSessions):
		status = http.StatusServiceUnavailable
		w.Header().Set("Retry-After", strconv.Itoa(int(defaultDuration.Seconds())))
	case errors.Is(err, onstack.ErrUnsupported):
		status = http.StatusNotImplemented
	case errors.Is(err, onstack.ErrFrequency), errors.Is(err, onstack.ErrOptions):
		status = http.StatusBadRequest
	}
	http.Error(w, err.Error(), status)
}
