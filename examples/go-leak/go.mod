module github.com/onstack-profiler/onstack/examples/go-leak

go 1.25.0

replace github.com/onstack-profiler/onstack/bindings/go => ../../bindings/go

require github.com/onstack-profiler/onstack/bindings/go v0.0.0-00010101000000-000000000000

require (
	github.com/google/pprof v0.0.0-20260906184651-6331bc6350fe // indirect
	github.com/ianlancetaylor/demangle v0.0.0-20260724033716-83e58baca724 // indirect
	go.opentelemetry.io/proto/slim/otlp v1.11.0 // indirect
	go.opentelemetry.io/proto/slim/otlp/profiles/v1development v0.4.0 // indirect
	google.golang.org/protobuf v1.36.11 // indirect
)
