#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# The core's tests under sanitizers and valgrind, all C under two static checkers, the Go packages' tests under Go's.
# Usage: tests/sanitizers/run.sh [asan] [tsan] [valgrind] [cppcheck] [tidy] [go-race] [go-asan]     (default: all)
#   TESTS="sessions ring": only these of C, or of Go (-run)
#
# What each of them cannot see:
#   all      The handler's objects (*_handler.c) are not instrumented: a sanitizer's checks read thread-local storage
#            and its own shadow, which the handler may not touch, and a thread made by raw clone has none. Its parsers and
#            walkers are instrumented in tests/fuzz, where they run in ordinary code; its reads of foreign memory are
#            shown by tests/core/test_garbage*.c and tests/truth. The preloaded library runs under none of them: only its
#            settings and output do, in tests/fuzz.
#   asan     Memory that the core maps by itself (thread records, ring, rule tables): no redzones around it. Leaks are not
#            looked for: what a handler may touch is kept for ever, on purpose.
#   tsan     The same objects: what the handler reads and writes is not seen at all. A signal is put off until the next
#            intercepted call, so ticks come late and few. Ordinary threads against each other are what it looks at.
#   valgrind One thread runs at a time, and timers tick by its own time: the profile part (ordinary code) only. A profiled
#            program runs under it in tests/core/test_valgrind.c.
#   go-race  C: cgo compiles it without. Goroutines, the HTTP handler's and the pusher's among them, against each other are
#            what it looks at.
#   go-asan  What asan does not see, but leaks of C memory are looked for.
# Stacks inside Go's detectors are cut where they change stacks (docs/UNWINDING.md), and the storms allow for that.
# Tests of the core that count ticks or memory, that need threads without libc, or that fork while a sanitizer's own threads
# run, say nothing under a sanitizer: the lists below name them with the reason.
set -uo pipefail
cd "$(dirname "$0")/../.."
BUILD=${BUILD:-build}
out=$BUILD/sanitizers
parts=${*:-asan tsan valgrind cppcheck tidy go-race go-asan}
failed=()

# Of all sanitizers: raw threads have no thread-local storage (delivery, threads, undisturbed); what a sanitizer adds to
# each frame and to the process is measured instead of ours (stack_use, scale, traces, heap; modules by RSS, where freed memory
# stays in quarantine) or takes the time (thread_table, found); libunwind meets its frames (adapter_libunwind); it asks for
# alternate signal stacks (nesting_fit); no program that has it runs under valgrind (valgrind).
# suite/test: the end of a thread under a sanitizer is a fifteenth of a life of 1 ms, and not in the thread's own account
# (short_lives); a look at all threads takes so long that waits between two of them are missed (waits); a handler leaves a call
# of glibc's calloc, where it zeroes a block that it gives again (heap_malloc); a child that is forked while other threads
# allocate finds gcc 12's allocator of the sanitizer locked for ever (seen in each of them: malloc, or a thread that begins or
# ends, in sanitizer_mutex).
unfit_asan="adapter_libunwind delivery threads undisturbed stack_use scale traces modules thread_table found nesting_fit valgrind
  short_lives/of_1_ms_* waits/by_call_and_by_lock
  heap/a_small_signal_stack_costs_the_sample_and_nothing_else heap/a_child_of_fork_has_none_and_may_start_one
  heap_malloc/a_call_that_a_handler_leaves_does_not_hide_what_comes
  fork_follow/while_samples_come_and_sessions_come_and_go fork_others/while_others_register_start_stop_and_look_names_up
  fork_others/fork_without_handlers fork_others/raw_clone fork_others/raw_clone_does_not_follow
  fork/three_hundred_times_at_1000_hz_from_two_threads label_sets/a_child_goes_on_in_the_scope copies/a_followed_child_does_not_wait_for_another_copys_lock copies/a_child_of_a_fork_has_the_owners_action"

# Criterion's pattern for all tests of a program but those that do not fit.
fitting() { # program, list
  local name unfit=()
  for name in $2; do case $name in "$1"/*) unfit+=("$name") ;; esac; done
  local IFS='|'
  [ ${#unfit[@]} -eq 0 ] && echo "*/*" || echo "!(${unfit[*]})"
}

