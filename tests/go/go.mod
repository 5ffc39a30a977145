module github.com/onstack-profiler/onstack/tests/go

go 1.24.0
