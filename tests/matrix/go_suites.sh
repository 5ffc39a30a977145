#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# Go's own tests as witness: runtime/pprof, and of runtime what has to do with cgo, profiles and signals, externally
# linked, without us and with the preload sampling. What passes without must pass with it. Some minutes.
# A test that fails once with the preload is run again alone, both ways: on a busy machine Go's own timing fails as well.
# Usage: tests/matrix/go_suites.sh [BUILD]
set -uo pipefail
cd "$(dirname "$0")/../.."
build=$(cd "${1:-build}" && pwd)
preload=$build/lib/libonstack-preload.so
out=$build/matrix/go-suites
mkdir -p "$out"
failed=0
[ -f "$preload" ] || { echo "skip go suites: $preload is not built (make -f core/Makefile preload)"; exit 77; }

# package, name, pattern, with or without. Test names that passed, sorted; the preload's own accounting in NAME.status.
run_tests() {
  local directory preloaded=()
  directory=$(go list -f '{{.Dir}}' "$1")
  [ "$4" = with ] && preloaded=(LD_PRELOAD="$preload" ONSTACK_PROFILE="$out/$2.%p.pb.gz" ONSTACK_FORK=stop
    ONSTACK_FREQUENCY=250 ONSTACK_STATUS="$out/$2.status")
  (cd "$directory" && timeout -k 5 900 env "${preloaded[@]}" "$out/$2.test" -test.v -test.short -test.run "$3") >"$out/$2.$4.log" 2>&1
  grep -oE '^ *--- PASS: [^ ]+' "$out/$2.$4.log" | awk '{print $3}' | sort
}

suite() { # package, name, pattern
  local lost test
  go test -c -ldflags=-linkmode=external -o "$out/$2.test" "$1" || { echo "not ok go suites, $1: does not build"; failed=1; return; }
  rm -f "$out/$2".*.pb.gz "$out/$2.status"
  run_tests "$1" "$2" "$3" without >"$out/$2.without"
  run_tests "$1" "$2" "$3" with >"$out/$2.with"
  lost=$(comm -23 "$out/$2.without" "$out/$2.with")
  for test in $lost; do
    run_tests "$1" "$2" "^${test//\//\$/^}\$" with | grep -qxF "$test" && lost=$(grep -vxF "$test" <<<"$lost")
  done
  local ticks
  ticks=$(grep -oE 'ticks=[0-9]+' "$out/$2.status" 2>/dev/null | head -1)
  if [ -n "$lost" ] || [ ! -s "$out/$2.without" ] || [ -z "$ticks" ] || [ "$ticks" = ticks=0 ]; then
    echo "not ok go suites, $1: passed without us and not with the preload: ${lost:-none} ($ticks)"
    failed=1
  else
    echo "ok go suites, $1: $(wc -l <"$out/$2.without") tests passed without us, the same with the preload ($ticks)"
  fi
}

suite runtime/pprof pprof .
suite runtime runtime 'Cgo|Prof|Signal'
exit $failed
