// SPDX-License-Identifier: MIT OR Apache-2.0

package onstack

import (
	"context"
	"time"
)

// Collect profiles for a while and returns the stopped profile, which the caller writes and closes. When ctx ends
// before, the profile is given up: then the error is context.Cause(ctx).
//
// Errors: those of Start and Stop besides.
func Collect(ctx context.Context, duration time.Duration, opts ...Option) (*Profile, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	p, err := Start(opts...)
	if err != nil {
		return nil, err
	}
	timer := time.NewTimer(duration)
	defer timer.Stop()
	select {
	case <-timer.C:
		err = p.Stop()
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	if err != nil {
		// What stopped it is what the caller wants to know.
		_ = p.Close()
		return nil, err
	}
	return p, nil
}
