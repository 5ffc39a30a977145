// SPDX-License-Identifier: MIT OR Apache-2.0

package onstack

import (
	"errors"
	"fmt"
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
	// ErrActive is StartCPUProfile's answer while its last profile is still being taken.
	ErrActive = errors.New("onstack: a CPU profile is being taken already: call StopCPUProfile first, " +
		"or use Start for several at once")
	// ErrClosed is the answer of a Profile after Close.
	ErrClosed = errors.New("onstack: the profile has been closed: write it before Close")
)

// Error returns a sentence that says what the reason means and what can be done.
func (e Error) Error() string { return errorText(e) }

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
