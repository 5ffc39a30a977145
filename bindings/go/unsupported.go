// SPDX-License-Identifier: MIT OR Apache-2.0

//go:build !(cgo && linux)

package onstack

import (
	"fmt"
	"io"
	"time"
)

// Profile is one running or stopped CPU profile. On this system, or in this build, none can be started.
type Profile struct{}

// Start returns ErrUnsupported, or what is wrong with the options.
func Start(opts ...Option) (*Profile, error) {
	if _, err := newConfig(opts); err != nil {
		return nil, err
	}
	return nil, fmt.Errorf("onstack: start: %w", ErrUnsupported)
}

// Stop returns ErrUnsupported.
func (*Profile) Stop() error { return ErrUnsupported }

// Close returns ErrUnsupported.
func (*Profile) Close() error { return ErrUnsupported }

// TakeTo returns ErrUnsupported.
func (*Profile) TakeTo(io.Writer) (int64, error) { return 0, ErrUnsupported }

// Modules is empty.
func (*Profile) Modules() []ModuleStats { return nil }

// Reset returns ErrUnsupported.
func (*Profile) Reset() error { return ErrUnsupported }

// Stats returns zeros.
func (*Profile) Stats() Stats { return Stats{} }

// WriteTo returns ErrUnsupported.
func (*Profile) WriteTo(io.Writer) (int64, error) { return 0, ErrUnsupported }

// WriteFolded returns ErrUnsupported.
func (*Profile) WriteFolded(io.Writer) error { return ErrUnsupported }

// writeNativeHeap has nothing to write.
func writeNativeHeap(io.Writer, time.Duration) (bool, error) { return false, nil }

// memory has nothing to look at.
func memory() ([]byte, error) { return nil, fmt.Errorf("onstack: memory: %w", ErrUnsupported) }

// dump has nothing to look at.
func dump() ([]byte, error) { return nil, fmt.Errorf("onstack: dump: %w", ErrUnsupported) }

// dumpProfile has nothing to look at.
func dumpProfile() ([]byte, error) { return dump() }

// advice has nothing to go by: no modules are known here.
func advice(string) string { return "" }

const unsupportedText = "not available here: it needs Linux, cgo (CGO_ENABLED=1) and a C compiler at build time"
