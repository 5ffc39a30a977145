#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# Fuzz targets of tests/fuzz, of the Go package and of the Rust crates.
#   run.sh replay             the kept inputs, this machine's seeds and a few thousand mutations, by any compiler: a minute.
#                             Of C and Rust; `go test` itself replays what is kept for Go
#   run.sh fuzz [TARGET...]   libFuzzer, go test -fuzz and cargo-fuzz, FUZZ_SECONDS (600) each, two at a time; findings go to
#                             build/fuzz/found, those of Go where it says
#   run.sh keep [TARGET...]   takes what the last fuzzing added to the kept inputs, if it is small and covers something new
#   run.sh steps [N [SEED]]   the walkers alone, at full speed and without sanitizers, two at a time, until they have made N
#                             (10^9) steps on memory that holds anything or is not there, from that seed (1) on: a
#                             quarter of an hour
#   run.sh list               the targets: cfi, go/FuzzDemangle, rust/profile, ...
# FUZZ_MUTATIONS: how many in `replay` (3000). CC, CLANG: the compilers. Rust's need cargo-fuzz and a nightly toolchain.
set -uo pipefail
cd "$(dirname "$0")/../.."
export BUILD=${BUILD:-build}
out=$BUILD/fuzz
seconds=${FUZZ_SECONDS:-600}
export ASAN_OPTIONS=${ASAN_OPTIONS:-abort_on_error=1:detect_stack_use_after_return=0}
export UBSAN_OPTIONS=${UBSAN_OPTIONS:-print_stacktrace=1}
verb=${1:-replay}
go_module=bindings/go rust_fuzz=bindings/rust/fuzz

list() {
  local source
  for source in tests/fuzz/fuzz_*.c; do basename "$source" .c | cut -c6-; done
  grep -rhoE '^func Fuzz[A-Za-z]+' "$go_module" --include='*_fuzz_test.go' | sed 's,^func ,go/,' | sort
  for source in "$rust_fuzz"/fuzz_targets/*.rs; do echo "rust/$(basename "$source" .rs)"; done
}
shift || true
targets=("$@")
if [ ${#targets[@]} -eq 0 ]; then
  mapfile -t targets < <(list)
fi

make_seeds() {
  rm -rf "$out/seeds"
  mkdir -p "$out/seeds"
  python3 tests/fuzz/seeds.py "$out/seeds" >"$out/seeds.log" || { cat "$out/seeds.log"; return 1; }
}

places() { # directories with inputs of a target
  local place
  for place in "tests/fuzz/corpus/$1" "$out/seeds/$1"; do [ -d "$place" ] && echo "$place"; done
}

# google/pprof and the rules of profile servers on what the pprof target wrote.
check_profiles() { # file
  command -v go >/dev/null || { echo "skip checker: no Go here"; return 0; }
  (cd bindings/go && go build -o "$OLDPWD/$out/checker" ./internal/checker) && "$out/checker" "$1"
}

replay_c() {
  local target=$1 profiles=$out/profiles
  # shellcheck disable=SC2046
  ONSTACK_FUZZ_PROFILES=$profiles timeout -k 5 120 "$out/replay_$target" "-random=${FUZZ_MUTATIONS:-3000}" \
    $(places "$target") || return 1
  [ "$target" != pprof ] || check_profiles "$profiles"
}

replay_rust() {
  command -v cargo >/dev/null || { echo "skip Rust's targets: no cargo here"; return 0; }
  (cd "$rust_fuzz" && timeout -k 5 600 cargo test --locked --quiet)
}

replay() {
  local failed=() target rust=
  make --no-print-directory -s -j2 -f tests/fuzz/Makefile replays && make_seeds || return 1
  for target in "${targets[@]}"; do
    case $target in
    go/*) ;; # go test does
    rust/*) rust=1 ;;
    *) replay_c "$target" || failed+=("$target") ;;
    esac
  done
  [ -z "$rust" ] || replay_rust || failed+=(rust)
  [ ${#failed[@]} -eq 0 ] && return
  echo "fuzz: failed: ${failed[*]}"
  return 1
}

# Prints what a run found; arguments: target, status, runs, coverage, log.
say() {
  printf '%-28s %12s runs  %-22s %s\n' "$1" "$3" "$4" \
    "$([ "$2" = 0 ] && echo "nothing found" || echo "FOUND (status $2): see $5 and $out/found")"
  return "$2"
}

libfuzzer_options() { # target's work directory and prefix of findings
  echo "-max_total_time=$seconds -timeout=10 -rss_limit_mb=1500 -max_len=8192 -print_final_stats=1 -artifact_prefix=$1"
}

libfuzzer_says() { # target, status, log
  local coverage
  coverage=$(grep -aoE 'cov: [0-9]+ ft: [0-9]+' "$3" | tail -1)
  say "$1" "$2" "$(sed -n 's/^stat::number_of_executed_units: *//p' "$3")" "$coverage" "$3"
}

