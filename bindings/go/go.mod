module github.com/onstack-profiler/onstack/bindings/go

go 1.25.0

require (
	github.com/google/pprof v0.0.0-20260906184651-6331bc6350fe
	github.com/ianlancetaylor/demangle v0.0.0-20260724033716-83e58baca724
	go.opentelemetry.io/proto/slim/otlp v1.11.0
	go.opentelemetry.io/proto/slim/otlp/profiles/v1development v0.4.0
	google.golang.org/protobuf v1.36.11
)
