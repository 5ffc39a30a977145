// SPDX-License-Identifier: MIT OR Apache-2.0

package onstackhttp

import (
	"time"

	onstack "github.com/onstack-profiler/onstack/bindings/go"
)

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
