module github.com/onstack-profiler/onstack/tests/bench/go

go 1.25.0

require (
	github.com/bytecodealliance/wasmtime-go/v39 v39.0.1
	github.com/google/pprof v0.0.0-20260906184651-6331bc6350fe
)
