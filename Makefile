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

.PHONY: install
install: lib ## library, header, pkg-config, CMake package and man pages below PREFIX (/usr/local); DESTDIR for packages
	@$(MAKE) --no-print-directory -f core/install.mk install

.PHONY: uninstall
uninstall: ## remove what `make install` with the same PREFIX and DESTDIR put there
	@$(MAKE) --no-print-directory -f core/install.mk uninstall

.PHONY: demo
demo: deps ## one profile of a real Go + Rust service, into build/demo
	@examples/demo.sh

.PHONY: demo-memory
demo-memory: deps ## a Go service with a leak in C: Go's own heap profile, and the one of both heaps, into build/demo-memory
	@examples/demo-memory.sh

.PHONY: test
test: deps ## each promise once (C, Rust, Go, README, arm64 emulated), some eight minutes on two cores; SUITE=c: one suite, whole
	@ci/test.sh $(or $(SUITE),quick)

.PHONY: test-all
test-all: deps ## what `make test` leaves out: rarer forms, more hosts and orders, every n-th failure (a quarter of an hour)
	@ci/test.sh rest

.PHONY: matrix
matrix: deps lib ## every order of start and stop beside Go's profiler, in seven hosts (20 runs of each, three hours on two idle cores; resumable; see tests/matrix)
	@python3 tests/matrix/run.py
	@tests/matrix/go_suites.sh

.PHONY: go-suites
go-suites: deps ## Go's own tests of its profiler, cgo and signals with the preload sampling in them (five minutes)
	@$(MAKE) --no-print-directory -s -f core/Makefile preload
	@tests/matrix/go_suites.sh

.PHONY: test-aarch64
test-aarch64: ## the core and Go on arm64: qemu-user, and a VM with Debian's arm64 kernel
	@ci/test-aarch64.sh

.PHONY: fuzz
fuzz: ## every parser, walker and writer of C, Go and Rust, FUZZ_SECONDS (600) each, two at a time; see tests/fuzz/run.sh
	@tests/fuzz/run.sh fuzz

.PHONY: test-go-packaging
test-go-packaging: ## Go: every build mode, race, asan, without cgo (minutes)
	@ci/test-go-packaging.sh

.PHONY: rust-more
rust-more: deps lib ## Rust: benchmarks under criterion 0.5 to 0.8, an installed C library, the packages as published (minutes)
	@bindings/rust/tests/more.sh

.PHONY: test-faults
test-faults: lib ## every n-th failure of each call, the wall clock too (minutes)
	@tests/faults/run.sh all

.PHONY: test-fork-storm
test-fork-storm: lib ## 100,000 forks each way at 250 Hz from four threads, and a process of 4 GiB (minutes)
	@tests/fork/run.sh storm

.PHONY: test-old-kernel
test-old-kernel: ## stops over SIG_DFL in a VM with Debian 12's kernel (6.1), where a deleted timer's signal stays pending
	@ci/test-old-kernel.sh

.PHONY: portability
portability: ## the core by gcc, clang and musl, for aarch64, glibc 2.17, macOS and FreeBSD (minutes; see docs/PORTABILITY.md)
	@ci/check-portability.sh

.PHONY: test-bare-root
test-bare-root: ## the README's C part in a bare Debian root with only the packages that it names (root; minutes)
	@ci/test-bare-root.sh

.PHONY: clocks
clocks: lib ## clocks above the kernel's tick side by side, perf events among them (minutes; the figures of docs/decisions/perf-clock.md)
	@tests/clocks/run.sh

.PHONY: soak
soak: lib ## everything that disturbs a profiler, at once, for SECONDS (180) or HOURS; see tests/soak/run.sh
	@tests/soak/run.sh
	@tests/soak/interpreters.py

.PHONY: sanitize
sanitize: ## C under ASan, UBSan, TSan and valgrind, Go under -race and -asan; cppcheck and clang-tidy (40 minutes)
	@ONSTACK_DEPS=sanitize ci/deps.sh
	@tests/sanitizers/run.sh

.PHONY: coverage
coverage: deps ## lines of the core that its C tests run: build/coverage; docs/COVERAGE.md explains the rest (ten minutes)
	@tests/coverage/run.sh

.PHONY: miri
miri: ## the Rust crate's pure modules under Miri (a nightly toolchain; minutes)
	@bindings/rust/tests/miri.sh

.PHONY: check
check: ## what needs no running: generated copies, exports, includes, handler imports, formats; other platforms compile
	@ONSTACK_DEPS=check ci/deps.sh
	@ci/check.sh

.PHONY: engines
engines: lib ## names and callers of code that node, Java, PHP and Python make or interpret: docs/ENGINES.md; Python's beside py-spy's (six minutes; see tests/engines)
	@ONSTACK_DEPS=hosts ci/deps.sh
	@tests/engines/run.py --write
	@tests/engines/py_spy.py

.PHONY: regressions
regressions: deps lib ## how often `onstack diff --fail-above` finds a slowdown of 3, 5 and 10 %, and accuses the same program (a quiet machine; ten minutes)
	@cd bindings/rust && cargo build --locked --quiet -p onstack-cli
	@ONSTACK=$(CARGO_TARGET_DIR)/debug/onstack tests/regressions/run.py

.PHONY: stress
stress: lib ## python, node, java, perl, bash, gcc, clang, ffmpeg, Erlang, polars, chromium, redis, nginx, PHP, Apache, a sigwait server, PostgreSQL with and without the preload, under profiles of CPU time, heap and real time; librdkafka, wazero and DuckDB under Go (half an hour)
	@ONSTACK_DEPS=hosts ci/deps.sh
	@tests/preload/hosts.py
	@tests/preload/hosts.py --heap
	@tests/preload/hosts.py --wall
	@tests/engines/run.py
	@tests/hosts/run.sh
	@tests/waiting/hosts.sh

.PHONY: bench
bench: deps lib ## onstack beside its neighbours: a table and build/bench.json
	@ONSTACK_DEPS=bench ci/deps.sh
	@python3 tests/bench/run.py

.PHONY: dist
dist: ## reproducible tarballs of the commit, and of the command's crates, in build/dist; SIGN=KEY signs them by gpg
	@ci/dist.sh

.PHONY: deb
deb: ## Debian packages of the commit, in build/deb (see core/package/debian)
	@ci/deb.sh

.PHONY: release-check
release-check: ## all that a release publishes, made in a fresh clone and used: tarballs, crates, Go module, Debian (an hour)
	@ci/release-check.sh

.PHONY: fmt
fmt: ## format C (clang-format 14), Rust and Go
	@ci/c-files.sh | xargs clang-format-14 -i
	@cd bindings/rust && cargo fmt --all
	@gofmt -w bindings/go examples

.PHONY: clean
clean: ## remove build/
	rm -rf $(BUILD)
