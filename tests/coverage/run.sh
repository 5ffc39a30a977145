#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# Lines of the core that its C tests run: build/coverage/{lines.txt,uncovered.txt,html/}; figures by directory are printed.
# docs/COVERAGE.md explains what is left. Usage: tests/coverage/run.sh [report]     (report: of the last run's counts)
#   TESTS="sessions ring": only these. LIMIT: seconds a test program may take (240).
#
# The handler's objects are counted too: the counts are plain memory, added to by one atomic instruction, no call and no
# thread-local storage. A process that ends by a signal or _exit leaves no counts: what only such children run looks as
# if it was never run.
set -uo pipefail
cd "$(dirname "$0")/../.."
BUILD=${BUILD:-build}
out=$BUILD/coverage
failed=()
python3 -c 'import gcovr' 2>/dev/null || { echo "coverage: gcovr is missing; type: pip install gcovr" >&2; exit 1; }

run_tests() {
  local flags="-O1 -g --coverage -fprofile-update=atomic" source test
  make --no-print-directory -s -j2 -f core/Makefile BUILD="$out" CFLAGS="$flags" LDFLAGS=--coverage libraries adapters \
    >/dev/null || exit 1
  find "$out" -name '*.gcda' -delete
  for source in tests/core/test_*.c; do
    test=$(basename "$source" .c)
    case " ${TESTS:-${test#test_}} " in *" ${test#test_} "*) ;; *) continue ;; esac
    make --no-print-directory -s -f tests/core/Makefile BUILD="$out" CFLAGS="-O1 -g -Wall -Wextra" EXTRA_LIBS="-lgcov -lunwind" \
      "$out/tests/core/$test" >/dev/null || { failed+=("$test: build"); continue; }
    timeout -k 5 "${LIMIT:-240}" "$out/tests/core/$test" -j1 >"$out/$test.log" 2>&1 || failed+=("$test")
  done
}

report() {
  mkdir -p "$out/html"
  python3 -m gcovr --root . --filter core/platform/ --filter core/sampler/ --filter core/profile/ --filter plugins/ --object-directory "$out/obj" "$out/obj" --gcov-ignore-parse-errors=all \
    --merge-mode-functions=separate --json "$out/coverage.json" --txt "$out/lines.txt" --html-details "$out/html/index.html" \
    >"$out/gcovr.log" 2>&1 || { tail -20 "$out/gcovr.log"; exit 1; }
  python3 tests/coverage/report.py "$out/coverage.json" "$out/uncovered.txt"
}

[ "${1:-}" = report ] || run_tests
report
# A test that measures time or stack may fail here: the counting changes both. It has run all the same.
[ ${#failed[@]} -eq 0 ] || echo "coverage: failed while counting: ${failed[*]}"
