module github.com/onstack-profiler/onstack/tests/aarch64/go

go 1.25.0

require (
	github.com/google/pprof v0.0.0-20260906184651-6331bc6350fe
	github.com/onstack-profiler/onstack/bindings/go v0.0.0
)

replace github.com/onstack-profiler/onstack/bindings/go => ../../../bindings/go
