module github.com/onstack-profiler/onstack/examples/go-wasmtime

go 1.25.0

require (
	github.com/bytecodealliance/wasmtime-go/v39 v39.0.1
	github.com/google/pprof v0.0.0-20260906184651-6331bc6350fe
	github.com/onstack-profiler/onstack/bindings/go v0.0.0
)

require (
	github.com/ianlancetaylor/demangle v0.0.0-20260724033716-83e58baca724 // indirect
	go.opentelemetry.io/proto/slim/otlp v1.11.0 // indirect
	go.opentelemetry.io/proto/slim/otlp/profiles/v1development v0.4.0 // indirect
	google.golang.org/protobuf v1.36.11 // indirect
)

replace github.com/onstack-profiler/onstack/bindings/go => ../../bindings/go
