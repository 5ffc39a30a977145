// SPDX-License-Identifier: MIT OR Apache-2.0

//go:build cgo && linux

package onstack

import (
	"fmt"
	"io"
	"maps"
	"runtime"
	"slices"
	"strings"
)

// WriteOTLP writes the profile for OpenTelemetry: an ExportProfilesServiceRequest of opentelemetry-proto 1.11, package
// opentelemetry.proto.profiles.v1development, not compressed. The signal is experimental there, and so is this method.
//
// resource says whose profile it is, as {"service.name": "shop"}. Labels become attributes of the samples, and the labels
// trace_id and span_id, in hexadecimal digits, their link to a span:
//
//	span := trace.SpanContextFromContext(ctx)
//	labels := pprof.Labels("trace_id", span.TraceID().String(), "span_id", span.SpanID().String())
//	pprof.Do(ctx, labels, handle)
//
// Context is WriteTo's. Errors: ErrClosed, ErrOptions for an attribute without a key or with a NUL, and those of w.
func (p *Profile) WriteOTLP(w io.Writer, resource map[string]string) error {
	defer runtime.KeepAlive(p)
	return p.writeOTLP(w, resource, p.render)
}

// TakeOTLP writes as WriteOTLP does and begins anew, as TakeTo does.
func (p *Profile) TakeOTLP(w io.Writer, resource map[string]string) error {
	defer runtime.KeepAlive(p)
	return p.writeOTLP(w, resource, p.renderTaken)
}

func (p *Profile) writeOTLP(w io.Writer, resource map[string]string, render func(outputForm) ([]byte, error)) error {
	pairs, err := resourcePairs(resource)
	if err != nil {
		return err
	}
	raw, err := render(otlpForm(pairs, len(resource)))
	if err != nil {
		return err
	}
	_, err = w.Write(raw)
	return err
}

// resourcePairs is key and value in turn, each with a NUL behind it.
func resourcePairs(resource map[string]string) ([]byte, error) {
	var pairs []byte
	for _, key := range slices.Sorted(maps.Keys(resource)) {
		if key == "" || strings.Contains(key, "\x00") || strings.Contains(resource[key], "\x00") {
			return nil, fmt.Errorf("onstack: resource attribute %q: give it a key, and no NUL: %w", key, ErrOptions)
		}
		pairs = append(append(pairs, key...), 0)
		pairs = append(append(pairs, resource[key]...), 0)
	}
	return pairs, nil
}