is_in() { local item; for item in $2; do [ "$item" = "$1" ] && return 0; done; return 1; }

found_by_sanitizer() { grep -qE 'Sanitizer|runtime error:' "$1"; }

sanitized() { # build directory, test program, tests that do not fit
  timeout -k 5 "${LIMIT:-240}" "$1/tests/core/test_$2" -j1 --filter "$(fitting "$2" "$3")" >"$1/$2.log" 2>&1 &&
    ! grep -q 'Tested: 0' "$1/$2.log" && ! found_by_sanitizer "$1/$2.log"
}

run_sanitized() { # name, flags, tests that do not fit
  local name=$1 flags=$2 unfit=$3 build=$out/$1 source test passed=0 skipped=()
  make --no-print-directory -s -j2 -f core/Makefile BUILD="$build" CFLAGS="-O1 -g $flags" LDFLAGS="$flags" \
    libraries >/dev/null || { failed+=("$name: build"); return; } # the shared one: tests of several copies load it
  for source in tests/core/test_*.c; do
    test=${source##*/test_} test=${test%.c}
    if [ -n "${TESTS:-}" ] && ! is_in "$test" "$TESTS"; then continue; fi
    if is_in "$test" "$unfit"; then skipped+=("$test"); continue; fi
    make --no-print-directory -s -f tests/core/Makefile BUILD="$build" CFLAGS="-O1 -g $flags -Wall -Wextra -DT_DEADLINE=180u" \
      "$build/tests/core/test_$test" >/dev/null || { failed+=("$name: build of $test"); continue; }
    # Times that were missed on a busy machine have a second try; what a sanitizer has found has none.
    if sanitized "$build" "$test" "$unfit" || { ! found_by_sanitizer "$build/$test.log" && sanitized "$build" "$test" "$unfit"; }; then
      passed=$((passed + 1))
    else
      failed+=("$name: $test")
      grep -E 'FAIL|CRASH|Sanitizer|runtime error:|Synthesis' "$build/$test.log" | head -8
    fi
  done
  echo "sanitizers: $name: $passed test programs clean; left out: ${skipped[*]:-none}"
}

run_asan() {
  # abort: Criterion takes a plain exit of a test's process for an end by choice.
  export ASAN_OPTIONS=abort_on_error=1:detect_leaks=0:detect_stack_use_after_return=0:handle_segv=1
  export UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1:abort_on_error=1
  run_sanitized asan "-fsanitize=address,undefined -fno-sanitize-recover=all" "$unfit_asan"
  [ -n "${TESTS:-}" ] && ! is_in heap "$TESTS" || run_heap
}

# libonstack-heap.a with the sanitizer as a library, which comes behind it, and in the program itself.
run_heap() {
  local build=$out/asan compiler form count=0
  make --no-print-directory -s -j2 -f core/Makefile BUILD="$BUILD" "$BUILD/lib/libonstack.a" "$BUILD/lib/libonstack-heap.a" \
    >/dev/null || { failed+=("asan: build for heap"); return; }
  for compiler in gcc clang-14; do
    command -v $compiler >/dev/null || { echo "sanitizers: SKIPPED asan: heap by $compiler: not here"; continue; }
    for form in -static-libasan -shared-libasan; do
      case $compiler$form in gcc-shared*) form= ;; clang*-static*) form=-static-libsan ;; esac
      # shellcheck disable=SC2086
      if $compiler -std=gnu11 -O1 -g -Wall -Wextra -fsanitize=address $form -I core/include tests/sanitizers/heap.c \
        -Wl,--whole-archive "$BUILD/lib/libonstack-heap.a" -Wl,--no-whole-archive "$BUILD/lib/libonstack.a" \
        -Wl,-rpath,"$(dirname "$($compiler -print-file-name=libclang_rt.asan-$(uname -m).so)")" \
        -o "$build/heap" -lpthread -ldl >"$build/heap.log" 2>&1 && timeout -k 5 60 "$build/heap" >>"$build/heap.log" 2>&1; then
        count=$((count + 1))
      else
        failed+=("asan: heap by $compiler $form")
        tail -5 "$build/heap.log"
      fi
    done
  done
  echo "sanitizers: asan: libonstack-heap.a counts beside it in $count forms"
}

