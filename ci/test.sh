#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# Runs suites, prints progress and each runner's own closing lines, and fails if one failed.
# Usage: ci/test.sh quick     what `make test` runs: each promise once, in minutes
#        ci/test.sh rest      what `make test-all` runs: all that quick leaves out
#        ci/test.sh SUITE...  these suites, whole: c preload truth go stacks matrix coexist rust install fork fuzz abi cxx aarch64
#                             readme faults otlp view
set -uo pipefail
cd "$(dirname "$0")/.."
BUILD=${BUILD:-build}
all_suites="c preload truth go stacks matrix coexist rust install fork fuzz abi cxx aarch64 readme faults otlp view"
case ${1:-} in
quick) part=quick suites="c truth go stacks matrix coexist preload rust cxx aarch64 readme faults" ;;
rest) part=rest suites="c preload truth go rust stacks matrix coexist install fork fuzz abi aarch64 readme faults otlp view" ;;
*) part=whole suites=${*:-$all_suites} ;;
esac
# These check no times: one after another they run beside the others, and what they said is printed when it is their turn.
beside=
case $part in
quick) beside="cxx aarch64 readme faults" ;;
rest) beside="fuzz abi aarch64 readme faults otlp view" ;;
*) [ $# -gt 0 ] || beside="fuzz abi cxx aarch64 readme faults otlp view" ;;
esac
# In the quick part they begin behind the core's tests, which need both processors, else behind preload's, which have cases that
# need an idle machine.
before_beside=preload
[ $part != quick ] || before_beside=c
own=$BUILD/test-$part # CONTRIBUTING.md's blocks run a suite within `rest`
for suite in $suites; do
  case " $all_suites " in *" $suite "*) continue ;; esac
  echo "ci/test.sh: no suite is named $suite; there are: $all_suites" >&2
  exit 2
done
failed=()
started=$SECONDS

step() { echo; echo "== $1 ($((SECONDS - started)) s)"; }

# Runs it with all that it says in a file as well. What it leaves running may keep tee: that is not waited for.
watched() {
  local teeing status tries
  exec 3> >(tee "$own.log")
  teeing=$!
  "$@" >&3 2>&1 3>&-
  status=$?
  exec 3>&-
  for ((tries = 0; tries < 50; tries++)); do kill -0 "$teeing" 2>/dev/null && sleep 0.02 || break; done
  sed -nE "s/^ *(skip|SKIPPED):? +/$suite: /p" "$own.log" >>"$own.skips"
  return $status
}

# What was left out by suites that are green: each runner says `skip NAME: REASON`, Rust's tests `SKIPPED: WHAT`. What was run
# again has said it twice.
tell_skips() {
  local skips text
  mapfile -t skips < <(LC_ALL=C sort -u "$own.skips")
  text=$(printf '; %s' "${skips[@]}")
  echo "skipped: ${#skips[@]}${skips:+ (${text:2})}"
}

# A test that died by a signal or stood still, in what was watched last; in the words of each runner.
crashed() {
  grep -qE '\[CRASH\]|hung for [0-9]|: signal [0-9]|status 1(24|[34][0-9])|\(1(24|[34][0-9])[;)]|\(signal: [0-9]|^signal: |^fatal error: |^SIG(SEGV|BUS|ILL|ABRT)|^panic: test timed out' \
    "$own.log"
}

# What later suites compile, while the first one (one test at a time) leaves a processor idle. cargo and go lock what they
# share with those suites, and a failure here is theirs to report.
warm() {
  (
    renice -n 19 "$BASHPID"
    if [ "$part" = rest ]; then
      make -f tests/coexist/Makefile ahead
      make -s -f tests/fuzz/Makefile replays
      for crate in examples/rust-axum examples/rust-http bindings/rust/fuzz; do (cd "$crate" && cargo test --locked --no-run); done
      exit
    fi
    (cd bindings/go && go test -run '^$' ./...)
    (cd tests/go && go test -run '^$' .)
    (cd bindings/rust && cargo test --locked --workspace --no-run)
  ) >"$BUILD/warm.log" 2>&1
}

