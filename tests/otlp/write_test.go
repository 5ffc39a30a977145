// SPDX-License-Identifier: MIT OR Apache-2.0

// Package otlp has tests of what onstack sends to OpenTelemetry, read by OpenTelemetry's own libraries.
package otlp

import (
	"bytes"
	"context"
	"runtime/pprof"
	"testing"
	"time"

	"github.com/google/pprof/profile"
	"go.opentelemetry.io/collector/pdata/pprofile"

	onstack "github.com/onstack-profiler/onstack/bindings/go"
	"github.com/onstack-profiler/onstack/bindings/go/onstackhttp"
)

const traceID, spanID = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"

// spend burns CPU time with and without labels until the profile has samples of each.
func spend(t testing.TB, p *onstack.Profile) {
	t.Helper()
	for start := time.Now(); time.Since(start) < time.Minute; {
		for _, labels := range []pprof.LabelSet{
			pprof.Labels(),
			pprof.Labels("http.route", "/cart/{id}", "tenant-id", "a b"),
			pprof.Labels("trace_id", traceID, "span_id", spanID, "http.route", "/pay"),
			pprof.Labels("trace_id", "none", "span_id", spanID),
		} {
			pprof.Do(context.Background(), labels, func(context.Context) { burn(20 * time.Millisecond) })
		}
		if p.Stats().Samples > 200 {
			return
		}
	}
	t.Fatal("no samples")
}

//go:noinline
func burn(d time.Duration) (sum int) {
	for start := time.Now(); time.Since(start) < d; {
		for i := range 10_000 {
			sum += i * i
		}
	}
	return sum
}

func profiled(t testing.TB, options ...onstack.Option) *onstack.Profile {
	t.Helper()
	p, err := onstack.Start(append([]onstack.Option{onstack.WithRate(1000)}, options...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	spend(t, p)
	if err := p.Stop(); err != nil {
		t.Fatal(err)
	}
	return p
}

func pprofOf(t testing.TB, p *onstack.Profile) *profile.Profile {
	t.Helper()
	var out bytes.Buffer
	if _, err := p.WriteTo(&out); err != nil {
		t.Fatal(err)
	}
	parsed, err := profile.ParseData(out.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	return parsed
}

func decoded(t testing.TB, raw []byte) pprofile.Profiles {
	t.Helper()
	all, err := (&pprofile.ProtoUnmarshaler{}).UnmarshalProfiles(raw)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestWritten(t *testing.T) {
	p := profiled(t)
	var raw bytes.Buffer
	if err := onstackhttp.WriteOTLP(&raw, p, map[string]string{"service.name": "shop", "host.name": "h-1"}); err != nil {
		t.Fatal(err)
	}
	all := decoded(t, raw.Bytes())
	same(t, pprofOf(t, p), all)
	t.Logf("%d bytes, %d samples", raw.Len(), all.SampleCount())

	resource := all.ResourceProfiles().At(0).Resource().Attributes().AsRaw()
	if len(resource) != 2 || resource["service.name"] != "shop" || resource["host.name"] != "h-1" {
		t.Fatalf("the resource is %v", resource)
	}
	if links := all.Dictionary().LinkTable().Len(); links != 2 {
		t.Fatalf("%d links, of one span", links-1)
	}
}
