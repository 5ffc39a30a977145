#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# C, Rust and Go formatting, and shell syntax. `make fmt` repairs the first three. C goes by clang-format 14: other versions
# lay some lines out differently. Besides, of C: no line over 128 columns (comments are laid out by hand), and pointers are
# conditions (!pointer, not pointer == NULL).
set -uo pipefail
cd "$(dirname "$0")/.."
status=0
if command -v clang-format-14 >/dev/null 2>&1; then
  ci/c-files.sh | xargs clang-format-14 --dry-run --Werror -ferror-limit=3 || { echo "clang-format: not formatted (make fmt)"; status=1; }
elif [ "${ONSTACK_NO_INSTALL:-}" = 1 ]; then
  echo "check-format: no clang-format-14 here: C is not looked at"
else
  echo "check-format: no clang-format-14 here: install it, or leave C out by ONSTACK_NO_INSTALL=1" && status=1
fi
complain() { # what is wrong, with advice; where
  [ -z "$2" ] || { printf '%s:\n%s\n' "$1" "$(head -5 <<<"$2")"; status=1; }
}
# The headers of former versions stay as they were.
c_files=$(ci/c-files.sh | grep -v '^tests/abi/headers/')
complain "over 128 columns: break the comment" "$(xargs awk 'length($0) > 128 { print FILENAME ":" FNR }' <<<"$c_files")"
complain "a comparison with NULL: write pointer, !pointer" "$(xargs grep -nE '[!=]= *NULL\b|\bNULL *[!=]=' <<<"$c_files")"
unformatted=$(gofmt -l bindings/go examples)
[ -z "$unformatted" ] || { printf 'gofmt: not formatted (make fmt):\n%s\n' "$unformatted"; status=1; }
(cd bindings/rust && cargo fmt --all --check >/dev/null) || { echo "cargo fmt: not formatted (make fmt)"; status=1; }
for script in ci/*.sh examples/*.sh .ci/run; do
  bash -n "$script" || status=1
done
[ $status = 0 ] && echo "formats: ok"
exit $status
