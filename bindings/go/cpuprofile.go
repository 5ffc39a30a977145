// SPDX-License-Identifier: MIT OR Apache-2.0

package onstack

import (
	"fmt"
	"io"
	"sync"
)

// The one profile of StartCPUProfile. `mu` is held through start and stop: they come in pairs or wait for each other.
var cpu struct {
	mu      sync.Mutex
	profile *Profile
	w       io.Writer
}

// StartCPUProfile starts a profile that StopCPUProfile will write to w, gzip-compressed, for `go tool pprof`. It stands
// beside runtime/pprof's function of that name, which may run at the same time.
//
// Errors: ErrActive, and those of Start.
func StartCPUProfile(w io.Writer, opts ...Option) error {
	if w == nil {
		return fmt.Errorf("onstack: StartCPUProfile needs a writer: %w", ErrOptions)
	}
	cpu.mu.Lock()
	defer cpu.mu.Unlock()
	if cpu.profile != nil {
		return ErrActive
	}
	p, err := Start(opts...)
	if err != nil {
		return err
	}
	cpu.profile, cpu.w = p, w
	return nil
}

// StopCPUProfile stops the profile that StartCPUProfile started and returns when all of it is written. The error is
// the writer's, or the profiler's; without a profile there is nothing to do, and it returns nil.
func StopCPUProfile() error {
	cpu.mu.Lock()
	defer cpu.mu.Unlock()
	if cpu.profile == nil {
		return nil
	}
	p, w := cpu.profile, cpu.w
	cpu.profile, cpu.w = nil, nil
	defer p.Close()
	if err := p.Stop(); err != nil {
		return err
	}
	_, err := p.WriteTo(w)
	return err
}
