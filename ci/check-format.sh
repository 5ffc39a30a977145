#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# C, Rust and Go formatting, and shell syntax. `make fmt` repairs the first three. C goes by clang-format 14: other versions
# lay some lines out differently.
set -uo pipefail
cd "$(dirname "$0")/.."
status=0
if command -v clang-format-14 >/dev/null 2>&1; then
  ci/c-files.sh | xargs clang-format-14 --dry-run --Werror -ferror-limit=3 || { echo "clang-format: not formatted (make fmt)"; status=1; }
else
  echo "check-format: no clang-format-14 here: C is not looked at"
fi
unformatted=$(gofmt -l bindings/go examples)
[ -z "$unformatted" ] || { printf 'gofmt: not formatted (make fmt):\n%s\n' "$unformatted"; status=1; }
(cd bindings/rust && cargo fmt --all --check >/dev/null) || { echo "cargo fmt: not formatted (make fmt)"; status=1; }
for script in ci/*.sh examples/*.sh .ci/run; do
  bash -n "$script" || status=1
done
[ $status = 0 ] && echo "formats: ok"
exit $status
