module github.com/onstack-profiler/onstack/tests/go

go 1.24.0

require (
	github.com/bytecodealliance/wasmtime-go/v39 v39.0.1
	github.com/tetratelabs/wazero v1.9.0
)
