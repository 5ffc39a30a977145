#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# Checks that need no running program. Each script prints one closing line and says on failure what to do.
set -uo pipefail
cd "$(dirname "$0")/.."
status=0
make --no-print-directory -j2 -f core/Makefile lib preload || exit 1
for check in ci/check-includes.sh ci/check-links.sh ci/check-handler.sh ci/check-handler-calls.sh ci/check-preload-handlers.py \
  ci/check-exports.sh ci/check-abi.sh "ci/amalgamate.py --check" ci/check-bindings.sh ci/check-format.sh ci/check-pages.sh \
  ci/check-documents.py ci/check-versions.py bindings/rust/tests/check-modules.py ci/check-platforms.sh; do
  $check || { echo "FAILED: $check"; status=1; }
done
exit $status
