// SPDX-License-Identifier: MIT OR Apache-2.0

package onstackhttp

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	onstack "github.com/onstack-profiler/onstack/bindings/go"
)

// What PushOptions mean by zero.
const (
	defaultInterval        = 15 * time.Second
	defaultTimeout         = 10 * time.Second
	defaultFlushTimeout    = 5 * time.Second
	defaultMaxWaiting      = 20
	defaultMaxWaitingBytes = 64 << 20
)

// PushOptions say what is sent, and where. URL and Service are needed.
type PushOptions struct {
	// Protocol is the server's: PushIngest, or PushOTLP.
	Protocol PushProtocol

	// URL of the server, "https://pyroscope.example.org" or "http://collector:4318"; "/ingest" or, of PushOTLP,
	// "/v1development/profiles" is added where it is not its end.
	URL string

	// Service is the service's name there: letters, digits, and any of "_-./"; of PushOTLP any text.
	Service string

	// Labels are the same for each profile: environment, host, version. Names are letters, digits and underscores, and
	// do not begin with a digit; values have no comma and no closing brace, which the server would take for their end.
	// Of PushOTLP they are the resource's attributes, of any text: "deployment.environment.name".
	Labels map[string]string

	// Header goes with each request: "Authorization", or "X-Scope-OrgID" for the tenant.
	Header http.Header

	Interval     time.Duration // between two profiles, from 1 s on; 0: 15 s
	Timeout      time.Duration // of a request; 0: 10 s
	FlushTimeout time.Duration // for what waits when ctx has ended and the last profile is made; 0: 5 s
	MaxWaiting   int           // profiles that wait, besides the one that is being sent; 0: 20

	// MaxWaitingBytes is how many bytes these hold, compressed, and the largest profile that is sent at all; 0: 64 MiB.
	MaxWaitingBytes int

	// Client sends the requests, for a certificate or a proxy of one's own; nil: one with a transport of its own.
	// Redirections are not followed: net/http makes a GET of a redirected POST, and leaves Authorization out on another host.
	Client *http.Client

	// Profile is how to profile. Thread ids are off unless it says otherwise, as Pyroscope drops labels that are numbers.
	Profile []onstack.Option

	// Report is told of each attempt that failed and of each profile that is lost. One call at a time; sampling goes on
	// meanwhile, sending waits. nil: slog.Default() gets a warning.
	Report func(PushEvent)
}

// PushOutcome is what became of a profile that could not be sent.
type PushOutcome int

const (
	PushRetry   PushOutcome = iota // it waits for the next attempt, after PushEvent.Retry
	PushFailed                     // lost: the server refused it for good, or it could not be made
	PushDropped                    // lost: no room to wait, or no time left after the end
)

func (o PushOutcome) String() string {
	switch o {
	case PushRetry:
		return "retry"
	case PushFailed:
		return "failed"
	case PushDropped:
		return "dropped"
	}
	return "unknown"
}

// PushEvent is something that went wrong.
type PushEvent struct {
	Outcome PushOutcome
	Err     error         // why
	Retry   time.Duration // until the next attempt, of PushRetry
	Stats   PushStats     // with this event in it
}

// PushStats are the numbers of a Pusher. At any time
//
//	Taken == Sent + Failed + Dropped + Empty + Waiting
type PushStats struct {
	Taken   uint64 // profiles: one each interval, and the last
	Sent    uint64 // the server took them
	Failed  uint64 // the server refused them for good, or they could not be made
	Dropped uint64 // they had no room to wait, or no time left after the end
	Empty   uint64 // without a sample, as no thread used CPU time: nothing to send
	Waiting uint64 // the one that is being sent among them
	Retries uint64 // attempts, not profiles, that failed and left the profile waiting for another
}

// complete checks what newPushTarget does not, and fills in the defaults.
func (o *PushOptions) complete() error {
	for _, duration := range []struct {
		name        string
		value       *time.Duration
		least, zero time.Duration
	}{
		{"Interval", &o.Interval, time.Second, defaultInterval},
		{"Timeout", &o.Timeout, time.Millisecond, defaultTimeout},
		{"FlushTimeout", &o.FlushTimeout, time.Millisecond, defaultFlushTimeout},
	} {
		if *duration.value == 0 {
			*duration.value = duration.zero
		}
		if *duration.value < duration.least {
			return badPushOption(duration.name, "%v: give %v or more, or 0 for %v", *duration.value, duration.least, duration.zero)
		}
	}
	for _, number := range []struct {
		name  string
		value *int
		zero  int
	}{
		{"MaxWaiting", &o.MaxWaiting, defaultMaxWaiting},
		{"MaxWaitingBytes", &o.MaxWaitingBytes, defaultMaxWaitingBytes},
	} {
		if *number.value < 0 {
			return badPushOption(number.name, "%d: give a number from 1 on, or 0 for %d", *number.value, number.zero)
		}
		*number.value = cmp.Or(*number.value, number.zero)
	}
	if o.Report == nil {
		o.Report = logPushEvent
	}
	return nil
}

func badPushOption(name, format string, args ...any) error {
	return badOption("PushOptions."+name, format, args...)
}

func badOption(name, format string, args ...any) error {
	return fmt.Errorf("onstack: %s: %s: %w", name, fmt.Sprintf(format, args...), onstack.ErrOptions)
}

func logPushEvent(e PushEvent) {
	attributes := []slog.Attr{slog.String("outcome", e.Outcome.String()), slog.Any("error", e.Err)}
	if e.Outcome == PushRetry {
		attributes = append(attributes, slog.Duration("retry", e.Retry))
	}
	attributes = append(attributes, slog.Uint64("sent", e.Stats.Sent), slog.Uint64("failed", e.Stats.Failed),
		slog.Uint64("dropped", e.Stats.Dropped), slog.Uint64("waiting", e.Stats.Waiting))
	slog.LogAttrs(context.Background(), slog.LevelWarn, "profile not sent", attributes...)
}
