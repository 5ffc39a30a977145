// SPDX-License-Identifier: MIT OR Apache-2.0

package onstackhttp

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	onstack "github.com/onstack-profiler/onstack/bindings/go"
)

// defaultDuration is what net/http/pprof profiles without ?seconds.
const defaultDuration = 30 * time.Second

// wallRate is onstack.ClockWall's in Hz where nobody says one.
const wallRate = 20

// Handler is NewHandler with the defaults; opts are HandlerOptions.Profile.
func Handler(opts ...onstack.Option) http.Handler {
	h, _ := NewHandler(HandlerOptions{Profile: opts}) // nothing is wrong with the defaults
	return h
}

// NewHandler returns a handler that profiles the process for a while and answers with gzip-compressed pprof. The query's
// parameters are
//
//	seconds  how long, a decimal number up to MaxDuration; default 30
//	hz       samples per second of the clock, 1 to MaxRate; default 99, with the clock wall 20, or what Profile says
//	clock    "cpu", "wall" (real time: what waits is seen too) or "wall-signal" (by signals); default cpu, or what Profile says
//	timeline "1" keeps when each sample was taken, for the commands onstack view and onstack convert
//
// Requests are profiled side by side, each by its own session. Beyond MaxConcurrent of them the answer is 429, and where
// the process itself uses all sessions 503, both with Retry-After. Bad values, and more seconds than the server's
// WriteTimeout lets it answer, are answered with 400 and a text. A client that goes away ends its profile at once.
//
// Errors: onstack.ErrOptions with the name of the option.
func NewHandler(options HandlerOptions) (http.Handler, error) {
	if err := options.complete(); err != nil {
		return nil, err
	}
	return &handler{options}, nil
}

type handler struct{ HandlerOptions }

func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("X-Content-Type-Options", "nosniff")
	if !isGet(w, r) {
		return
	}
	request, err := h.parse(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if err := h.serve(w, r, request); err != nil {
		h.refuse(w, err)
	}
}

// isGet answers what is no GET.
func isGet(w http.ResponseWriter, r *http.Request) bool {
	if r.Method == http.MethodGet {
		return true
	}
	w.Header().Set("Allow", http.MethodGet)
	http.Error(w, "onstack: use GET", http.StatusMethodNotAllowed)
	return false
}

func onlyGet(serve http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if isGet(w, r) {
			serve(w, r)
		}
	}
}

// errMaxConcurrent is for requests beyond MaxConcurrent.
var errMaxConcurrent = errors.New("onstack: too many profiles at once")

// answering is the requests that have a profile, of all handlers: they share the process's sessions.
var answering answers

// answers knows when each profile will be over. One that a slow client still reads counts, as it takes memory.
type answers struct {
	mu   sync.Mutex
	over []time.Time
}

func (a *answers) enter(over time.Time, most int) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.over) >= most {
		return false
	}
	a.over = append(a.over, over)
	return true
}

func (a *answers) leave(over time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	at := slices.Index(a.over, over)
	a.over = slices.Delete(a.over, at, at+1)
}

func (a *answers) count() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.over)
}

// next is how long it takes until the first of them is over, or a profile without ?seconds where there is none.
func (a *answers) next() time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.over) == 0 {
		return defaultDuration
	}
	return max(0, time.Until(slices.MinFunc(a.over, time.Time.Compare)))
}

// profileRequest is what a query asks for.
type profileRequest struct {
	duration time.Duration
	clock    onstack.Clock
	options  []onstack.Option // after the handler's
}

func (h *handler) parse(r *http.Request) (profileRequest, error) {
	request := profileRequest{duration: min(defaultDuration, h.MaxDuration)}
	query := r.URL.Query()
	if text := query.Get("seconds"); query.Has("seconds") {
		seconds, err := strconv.ParseFloat(text, 64)
		// Written so that not-a-number fails too.
		if err != nil || !(seconds > 0 && seconds <= h.MaxDuration.Seconds()) {
			return request, fmt.Errorf("onstack: seconds=%q: give a number above 0 and up to %v, HandlerOptions.MaxDuration", text,
				h.MaxDuration.Seconds())
		}
		request.duration = time.Duration(seconds * float64(time.Second))
	}
	if text := query.Get("hz"); query.Has("hz") {
		hz, err := strconv.Atoi(text)
		if err != nil || hz < 1 || hz > h.MaxRate {
			return request, fmt.Errorf("onstack: hz=%q: give a whole number from 1 to %d, HandlerOptions.MaxRate", text, h.MaxRate)
		}
		request.options = append(request.options, onstack.WithRate(hz))
	}
	if text := query.Get("clock"); query.Has("clock") {
		clock, known := map[string]onstack.Clock{"cpu": onstack.ClockCPU, "wall": onstack.ClockWall, "wall-signal": onstack.ClockWallSignal}[text]
		if !known {
			return request, fmt.Errorf("onstack: clock=%q: give cpu, wall or wall-signal", text)
		}
		request.clock = clock
		request.options = append(request.options, onstack.WithClock(clock))
	}
	if text := query.Get("timeline"); query.Has("timeline") {
		if text != "0" && text != "1" {
			return request, fmt.Errorf("onstack: timeline=%q: give 1 to keep the times of samples, or 0", text)
		}
		if text == "1" {
			request.options = append(request.options, onstack.WithTimeline())
		}
	}
	return request, withinWriteTimeout(r, request.duration)
}