# For the suites that want the same and would wait for it, as it is the last in the queue for a processor. What is compiled stays.
stop_warming() {
  [ -n "$warming" ] || return 0
  kill -- -"$warming" 2>/dev/null
  wait "$warming" 2>/dev/null
  warming=
}

# What a part of the tests is, in the words of each runner: by_part WORDS-OF-QUICK WORDS-OF-REST.
by_part() {
  case $part in quick) printf '%s' "$1" ;; rest) printf '%s' "$2" ;; esac
}

# suite/test, as Criterion lists them.
tests_of() { # program
  "$1" --list | awk '/^[a-z]/ { sub(/:.*/, ""); suite = $0; next } NF == 2 { print suite "/" $2 }'
}

list_tests() {
  local binary
  for binary in "$BUILD"/tests/core/test_*; do
    [ -x "$binary" ] && tests_of "$binary"
  done | LC_ALL=C sort
}

# A line that names no test would leave its test in neither part.
check_long_tests() {
  local unknown
  unknown=$(LC_ALL=C comm -13 <(list_tests) <(grep -v '^#' tests/core/long | LC_ALL=C sort))
  [ -z "$unknown" ] || { echo "tests/core/long names what is no test: $unknown"; failed+=("c: tests/core/long"); }
}

# Those of tests/core/long that are this program's, as Criterion's patterns have them: a pattern has 4 KiB at most.
long_tests_of() { # program
  tests_of "$1" | grep -xF -f <(grep -v '^#' tests/core/long) | paste -sd '|'
}

# Criterion tells in its report alone which tests skip themselves. Those that --filter leaves out are skipped there, too, but have
# no reason of their own.
criterion() { # program, more arguments
  local status
  rm -f "$BUILD/c.tap"
  timeout -k 5 240 "$1" -j1 "--tap=$BUILD/c.tap" "${@:2}"
  status=$?
  [ ! -e "$BUILD/c.tap" ] || sed -n '/# SKIP test was skipped$/d; s/^ok - \(.*[^ ]\) *# SKIP /skip \1: /p' "$BUILD/c.tap"
  return $status
}

run_c() {
  make --no-print-directory -j2 -f core/Makefile lib adapters && make --no-print-directory -j2 -f tests/core/Makefile tests ||
    { failed+=("c: build"); return; }
  check_long_tests
  local binary status begun long times=() filter
  for binary in "$BUILD"/tests/core/test_*; do
    [ -x "$binary" ] || continue
    long=$(long_tests_of "$binary")
    [ "$part" != rest ] || [ -n "$long" ] || continue
    filter=()
    case $part${long:+-some} in quick-some) filter=("--filter=!($long)") ;; rest-some) filter=("--filter=@($long)") ;; esac
    # -j1: the tests count samples. timeout: Criterion's own does not fire while a SIGPROF timer repeats.
    echo "-- $(basename "$binary")"
    begun=${EPOCHREALTIME/[.,]/}
    watched criterion "$binary" "${filter[@]}"
    status=$?
    times+=("$(((${EPOCHREALTIME/[.,]/} - begun) / 1000)) ms $(basename "$binary")")
    [ $status != 0 ] || continue
    if [ $status -ge 124 ] || crashed; then failed+=("c: $(basename "$binary") crashed or hung") && continue; fi
    again+=("$(basename "$binary")")
    echo "-- $(basename "$binary") again"
    watched criterion "$binary" "${filter[@]}" && continue
    failed+=("c: $(basename "$binary")" "$(grep -aE '^\[(----|FAIL)\]' "$own.log" | head -20)")
  done
  echo "-- the slowest:"
  printf '%s\n' "${times[@]}" | sort -rn | head -10
}

# The kept inputs of the fuzz targets, and some thousand mutations, under the sanitizers (`make fuzz` looks for more).
run_fuzz() {
  # Go's are replayed by `go test`, Rust's below.
  # shellcheck disable=SC2046
  timeout -k 5 300 tests/fuzz/run.sh replay $(tests/fuzz/run.sh list | grep -v /) || failed+=("fuzz")
}

