#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
#
# The public headers and the library still say what docs/abi says, and keep what the headers in tests/abi/headers
# promised (docs/ABI.md has the rules). abidiff looks at the library's debug information as well, where it is installed.
# `--write` replaces the baseline; look at the difference before it is committed.
set -uo pipefail
cd "$(dirname "$0")/.."
headers=core/include/onstack
library=${BUILD:-build}/lib/libonstack.so
layout=docs/abi/onstack.layout
interface=docs/abi/libonstack.abi.xml
[ -e "$library" ] || { echo "check-abi: $library is missing; run 'make -f core/Makefile lib' first" >&2; exit 1; }

# Only what the header shows, without a path or a line number.
describe() {
  abidw --no-comp-dir-path --no-show-locs --no-corpus-path --exported-interfaces-only --type-id-style hash \
    --headers-dir core/include --drop-private-types "$library"
}

if [ "${1-}" = --write ]; then
  command -v abidw >/dev/null || { echo "check-abi: --write needs abidw: apt-get install abigail-tools" >&2; exit 1; }
  ci/abi.py dump "$headers" >"$layout" && describe >"$interface" && echo "check-abi: wrote $layout and $interface"
  exit
fi

status=0
complain() {
  echo "check-abi: $*" >&2
  status=1
}

ci/abi.py dump "$headers" | diff -u "$layout" - >&2 ||
  complain "$headers is not what $layout says. If nothing breaks (docs/ABI.md): ci/check-abi.sh --write"
for old in tests/abi/headers/*/onstack; do
  [ -d "$old" ] || continue
  ci/abi.py compatible "$old" "$headers" >&2 || complain "programs that were built with $old break (above)"
done

witness="without abidiff (apt-get install abigail-tools)"
if command -v abidiff >/dev/null; then
  witness="abidiff agrees"
  abidiff --headers-dir2 core/include --drop-private-types "$interface" "$library" >&2
  case $? in
  0) ;;
  *) complain "the library is not what $interface says (above). If nothing breaks: ci/check-abi.sh --write" ;;
  esac
fi
[ "$status" -eq 0 ] && echo "check-abi: layouts and functions as in docs/abi; $witness"
exit "$status"
