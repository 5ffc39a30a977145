#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# onstack beside others in one process, where the matrix (tests/matrix) has no cell. Two to three minutes, and what cargo
# builds the first time. The parts:
#   plugin: A closed library with the core inside stays, serves the found handler, and is the same copy when opened again.
#   itimer, gperftools, pprof: Beside a host's own ITIMER_PROF, gperftools, or the pprof crate, six orders of start and
#     stop: one call or sample of theirs for each signal that we forward. The crate's handler has no SA_ONSTACK and needs
#     more than a Rust thread's alternate stack; its stop leaves SIG_IGN.
#   notify: Beside Go's signal.Notify, Ignore, Reset: each signal is forwarded once, sampling goes on.
#   late-go: A Go library is opened while a session ticks: each signal reaches Go once, both profiles work; then only
#     SIGPROF is accepted.
#   copies: Go package, Rust library and a plugin of another version: three copies of the core, 90 orders of start and
#     stop, Go's profile beside them.
#   preload: The preload as one more copy, over a Go c-archive (five orders), and beside copies: five whole profiles at
#     once.
#   rust-stacks: Rust threads with alternate stacks of 8 KiB call into Go and C: the default unwinder fits; a larger one
#     drops their ticks with a count.
#   cycles: Starts and stops over SIG_DFL, 16 burning threads, forks that exec: nobody dies.
#   naive: A stop without SIG_IGN in between must be seen to die before Linux 6.13 (ci/test-old-kernel.sh).
# Calls and forwarded signals are compared exactly; weights are not, because ITIMER_PROF counts no overruns.
# Usage: tests/coexist/run.sh [part...]     ONSTACK_TEST_CYCLES: starts and stops over SIG_DFL (1,000; the full
# number, 10,000, takes ten minutes); ONSTACK_TEST_LIMIT: the seconds that each program has (250, and more for more cycles)
set -uo pipefail
cd "$(dirname "$0")/../.."
BUILD=${BUILD:-build}
export BUILD
out=$BUILD/coexist
parts=${*:-plugin itimer gperftools pprof cycles naive notify late-go copies preload rust-stacks}
mkdir -p "$out"
log=$out/log
limit=${ONSTACK_TEST_LIMIT:-$((150 + ${ONSTACK_TEST_CYCLES:-1000} / 10))}
: >"$log"

said() { grep -c "^$1 " "$log"; }

# A program's own lines count. One that dies, hangs or ends early says too little: a status without a line that explains it
# fails, and so does a part that says nothing.
run() {
  local name=$1 status bad good skipped
  shift
  bad=$(said "not ok") good=$(said ok) skipped=$(said skip)
  (cd "$out" && timeout -k 5 "$limit" "$@") 2> >(grep -v '^PROFILE:' >&2) | tee -a "$log"
  status=${PIPESTATUS[0]}
  [ "$(said "not ok")" = "$bad" ] || return 0
  [ "$status" = 0 ] || echo "not ok $name: exit status $status" | tee -a "$log"
  [ "$(said ok)" != "$good" ] || [ "$(said skip)" != "$skipped" ] || echo "not ok $name: it said nothing" | tee -a "$log"
}

build() {
  make --no-print-directory -s -f tests/coexist/Makefile "$1" && return
  echo "not ok $1: does not build" | tee -a "$log"
  return 1
}

for part in $parts; do
  case $part in
  plugin) build plugin && run plugin ./plugin-host ;;
  gperftools)
    ONSTACK_DEPS=bench ci/deps.sh >/dev/null # gperftools is one of bench's neighbours
    if echo '#include <gperftools/profiler.h>' | cc -E -x c - >/dev/null 2>&1; then
      build gperftools && run gperftools ./gperftools
    else
      echo "skip gperftools: it is not installed (apt-get install libgoogle-perftools-dev)" | tee -a "$log"
    fi
    ;;
  pprof)
    export CARGO_TARGET_DIR=$PWD/$out/cargo
    if ! (cd tests/coexist/pprof-crate && cargo fetch --quiet); then
      echo "skip pprof: cargo cannot fetch the crate (no registry in reach)" | tee -a "$log"
    elif (cd tests/coexist/pprof-crate && cargo build --quiet --release --locked); then
      run pprof cargo/release/coexist-pprof
    else
      echo "not ok pprof: does not build" | tee -a "$log"
    fi
    ;;
  notify)
    if (cd tests/matrix && go build -buildvcs=false -o "$OLDPWD/$out/notify" ./notify); then
      run notify ./notify
    else
      echo "not ok notify: does not build" | tee -a "$log"
    fi
    ;;
  late-go) # SIGPROF, SIGUSR2 and a real-time signal
    if build late-go; then
      for case in "27 off" "12 on" "12 on notify" "12 off" "39 on notify" "39 off"; do
        # shellcheck disable=SC2086 # three words
        run "late-go $case" ./late-go ./liblate-go.so $case
      done
    fi
    ;;
  rust-stacks)
    if make -s --no-print-directory -f tests/matrix/Makefile rust-stacks; then
      run rust-stacks ../matrix/rust-stacks
    else
      echo "not ok rust-stacks: does not build" | tee -a "$log"
    fi
    ;;
  preload)
    make -s --no-print-directory -f core/Makefile preload && make -s --no-print-directory -f tests/matrix/Makefile c-archive &&
      build copies && run preload python3 "$PWD/tests/coexist/preload/run.py" "$PWD/$BUILD" ||
      echo "not ok preload: does not build" | tee -a "$log"
    ;;
  copies) build copies && run copies ./copies "$PWD/$out/newer-plugin.so" ;;
  cycles | naive | itimer) build "$part" && run "$part" "./$part" ;;
  *) echo "not ok $part: no such part; there are plugin, itimer, gperftools, pprof, cycles, naive, notify, late-go, copies, preload and rust-stacks" | tee -a "$log" ;;
  esac
done
passed=$(grep -c '^ok ' "$log")
failed=$(grep -c '^not ok ' "$log")
echo "coexist: $passed passed, $failed failed, $(grep -c '^skip ' "$log") skipped"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
