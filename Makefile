# SPDX-License-Identifier: MIT OR Apache-2.0
# The front door. `make help` lists the verbs; CI runs nothing but these.
BUILD ?= build
export BUILD
export CARGO_TARGET_DIR ?= $(CURDIR)/$(BUILD)/rust

.DEFAULT_GOAL := help

.PHONY: help
help: ## this list
	@awk -F ':.*## ' '/^[a-z][a-z0-9-]*:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

.PHONY: deps
deps: ## install what demo and test need (says the command first; ONSTACK_NO_INSTALL=1: only says)
	@ci/deps.sh

.PHONY: lib
lib: ## the C library: build/lib/libonstack.a and .so
	@$(MAKE) --no-print-directory -f core/Makefile lib

.PHONY: demo
demo: deps ## one profile of a real Go + Rust service, into build/demo
	@examples/demo.sh

.PHONY: test
test: deps ## all tests (C, Rust, Go, README), at most 20 minutes on two cores
	@ci/test.sh

.PHONY: matrix
matrix: deps lib ## every order of start and stop beside Go's profiler, in five hosts (hours; resumable; see tests/matrix)
	@python3 tests/matrix/run.py

.PHONY: test-aarch64
test-aarch64: ## the core and Go on arm64: qemu-user, and a VM with Debian's arm64 kernel
	@ci/test-aarch64.sh

.PHONY: fuzz
fuzz: ## libFuzzer on the parsers and the walkers, FUZZ_SECONDS (600) each, two at a time; see tests/fuzz/run.sh
	@tests/fuzz/run.sh fuzz

.PHONY: test-go-packaging
test-go-packaging: ## Go: every build mode, race, asan, without cgo (minutes)
	@ci/test-go-packaging.sh

.PHONY: test-old-kernel
test-old-kernel: ## stops over SIG_DFL in a VM with Debian 12's kernel (6.1), where a deleted timer's signal stays pending
	@ci/test-old-kernel.sh

.PHONY: check
check: ## what needs no running: generated copies, exports, includes, handler imports, formats
	@ONSTACK_DEPS=check ci/deps.sh
	@ci/check.sh

.PHONY: bench
bench: deps lib ## onstack beside its neighbours: a table and build/bench.json
	@ONSTACK_DEPS=bench ci/deps.sh
	@python3 tests/bench/run.py

.PHONY: fmt
fmt: ## format Rust and Go
	@cd bindings/rust && cargo fmt --all
	@gofmt -w bindings/go examples

.PHONY: clean
clean: ## remove build/
	rm -rf $(BUILD)