fuzz_c() {
  local target=$1 work=$out/work/$1 log=$out/log_$1 status
  # shellcheck disable=SC2046
  timeout -k 5 $((seconds + 60)) "$out/fuzz_$target" $(libfuzzer_options "$out/found/$target-") "$work" \
    $(places "$target") >"$log" 2>&1
  status=$?
  if [ "$target" = pprof ] && [ $status = 0 ]; then
    ONSTACK_FUZZ_PROFILES=$out/profiles "$out/fuzz_pprof" "$work"/* >/dev/null 2>&1 && check_profiles "$out/profiles" >>"$log" 2>&1
    status=$?
  fi
  libfuzzer_says "$target" "$status" "$log"
}

# Inputs that only cover something new are not made smaller for a minute each, which is the default. Built outside the limit:
# a build alone took four minutes on a busy machine.
fuzz_go() {
  local name=${1#go/} log=$out/log_${1//\//_} package status
  package=$(grep -rlE "^func $name\(" "$go_module" --include='*_fuzz_test.go' | head -1)
  (cd "$(dirname "$package")" && go test -c -fuzz "^$name\$" -o /dev/null . &&
    timeout -k 5 $((seconds + 240)) go test -run '^$' -fuzz "^$name\$" -fuzztime "${seconds}s" \
    -fuzzminimizetime 20x -parallel 1 .) >"$log" 2>&1
  status=$?
  # On a busy machine its own end can come as an error.
  [ $status = 1 ] && grep -q 'context deadline exceeded' "$log" && ! grep -q 'Failing input' "$log" && status=0
  say "$1" "$status" "$(grep -oE 'execs: [0-9]+' "$log" | tail -1 | cut -c8-)" \
    "$(grep -oE 'total: [0-9]+' "$log" | tail -1)" "$log"
}

# Not the address sanitizer: the crate has no unsafe parser of its own, and what is mapped is bounds-checked.
fuzz_rust() {
  local name=${1#rust/} work=$PWD/$out/work/$1 log=$PWD/$out/log_${1//\//_} status
  cargo +nightly fuzz --version >/dev/null 2>&1 ||
    { echo "skip $1: type: cargo install cargo-fuzz --locked; rustup toolchain install nightly"; return 0; }
  # shellcheck disable=SC2046
  (cd "$rust_fuzz/.." && CARGO_TARGET_DIR=$PWD/../../$out/rust timeout -k 5 $((seconds + 900)) cargo +nightly fuzz run \
    --fuzz-dir fuzz --features libfuzzer -s none "$name" "$work" "fuzz/corpus/$name" -- \
    $(libfuzzer_options "$OLDPWD/$out/found/rust-$name-")) >"$log" 2>&1
  status=$?
  libfuzzer_says "$1" "$status" "$log"
}

fuzz_one() {
  mkdir -p "$out/work/$1" "$out/found"
  case $1 in
  go/*) fuzz_go "$1" ;;
  rust/*) fuzz_rust "$1" ;;
  *) fuzz_c "$1" ;;
  esac
}

fuzz() {
  local status=0 running=()
  ONSTACK_DEPS=fuzz ci/deps.sh || return 1
  make --no-print-directory -s -j2 -f tests/fuzz/Makefile fuzzers && make_seeds || return 1
  local target pid
  for target in "${targets[@]}"; do
    if [ ${#running[@]} -eq 2 ]; then
      wait "${running[0]}" || status=1
      running=("${running[@]:1}")
    fi
    fuzz_one "$target" &
    running+=($!)
  done
  for pid in "${running[@]}"; do wait "$pid" || status=1; done
  return $status
}

# Small inputs only: what a person may look at. Seeds of this machine are not copied. What Go found wrong it keeps by itself.
keep() {
  local target work kept
  for target in "${targets[@]}"; do
    case $target in
    go/*) tests/fuzz/keep_go.py "${target#go/}"; continue ;;
    rust/*) kept=$rust_fuzz/corpus/${target#rust/} ;;
    *) kept=tests/fuzz/corpus/$target ;;
    esac
    work=$out/merged/$target
    rm -rf "$work" "$work.from"
    mkdir -p "$work" "$work.from" "$kept"
    find "$out/work/$target" -type f -size -3 -exec cp -t "$work.from" {} +
    merge "$target" "$work" "$kept" "$work.from" >"$out/log_merge_${target//\//_}" 2>&1
    find "$work" -type f -size -3 | sort | head -n "${FUZZ_KEEP:-40}" | xargs -r cp -t "$kept"
    rm -rf "$work.from"
    echo "keep: $target: $(find "$kept" -type f | wc -l) inputs"
  done
}

merge() { # target, to, from...
  local target=$1
  shift
  case $target in
  rust/*) "$(find -H "$out/rust" -path "*/release/${target#rust/}" -type f | head -1)" -merge=1 "$@" ;;
  *) "$out/fuzz_$target" -merge=1 "$@" ;;
  esac
}