# Criterion's own runner does not start under TSan, and most tests send signals, which TSan puts off: one program instead.
# A fence is not modelled (-Wno-tsan): the two places that use one, sequence locks, read words that are atomic each.
run_tsan() {
  local build=$out/tsan flags="-O1 -g -fsanitize=thread -Wno-tsan"
  make --no-print-directory -s -j2 -f core/Makefile BUILD="$build" CFLAGS="$flags" LDFLAGS="$flags" "$build/lib/libonstack.a" \
    >/dev/null && ${CC:-cc} -std=gnu11 -D_GNU_SOURCE -Wall -Wextra $flags -I core/include tests/sanitizers/races.c \
    "$build/lib/libonstack.a" -o "$build/races" -lpthread -ldl -lrt || { failed+=("tsan: build"); return; }
  if TSAN_OPTIONS="suppressions=tests/sanitizers/tsan.supp" timeout -k 5 "${LIMIT:-120}" "$build/races" "${RACES_SECONDS:-20}" \
    >"$build/races.log" 2>&1; then
    tail -1 "$build/races.log"
    echo "sanitizers: tsan: clean"
  else
    failed+=(tsan)
    grep -E '^SUMMARY|^races' "$build/races.log" | sort | uniq -c
  fi
}

# Valgrind's heap is executable, and takes the place of a library that was closed: its old address lies in generated code then.
unfit_for_valgrind='profile_maps/clear_forgets_libraries_that_are_gone'

run_valgrind() {
  local build=$out/plain test count=0
  command -v valgrind >/dev/null || { echo "sanitizers: SKIPPED valgrind: not here (Debian: valgrind)"; return; }
  make --no-print-directory -s -j2 -f core/Makefile BUILD="$build" CFLAGS="-O1 -g" "$build/lib/libonstack.a" >/dev/null ||
    { failed+=("valgrind: build"); return; }
  for test in profile_aggregate profile_pprof profile_symbols profile_maps profile_hostile profile_threads cfi; do
    if [ -n "${TESTS:-}" ] && ! is_in "$test" "$TESTS"; then continue; fi
    make --no-print-directory -s -f tests/core/Makefile BUILD="$build" CFLAGS="-O1 -g -Wall -Wextra -DT_DEADLINE=600u" \
      "$build/tests/core/test_$test" >/dev/null || { failed+=("valgrind: build of $test"); continue; }
    if timeout -k 5 "${LIMIT:-240}" valgrind --quiet --trace-children=yes --error-exitcode=9 --leak-check=no \
      "$build/tests/core/test_$test" -j1 "--filter=!($unfit_for_valgrind)" >"$build/$test.log" 2>&1 && ! grep -qE '^==[0-9]+== [A-Z]' "$build/$test.log"; then
      count=$((count + 1))
    else
      failed+=("valgrind: $test")
      grep -E '^==|FAIL|CRASH|Synthesis' "$build/$test.log" | head -8
    fi
  done
  echo "sanitizers: valgrind: $count test programs clean"
}

# All C that is ours and not generated: bindings/go/onstack_core.c is the core again.
checked_trees="core/platform core/sampler core/profile core/preload core/heap core/adapters plugins/interpreters"
checked_bridge=$(find bindings/go -maxdepth 1 -name '*.c' ! -name onstack_core.c | sort)

run_cppcheck() {
  command -v cppcheck >/dev/null || { echo "sanitizers: SKIPPED cppcheck: not here (Debian: cppcheck)"; return; }
  mkdir -p "$out"
  # shellcheck disable=SC2086
  if timeout -k 5 280 cppcheck --quiet --std=c11 --enable=warning,portability --inline-suppr --error-exitcode=1 \
    --suppressions-list=tests/sanitizers/cppcheck.supp -D__x86_64__ -D__linux__ -D_GNU_SOURCE -D__GNUC__=12 \
    -I core/include -I core -I plugins/interpreters/include -I bindings/go $checked_trees $checked_bridge >"$out/cppcheck.log" 2>&1; then
    echo "sanitizers: cppcheck: clean"
  else
    failed+=(cppcheck)
    head -40 "$out/cppcheck.log"
  fi
}

