module github.com/onstack-profiler/onstack/tests/bench/go

go 1.25.0

require github.com/bytecodealliance/wasmtime-go/v39 v39.0.1
