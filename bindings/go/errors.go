// SPDX-License-Identifier: MIT OR Apache-2.0

package onstack

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"syscall"
)

// Error is a reason of the profiler's core. Errors of this package wrap one, or a syscall.Errno when a system call
// failed; compare with errors.Is.
type Error int

// The reasons, with the core's numbers.
const (
	ErrFrequency   Error = -4096 // the rate is 0, negative or above 10,000 Hz
	ErrOptions     Error = -4097 // an option has a value that it cannot have
	ErrUnwinder    Error = -4098 // no unwinder of that name
	ErrSignal      Error = -4099 // the signal cannot be caught, is reserved, or means more than a call; in a Go process all but SIGPROF
	ErrSessions    Error = -4100 // all eight sessions are running
	ErrStopped     Error = -4101 // the profile was stopped before
	ErrOutput      Error = -4102 // the writer refused the bytes
	ErrUnsupported Error = -4103 // not available on this system or in this build; is also errors.ErrUnsupported
	ErrVersion     Error = -4104 // header and library do not fit together
	ErrContext     Error = -4105 // called where it must not be
	ErrClock       Error = -4106 // nothing here can tick: timers are refused, and signals of a thread do not arrive either
	ErrKinds       Error = -4107 // the profile holds several kinds of samples, and folded stacks have one number
)

var (
	// ErrActive is returned by StartCPUProfile while its last profile is still being taken.
	ErrActive = errors.New("onstack: a CPU profile is being taken already: call StopCPUProfile first, " +
		"or use Start for several at once")
	// ErrClosed is returned by a Profile after Close.
	ErrClosed = errors.New("onstack: the profile has been closed: write it before Close")
)

// Error returns a sentence that says what the reason means and what can be done.
func (e Error) Error() string {
	if e == ErrUnsupported {
		return unsupportedText
	}
	if text, ok := errorTexts[e]; ok {
		return text
	}
	return "error " + strconv.Itoa(int(e)) + " of the profiler's core"
}

var errorTexts = map[Error]string{
	ErrFrequency: "give 1 to 10,000 Hz",
	ErrOptions:   "an option has a value that it cannot have",
	ErrUnwinder:  `there is no such unwinder: give "rules", "frame_pointer" or "pc_only"`,
	ErrSignal:    "this signal cannot be used: a Go process is sampled by SIGPROF, leave it at that",
	ErrSessions:  "all 8 sessions of the process are running, or the one that a heap can have: stop a profile first",
	ErrStopped:   "the profile has been stopped already",
	ErrOutput:    "the profile could not be written: the writer refused the bytes",
	ErrVersion:   "the package and its C code do not fit together: build it anew (go clean -cache)",
	ErrContext:   "called where it would wait for itself: call it from another goroutine",
	ErrClock: "nothing can tick here: timer_create(2) is refused, and a signal that the process sends itself carries no value; " +
		"allow timers in the seccomp filter, or raise RLIMIT_SIGPENDING; for real time /proc must show this PID " +
		"namespace, and /proc/self/task/*/syscall be readable (else take ClockWallSignal)",
	ErrKinds: "the profile holds several kinds of samples, and folded stacks have one number: write pprof",
}

// optionOf has this package's name of an option of the core, which says what is wrong with it (onstack_options_fault).
var optionOf = map[string]string{
	"frequency":     "WithRate",
	"max_depth":     "WithMaxDepth",
	"buffer_bytes":  "WithBufferSize",
	"signal":        "WithSignal",
	"unwinder":      "WithUnwinder",
	"clock":         "WithClock",
	"heap_interval": "WithHeapInterval",
	"interpreters":  "WithInterpreters",
}

// optionError names the option that a start refused, if one is the reason.
func optionError(code int, fault string) error {
	option, what, found := strings.Cut(fault, ": ")
	if !found {
		return coreError("start", code)
	}
	if name, known := optionOf[option]; known {
		option = name
	}
	if Error(code) != ErrOptions { // the reason says what to give
		return fmt.Errorf("onstack: %s: %w", option, Error(code))
	}
	return fmt.Errorf("onstack: %s: %s: %w", option, what, Error(code))
}

// Is lets ErrUnsupported match errors.ErrUnsupported too.
func (e Error) Is(target error) bool { return e == ErrUnsupported && target == errors.ErrUnsupported }

// coreError turns a result of the core into an error; results that are not negative are no error.
func coreError(action string, code int) error {
	switch {
	case code >= 0:
		return nil
	case code > int(ErrFrequency):
		return fmt.Errorf("onstack: %s: %w", action, syscall.Errno(-code))
	default:
		return fmt.Errorf("onstack: %s: %w", action, Error(code))
	}
}
