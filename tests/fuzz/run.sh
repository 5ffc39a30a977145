#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# Fuzz targets of tests/fuzz.
#   run.sh replay             the kept inputs, this machine's seeds and a few thousand mutations, by any compiler: seconds
#   run.sh fuzz [TARGET...]   libFuzzer, FUZZ_SECONDS (600) each, two at a time; findings go to build/fuzz/found
#   run.sh keep [TARGET...]   takes what the last fuzzing added to the kept inputs, if it is small and covers something new
# FUZZ_MUTATIONS: how many in `replay` (3000). CC, CLANG: the compilers.
set -uo pipefail
cd "$(dirname "$0")/../.."
export BUILD=${BUILD:-build}
out=$BUILD/fuzz
seconds=${FUZZ_SECONDS:-600}
export ASAN_OPTIONS=${ASAN_OPTIONS:-abort_on_error=1:detect_stack_use_after_return=0}
export UBSAN_OPTIONS=${UBSAN_OPTIONS:-print_stacktrace=1}
verb=${1:-replay}
shift || true
targets=("$@")
if [ ${#targets[@]} -eq 0 ]; then
  for source in tests/fuzz/fuzz_*.c; do
    name=${source##*/fuzz_}
    targets+=("${name%.c}")
  done
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

replay() {
  local failed=() target
  make --no-print-directory -s -j2 -f tests/fuzz/Makefile replays && make_seeds || return 1
  for target in "${targets[@]}"; do
    # shellcheck disable=SC2046
    timeout -k 5 120 "$out/replay_$target" "-random=${FUZZ_MUTATIONS:-3000}" $(places "$target") || failed+=("$target")
  done
  [ ${#failed[@]} -eq 0 ] && return
  echo "fuzz: failed: ${failed[*]}"
  return 1
}

fuzz_one() {
  local target=$1 work=$out/work/$1 log=$out/log_$1
  mkdir -p "$work" "$out/found"
  # shellcheck disable=SC2046
  timeout -k 5 $((seconds + 60)) "$out/fuzz_$target" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=1500 \
    -max_len=8192 -print_final_stats=1 -artifact_prefix="$out/found/$target-" "$work" $(places "$target") >"$log" 2>&1
  local status=$? coverage
  coverage=$(grep -oE 'cov: [0-9]+ ft: [0-9]+' "$log" | tail -1)
  printf '%-8s %12s runs  %-22s %s\n' "$target" \
    "$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")" "$coverage" \
    "$([ $status = 0 ] && echo "nothing found" || echo "FOUND (status $status): see $log and $out/found")"
  return $status
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

# Small inputs only: what a person may look at. Seeds of this machine are not copied.
keep() {
  local target work
  for target in "${targets[@]}"; do
    work=$out/merged/$target
    rm -rf "$work"
    mkdir -p "$work" "tests/fuzz/corpus/$target"
    mapfile -t small < <(find "$out/work/$target" -type f -size -3)
    mkdir -p "$work.from" && cp "${small[@]}" "$work.from/"
    "$out/fuzz_$target" -merge=1 "$work" "tests/fuzz/corpus/$target" "$work.from" >"$out/log_merge_$target" 2>&1
    find "$work" -type f -size -3 | sort | head -n "${FUZZ_KEEP:-40}" | xargs -r cp -t "tests/fuzz/corpus/$target"
    rm -rf "$work.from"
    echo "keep: $target: $(find "tests/fuzz/corpus/$target" -type f | wc -l) inputs"
  done
}

case "$verb" in
replay | fuzz | keep) "$verb" ;;
*)
  sed -n '3,7s/^# //p' "$0" >&2
  exit 2
  ;;
esac
