#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# Rust and Go formatting, lints, and shell syntax. `make fmt` mends the first two.
set -uo pipefail
cd "$(dirname "$0")/.."
status=0
unformatted=$(gofmt -l bindings/go examples)
[ -z "$unformatted" ] || { printf 'gofmt: not formatted (make fmt):\n%s\n' "$unformatted"; status=1; }
(cd bindings/rust && cargo fmt --all --check >/dev/null) || { echo "cargo fmt: not formatted (make fmt)"; status=1; }
for script in ci/*.sh examples/*.sh .ci/run; do
  bash -n "$script" || status=1
done
[ $status = 0 ] && echo "formats: ok"
exit $status