# Every step of real programs against a shadow stack; 77: not possible here (another architecture).
run_truth() {
  # shellcheck disable=SC2046
  timeout -k 5 300 tests/truth/run.sh $(by_part "plain signals" "plain-small plain-marked plain-clumsy startup exceptions rust crypto")
  local status=$?
  [ $status = 0 ] || [ $status = 77 ] || failed+=("truth")
}

# The tests of the workspace that are this part's, but of its programs only those of onstack-http (=), or all but those (!=). They
# show what a test that passed has said, which tells what it has left out: for rust_told.
test_workspace() { # = or !=, more for cargo
  local runner="['$PWD/bindings/rust/tests/of_package.sh','$part','$1','onstack-http']"
  (cd bindings/rust &&
    timeout -k 5 900 cargo --config "target.'cfg(unix)'.runner=$runner" test --locked --workspace "${@:2}" -- --show-output)
}

# Of what tests that passed have said only what they have left out; of the rest all.
rust_told() {
  sed -uE '/^successes:$/,/^(failures:|test result: .*)$/ { /^(SKIPPED|skip|failures|test result): ?/!d }'
}

# Those of onstack-http mostly wait: they run beside the others.
run_rust_workspace() {
  local waiting status=0
  (cd bindings/rust && timeout -k 5 900 cargo test --locked --workspace --no-run) || return
  [ $part != rest ] || { test_workspace != --tests > >(rust_told) 2>&1; return; }
  test_workspace = --tests >"$BUILD/rust-http.log" 2>&1 &
  waiting=$!
  test_workspace != > >(rust_told) 2>&1 || status=1
  wait "$waiting" || status=1
  echo "-- onstack-http"
  rust_told <"$BUILD/rust-http.log"
  return $status
}

run_rust() {
  stop_warming
  run_rust_workspace || failed+=("rust")
  [ $part != quick ] || return
  (cd bindings/rust/fuzz && timeout -k 5 600 cargo test --locked --quiet) || failed+=("rust: kept inputs of the fuzz targets")
  (cd examples/rust-http && timeout -k 5 300 cargo test --locked --quiet) || failed+=("rust: example service")
  # CPU time by route and by task, against the service's own clocks: rounds until chance is small enough.
  (cd examples/rust-axum && timeout -k 5 900 cargo test --locked --quiet) || failed+=("rust: example service with labels")
}

# Go tells with -v alone what it skips, and then all that the tests say: that is shown where one has failed.
go_verbose() { # file for all of it, command
  local status
  "${@:2}" >"$1" 2>&1
  status=$?
  if [ $status = 0 ]; then grep -E '^(ok|[?])[[:space:]]' "$1" || tail -n 1 "$1"; else grep -vE '^=== |^ *--- PASS' "$1"; fi
  go_skips "$1"
  return $status
}

# The reason is the last that the test itself has said.
go_skips() { # what was printed with -v
  awk '/^=== (RUN|NAME|CONT) / { name = $3; next }
    /^ *--- SKIP: / { print "skip " $3 ": " ($3 in said ? said[$3] : "it gives no reason") }
    match($0, /^ +[a-z0-9_]+_test\.go:[0-9]+: /) { said[name] = substr($0, RLENGTH + 1) }' "$1"
}

# Every order beside Go's own profile is what the matrix tries; -short leaves it to that.
run_go() {
  local long='^TestCompilerTakesProfile$|^TestStormsWithoutPreemption$' log
  log=$(realpath "$BUILD")/go.log
  # shellcheck disable=SC2046
  (cd bindings/go &&
    go_verbose "$log" timeout -k 5 600 go test -v $(by_part "-short -skip=$long" "-run=BesideOurs|$long") ./...) || failed+=("go")
  [ $part = rest ] || run_demo_memory || failed+=("go: demo of heap profiles")
  [ $part != quick ] || return
  timeout -k 5 300 ci/check-go-vendor.sh || failed+=("go: vendored copy")
  run_guests || failed+=("go: names of wasmtime's guests")
  run_examples || failed+=("go: examples")
}