walk_some() { # seed
  # shellcheck disable=SC2046
  timeout -k 5 900 "$BUILD/steps/fuzz/replay_walker" -random=5000000 "-seed=$1" $(places walker) >"$out/log_steps_$1" 2>&1
}

walk_failed() { # STATUS SEED
  local how="status $1"
  [ "$1" != 124 ] || how="not done in its 15 minutes"
  echo "steps: FAILED with seed $2, $how: $out/log_steps_$2"
}

steps() {
  local wanted=${targets[0]:-1000000000} first=${targets[1]:-1} walks=0 made=0 seed log
  case $wanted in *[!0-9]*) wanted=1000000000 first=1 ;; esac # no number was given: `targets` is the list of all
  case $first in *[!0-9]*) echo "fuzz: steps: the seed '$first' is no number" >&2; return 2 ;; esac
  seed=$first
  make --no-print-directory -s -j2 -f tests/fuzz/Makefile BUILD="$BUILD/steps" SANITIZE=-O2 \
    "$BUILD/steps/fuzz/replay_walker" && make_seeds || return 1
  while [ "$made" -lt "$wanted" ]; do
    walk_some $seed &
    walk_some $((seed + 1)) || { walk_failed $? $((seed + 1)); wait; return 1; }
    wait $! || { walk_failed $? $seed; return 1; }
    for log in "$out/log_steps_$seed" "$out/log_steps_$((seed + 1))"; do
      walks=$((walks + $(sed -n 's/^walker: \([0-9]*\) walks.*/\1/p' "$log")))
      made=$((made + $(sed -n 's/^walker:.* \([0-9]*\) steps$/\1/p' "$log")))
    done
    rm -f "$out/log_steps_$seed" "$out/log_steps_$((seed + 1))"
    seed=$((seed + 2))
  done
  echo "steps: ok: $made steps in $walks walks, seeds $first to $((seed - 1)), no fault"
}

case "$verb" in
replay | fuzz | keep | list | steps) "$verb" ;;
*)
  sed -n '3,14s/^# //p' "$0" >&2
  exit 2
  ;;
esac