# Declares the Go functions that the bridge calls: made by cgo, in the files that have C in them.
export_header() { # directory
  mkdir -p "$out/cgo"
  # shellcheck disable=SC2046
  (cd bindings/go && go tool cgo -objdir "$1" -- -I . $(grep -l '^import "C"' ./*.go | grep -v _test))
}

# file, check and line of the source; a line that is found twice is one.
tidy_found() { # log
  sed -nE 's,^.*((core|plugins|bindings)/[^:]*):([0-9]+):[0-9]+: (warning|error): (.*) \[([^],]*).*,\1 \3 \6,p' "$1" | sort -u |
    while read -r file line check; do echo "$file $check $(sed -n "${line}s/^ *//p" "$file")"; done | sort -u
}

# Findings that are none stand in tidy.known, each with its reason: file, check and line of the source.
run_tidy() {
  local tidy found bridge=$checked_bridge
  tidy=$(command -v clang-tidy-14 || command -v clang-tidy) ||
    { echo "sanitizers: SKIPPED clang-tidy: not here (Debian: clang-tidy-14)"; return; }
  mkdir -p "$out"
  if ! export_header "$PWD/$out/cgo" >"$out/cgo.log" 2>&1; then
    echo "sanitizers: clang-tidy: SKIPPED bindings/go: no Go here that declares what the bridge calls"
    bridge=
  fi
  # shellcheck disable=SC2046,SC2086
  timeout -k 5 "${LIMIT:-600}" "$tidy" --quiet --config-file=tests/sanitizers/clang-tidy.yaml \
    $(find $checked_trees -name '*.c' | sort) $bridge -- -std=c11 -D_GNU_SOURCE -I core/include -I core -I plugins/interpreters/include \
    -I core/adapters -I bindings/go -I "$out/cgo" >"$out/tidy.log" 2>"$out/tidy.err"
  [ $? -le 1 ] || { failed+=("clang-tidy did not end"); return; }
  tidy_found "$out/tidy.log" >"$out/tidy.found"
  found=$(grep -vxFf <(grep -v '^#' tests/sanitizers/tidy.known) "$out/tidy.found")
  if [ -z "$found" ]; then
    echo "sanitizers: clang-tidy: clean ($(wc -l <"$out/tidy.found") findings are known to be none)"
  else
    failed+=(clang-tidy)
    echo "$found"
  fi
}

# Without exceptions. handle_segv: a test dies on purpose, and what Go says of it is what is looked at.
run_go() { # flag
  local log=$PWD/$out/go-$1.log tests=${TESTS:-}
  mkdir -p "$out"
  if (cd bindings/go && ASAN_OPTIONS=handle_segv=0 timeout -k 5 "${LIMIT:-1800}" go test "-$1" -count=1 -p 1 -timeout 15m -v \
    ${tests:+-run "${tests// /|}"} ./...) >"$log" 2>&1 && grep -q '^--- PASS' "$log"; then
    echo "sanitizers: go -$1: $(grep -c '^--- PASS' "$log") tests clean"
  else
    failed+=("go -$1: $log")
    grep -E '^ *--- FAIL|^FAIL|DATA RACE|ERROR: |^panic|^fatal error' "$log" | head -20
  fi
}

for part in $parts; do
  case $part in
  asan | tsan | valgrind | cppcheck | tidy) "run_$part" ;;
  go-race | go-asan) run_go "${part#go-}" ;;
  *) sed -n '3,5s/^# //p' "$0" >&2; exit 2 ;;
  esac
done
if [ ${#failed[@]} -gt 0 ]; then
  printf 'sanitizers: FAILED: %s\n' "${failed[@]}"
  exit 1
fi
echo "sanitizers: ok: $parts"
