#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
#
# The system calls of the files that run in the handler (NAME_handler.c), of what samples allocations, and of the headers that they use are those in the table of docs/SIGNAL-SAFETY.md:
# a new one is a decision that wants its reason written down.
set -euo pipefail
cd "$(dirname "$0")/.."
document=docs/SIGNAL-SAFETY.md
listed=$(sed -n 's/^| `\([a-z0-9_]*\)` | \(handler\|set-up\) |.*/\1/p' "$document" | LC_ALL=C sort)
used=$(grep -rohE --include='*_handler.c' --include='*.h' --include=heap.c --include=live.c '\bSYS_[a-z0-9_]+' \
  core/sampler plugins core/platform/context_*.h core/platform/sys.h | sed 's/^SYS_//' | LC_ALL=C sort -u)
if [ -z "$listed" ] || [ -z "$used" ]; then
  echo "check-handler-calls: found no system call in $document or in the source; a pattern is wrong" >&2
  exit 1
fi
if ! diff <(printf '%s\n' "$listed") <(printf '%s\n' "$used") >&2; then
  echo "check-handler-calls: the table in $document (<) and the handler's files (>) differ: say there why the" \
    "call is safe inside a signal handler, or take it out" >&2
  exit 1
fi
echo "check-handler-calls: $(wc -l <<<"$used") system calls, each with its reason"
