#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# Pages of figures are what the figures kept beside them give.
set -uo pipefail
cd "$(dirname "$0")/.."
for maker in tests/bench/page.py tests/matrix/page.py; do
  python3 "$maker" --check || exit 1
done
echo "check-pages: docs/BENCHMARKS.md and docs/MATRIX.md are what their figures give"