# As a reader runs them; what they print is what their own text promises.
run_examples() {
  local log=$BUILD/examples.log guest
  guest=$(realpath "$BUILD")/guest.wasm
  (cd examples/go-otel && timeout -k 5 200 go run . -requests 20) >"$log" 2>&1 && grep -E '^ *price .*main.sumPrices' "$log" &&
    go build -C examples/go-sqlite -o "$(realpath "$BUILD")/go-sqlite" . >>"$log" 2>&1 && timeout -k 5 60 "$BUILD/go-sqlite" -seconds 2 >>"$log" 2>&1 &&
    grep -E '^onstack .* (100.0|99..)% named.* of these (100.0|99..)% reach main.work' "$log" &&
    GOOS=wasip1 GOARCH=wasm go build -C examples/go-wazero -o "$guest" ./guest >>"$log" 2>&1 &&
    (cd examples/go-wazero && timeout -k 5 200 go run -tags perfmap . "$guest") >>"$log" 2>&1 &&
    grep -E ' [789].\..% in the guest.s main.serve; of these (100.0|99..)% reach main.handleRequests' "$log" || { cat "$log"; return 1; }
}

# A program of `go test -c` has the symbols that one of `go test` lacks.
run_guests() {
  local program
  program=$(realpath "$BUILD")/go-wasmtime.test
  (cd examples/go-wasmtime && go test -c -o "$program" . && go_verbose "$program.log" timeout -k 5 300 "$program" -test.v)
}

# The leak in C is in the profile of both heaps, and not in Go's own; of the memory less than a twentieth is unexplained.
run_demo_memory() {
  local log=$BUILD/demo-memory.log
  timeout -k 5 300 examples/demo-memory.sh -length 3s >"$log" 2>&1 || { cat "$log"; return 1; }
  sed -n '/^== what the profile of both heaps says/,$p' "$log" | grep ' cache_put$' || { cat "$log"; return 1; }
  sed '/^== what the profile of both heaps says/,$d' "$log" | grep ' cache_put$' && return 1
  grep -E ' [0-4]\.[0-9]{2}%  unexplained$' "$log" || { cat "$log"; return 1; }
}

# Stacks through Go in many kinds of programs, checked by the programs' own code.
run_stacks() {
  local few='TestStacks/(Go_and_C|wazero)'
  # shellcheck disable=SC2046
  timeout -k 5 600 ci/test-go-stacks.sh $(by_part "-run=$few|^Test[^S]" "-skip=$few|^Test[^S]") | grep -v '^=== RUN' || failed+=("go stacks")
  go_skips "$BUILD/go-stacks/test.log"
}

# Every host and every order of start and stop once; in the quick part the orders of one host with one mix.
run_matrix() {
  # shellcheck disable=SC2046
  timeout -k 5 500 python3 tests/matrix/run.py --quick --fresh $(by_part "--only=go-exe/pure/" "") --output "$BUILD/matrix-quick.json" 2>&1 |
    grep -v '^\[.* ok$' || failed+=("matrix")
}

run_coexist() {
  [ $part = quick ] || stop_warming # it may be about to make the same copy
  # shellcheck disable=SC2046
  timeout -k 5 900 tests/coexist/run.sh $(by_part "plugin itimer late-go" "gperftools pprof cycles naive notify copies preload rust-stacks") || failed+=("coexist")
}

# The preloaded library on a program that ends in every way; hosts that others wrote: make stress.
run_preload() {
  [ $part = quick ] || stop_warming # some cases need an idle machine
  # shellcheck disable=SC2046
  timeout -k 5 500 tests/preload/run.py $(by_part --few --rest) || failed+=("preload")
  [ $part = quick ] || timeout -k 5 120 tests/interpreters/run.sh || failed+=("preload: layouts of interpreters")
}

# The examples of C and C++ against an installed tree: gcc, clang, pkg-config, CMake.
run_install() {
  timeout -k 5 300 tests/install/run.sh || failed+=("install")
}

# Programs of older and of later headers with this library, and the other way round. What the library exports `make check` looks at.
run_abi() {
  timeout -k 5 400 tests/abi/run.sh || failed+=("abi")
}

