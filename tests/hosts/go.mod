module github.com/onstack-profiler/onstack/tests/hosts

go 1.25.0

require (
	github.com/confluentinc/confluent-kafka-go/v2 v2.11.1
	github.com/google/pprof v0.0.0-20260906184651-6331bc6350fe
	github.com/onstack-profiler/onstack/bindings/go v0.0.0
	github.com/tetratelabs/wazero v1.9.0
)

require github.com/ianlancetaylor/demangle v0.0.0-20260724033716-83e58baca724 // indirect

replace github.com/onstack-profiler/onstack/bindings/go => ../../bindings/go
