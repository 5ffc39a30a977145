// SPDX-License-Identifier: MIT OR Apache-2.0

// A Go service whose traces and profiles are linked: each request is a trace of a few spans, and each sample of the profile
// names the span in which it was taken. After some requests it prints what each span used of the CPU, and in which function.
//
//	go run . -collector http://localhost:4318
//
// sends both to an OpenTelemetry collector as well (which takes profiles with --feature-gates=service.profilesSupport).
package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"log"
	"os"
	"runtime/pprof"
	"strings"
	"text/tabwriter"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	onstack "github.com/onstack-profiler/onstack/bindings/go"
	"github.com/onstack-profiler/onstack/bindings/go/onstackhttp"
)

// inSpan runs a part of a request in a span, and links to it what is sampled meanwhile.
func inSpan(ctx context.Context, name string, do func(context.Context)) {
	ctx, span := otel.Tracer("shop").Start(ctx, name)
	defer span.End()
	id := span.SpanContext()
	pprof.Do(ctx, pprof.Labels("trace_id", id.TraceID().String(), "span_id", id.SpanID().String()), do)
}

func checkout(ctx context.Context) {
	inSpan(ctx, "checkout", func(ctx context.Context) {
		inSpan(ctx, "price", func(context.Context) { sumPrices(3000) })
		inSpan(ctx, "stock", func(context.Context) {
			time.Sleep(40 * time.Millisecond) // a database, say
			countStock(750)
		})
		renderPage(500)
	})
}

//go:noinline
func sumPrices(rounds int) float64 { return spend(rounds) }

//go:noinline
func countStock(rounds int) float64 { return spend(rounds) }

//go:noinline
func renderPage(rounds int) float64 { return spend(rounds) }

func spend(rounds int) (sum float64) {
	for i := range rounds * 5_000 {
		sum += float64(i) * sum / 3
	}
	return sum
}

func main() {
	collector := flag.String("collector", "", "URL of an OpenTelemetry collector")
	requests := flag.Int("requests", 20, "how many requests are served")
	flag.Parse()
	ctx, end := context.WithCancel(context.Background())

	spans := tracetest.NewInMemoryExporter()
	options := []trace.TracerProviderOption{trace.WithSyncer(spans)}
	pushed := make(chan struct{})
	if *collector != "" {
		options = append(options, trace.WithBatcher(must(otlptracehttp.New(ctx, otlptracehttp.WithEndpointURL(*collector+"/v1/traces")))))
		pusher := must(onstackhttp.NewPusher(onstackhttp.PushOptions{Protocol: onstackhttp.PushOTLP, URL: *collector, Service: "shop"}))
		go func() {
			defer close(pushed)
			log.Print(pusher.Run(ctx), ", ", fmt.Sprintf("%+v", pusher.Stats()))
		}()
	}
	provider := trace.NewTracerProvider(options...)
	otel.SetTracerProvider(provider)

	profile := must(onstack.Start(onstack.WithRate(500)))
	for range *requests {
		checkout(ctx)
	}
	profile.Stop()
	var otlp bytes.Buffer
	if err := onstackhttp.WriteOTLP(&otlp, profile, map[string]string{"service.name": "shop"}); err != nil {
		log.Fatal(err)
	}
	show(spans.GetSpans(), linked(otlp.Bytes()))

	end()
	if *collector != "" {
		<-pushed
		provider.Shutdown(context.Background())
	}
}

func must[T any](value T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return value
}

// show adds up the requests.
func show(spans tracetest.SpanStubs, used map[string]amount) {
	table := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	defer table.Flush()
	fmt.Fprintln(table, "span\tspans\tlasted\tCPU time\tmost of it in")
	for _, name := range []string{"checkout", "price", "stock"} {
		var lasted, cpu time.Duration
		count, functions := 0, map[string]time.Duration{}
		for _, span := range spans {
			if span.Name != name {
				continue
			}
			one := used[span.SpanContext.TraceID().String()+span.SpanContext.SpanID().String()]
			count, lasted, cpu = count+1, lasted+span.EndTime.Sub(span.StartTime), cpu+one.cpu
			for function, time := range one.functions {
				functions[function] += time
			}
		}
		most := ""
		for function, time := range functions {
			if strings.HasPrefix(function, "main.") && time > functions[most] {
				most = function
			}
		}
		fmt.Fprintf(table, "%s\t%d\t%v\t%v\t%s\n", name, count, lasted.Round(time.Millisecond), cpu.Round(time.Millisecond), most)
	}
}