# fork() while a host's library holds its own locks; real musl too.
run_fork() {
  timeout -k 5 200 tests/fork/run.sh || failed+=("fork")
}

# The core's tests that need no ticks, as arm64 compiles and an emulator runs them; with musl, and the kept inputs of the fuzz
# targets, too.
run_aarch64() {
  [ $part = rest ] || timeout -k 5 600 ci/test-aarch64.sh quick || failed+=("aarch64")
  [ $part = quick ] || timeout -k 5 600 ci/test-aarch64.sh rest || failed+=("aarch64: musl, kept inputs of the fuzz targets")
}

# The header in every standard of C and C++, exceptions through sampled code, functions of the host that throw.
run_cxx() {
  timeout -k 5 300 tests/cxx/run.sh || failed+=("cxx")
}

# Each system call and allocation of a session fails in turn; calls that a filter refuses, limits, missing files.
run_faults() {
  # shellcheck disable=SC2046
  timeout -k 5 600 tests/faults/run.sh $(by_part few "") || failed+=("faults")
}

# What is written for OpenTelemetry and pushed to its collector, which is built here, read by its own library.
run_otlp() {
  timeout -k 5 900 tests/otlp/run.sh || failed+=("otlp")
}

# The page of `onstack view` in a real browser.
run_view() {
  timeout -k 5 500 tests/view/run.sh || failed+=("view")
}

is_beside() { # suite
  case " $beside " in *" $1 "*) return 0 ;; esac
  return 1
}

# These, in a process of its own: not beside the first suite, while that and `warm` compile.
run_beside() {
  local suite
  renice -n 19 "$BASHPID" >/dev/null
  for suite in $beside; do
    failed=()
    "run_$suite" >"$BUILD/beside-$suite.log" 2>&1
    printf '%s\n' "${failed[@]}" >"$BUILD/beside-$suite.failed"
  done
}


# What one of them said, and its failures.
collect() { # suite
  wait "$lane"
  cat "$BUILD/beside-$1.log"
  mapfile -t -O "${#failed[@]}" failed < <(grep . "$BUILD/beside-$1.failed")
  [ -e "$BUILD/beside-$1.failed" ] || failed+=("$1: it did not come to its end")
}

# In the quick part without the optimization of what its reader builds by cargo, half of a minute.
run_readme() {
  local level
  level=$(by_part 0 3)
  # shellcheck disable=SC2046
  CARGO_PROFILE_RELEASE_OPT_LEVEL=${level:-3} timeout -k 5 1100 ci/check-readme.py $(by_part README.md "CONTRIBUTING.md $(echo docs/*.md)") || failed+=("readme")
}

mkdir -p "$BUILD"
[ -z "$beside" ] || rm -f "$BUILD"/beside-*
: >"$own.skips"
# What fails is run once more: machines are shared, and what is wrong fails twice. The closing lines name it all the same.
# A crash or a hang is nobody else's fault, and is not run again.
again=()
warming= lane=
if [ "$part" != whole ] || [ $# -eq 0 ]; then
  set -m # in a process group of its own
  warm &
  warming=$!
  set +m
  trap 'stop_warming' EXIT
fi
for suite in $suites; do
  step "$suite"
  count=${#failed[@]}
  if [ "$suite" = c ]; then
    run_c
  elif is_beside "$suite"; then
    watched collect "$suite"
  else
    watched "run_$suite"
  fi
  if [ "$suite" = "$before_beside" ] && [ -n "$beside" ]; then
    run_beside &
    lane=$!
  fi
  [ "${#failed[@]}" -gt "$count" ] && [ "$suite" != c ] && ! crashed || continue
  step "$suite again"
  again+=("$suite")
  failed=("${failed[@]:0:count}")
  watched "run_$suite"
done

step "done"
[ ${#again[@]} -eq 0 ] || echo "run again: ${again[*]}"
tell_skips
if [ ${#failed[@]} -gt 0 ]; then
  printf 'FAILED: %s\n' "${failed[@]}"
  exit 1
fi
echo "all suites passed: $suites"