// withinWriteTimeout is the error where the server would cut the answer off.
func withinWriteTimeout(r *http.Request, duration time.Duration) error {
	server, ok := r.Context().Value(http.ServerContextKey).(*http.Server)
	if !ok || server.WriteTimeout <= 0 || duration < server.WriteTimeout {
		return nil
	}
	return fmt.Errorf("onstack: %v is more than this server's WriteTimeout of %v allows: ask for less with "+
		"?seconds=, or raise WriteTimeout", duration, server.WriteTimeout)
}

// serve answers, unless there is an error to be told. By then the request is none of those that have a profile.
func (h *handler) serve(w http.ResponseWriter, r *http.Request, request profileRequest) error {
	over := time.Now().Add(request.duration)
	if !answering.enter(over, h.MaxConcurrent) {
		return errMaxConcurrent
	}
	defer answering.leave(over)
	options := slices.Concat(h.withinMaxRate(request.clock), h.Profile, request.options)
	profile, err := onstack.Collect(r.Context(), request.duration, options...)
	if r.Context().Err() != nil {
		return nil // the client has gone, and there is nobody to tell
	}
	if err != nil {
		return err
	}
	defer profile.Close()
	var body bytes.Buffer
	if _, err := profile.WriteTo(&body); err != nil {
		return err
	}
	w.Header().Set("Content-Length", strconv.Itoa(body.Len()))
	sendFile(w, "profile.pb.gz", body.Bytes())
	return nil
}

// sendFile answers with something to keep.
func sendFile(w http.ResponseWriter, name string, body []byte) {
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("Content-Disposition", `attachment; filename="`+name+`"`)
	_, _ = w.Write(body) // a peer that has gone is nobody to tell
}

// admit is enter, and tells who comes too early when to ask again.
func (a *answers) admit(w http.ResponseWriter, over time.Time, most int, what string) bool {
	if a.enter(over, most) {
		return true
	}
	a.retryLater(w)
	http.Error(w, fmt.Sprintf("onstack: %d %s are being made over HTTP already: ask again when they are done", most, what),
		http.StatusTooManyRequests)
	return false
}

// retryLater names the whole seconds after which a profile that runs now will be over.
func (a *answers) retryLater(w http.ResponseWriter) {
	w.Header().Set("Retry-After", strconv.Itoa(1+int(a.next().Seconds())))
}

func (h *handler) refuse(w http.ResponseWriter, err error) {
	status, text := http.StatusInternalServerError, err.Error()
	switch {
	case errors.Is(err, errMaxConcurrent):
		status = http.StatusTooManyRequests
		text = fmt.Sprintf("onstack: %d profiles are being taken over HTTP already: ask again when they are done, or "+
			"raise HandlerOptions.MaxConcurrent", h.MaxConcurrent)
		answering.retryLater(w)
	case errors.Is(err, onstack.ErrSessions):
		status = http.StatusServiceUnavailable
		answering.retryLater(w)
	case errors.Is(err, onstack.ErrUnsupported):
		status = http.StatusNotImplemented
	case errors.Is(err, onstack.ErrFrequency), errors.Is(err, onstack.ErrOptions):
		status = http.StatusBadRequest
	}
	http.Error(w, text, status)
}

// What HandlerOptions mean by zero. Scrapers ask for a minute at most, and the kernel's tick makes few samples more of a
// higher rate.
const (
	defaultMaxDuration   = 5 * time.Minute
	defaultMaxRate       = 1000
	defaultMaxConcurrent = 4
)

// What HandlerOptions may say at most.
const (
	mostDuration   = time.Hour // keeps a mistyped request from profiling for ever
	mostRate       = 10000     // the core's
	mostConcurrent = 8         // the core's sessions
)

// HandlerOptions say how much of the process requests may take.
type HandlerOptions struct {
	MaxDuration time.Duration // of a profile, up to an hour; 0: 5 minutes
	MaxRate     int           // that a request may ask for, up to 10,000 Hz; 0: 1,000 Hz. What Profile says is not bounded

	// MaxConcurrent is how many profiles are taken and answered at once, up to 8, by all handlers of the process together;
	// 0: 4. What it leaves of the process's eight sessions is for its own Start, Push and StartCPUProfile.
	MaxConcurrent int

	// Profile is how to profile, where the request does not say otherwise.
	Profile []onstack.Option
}

// complete checks the options and fills in the defaults.
func (o *HandlerOptions) complete() error {
	if o.MaxDuration < 0 || o.MaxDuration > mostDuration {
		return badOption("HandlerOptions.MaxDuration", "%v: give up to %v, or 0 for %v", o.MaxDuration, mostDuration, defaultMaxDuration)
	}
	if o.MaxDuration == 0 {
		o.MaxDuration = defaultMaxDuration
	}
	for _, number := range []struct {
		name       string
		value      *int
		most, zero int
	}{
		{"MaxRate", &o.MaxRate, mostRate, defaultMaxRate},
		{"MaxConcurrent", &o.MaxConcurrent, mostConcurrent, defaultMaxConcurrent},
	} {
		if *number.value < 0 || *number.value > number.most {
			return badOption("HandlerOptions."+number.name, "%d: give a number from 1 to %d, or 0 for %d", *number.value, number.most,
				number.zero)
		}
		if *number.value == 0 {
			*number.value = number.zero
		}
	}
	return nil
}

// withinMaxRate is for the rate where neither the request nor Profile says one: that of the clock which the request names is
// left alone if it may be.
func (o *HandlerOptions) withinMaxRate(clock onstack.Clock) []onstack.Option {
	rate := onstack.DefaultRate
	if clock == onstack.ClockWall {
		rate = wallRate
	}
	if rate <= o.MaxRate {
		return nil
	}
	return []onstack.Option{onstack.WithRate(o.MaxRate)}
}
