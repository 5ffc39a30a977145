module github.com/onstack-profiler/onstack/examples/go-sqlite

go 1.25.0

replace github.com/onstack-profiler/onstack/bindings/go => ../../bindings/go

require (
	github.com/google/pprof v0.0.0-20260906184651-6331bc6350fe
	github.com/mattn/go-sqlite3 v1.14.53
	github.com/onstack-profiler/onstack/bindings/go v0.0.0-00010101000000-000000000000
)
