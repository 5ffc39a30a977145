#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
#
# Each folder of the sampler and of the profile links with nothing but the folders before it (ci/check-includes.sh has the order):
# so unwind, for one, can be built and tested without sessions. An include is what a file sees; this is what it needs.
# Usage: ci/check-links.sh    (after make -f core/Makefile lib)
set -euo pipefail
cd "$(dirname "$0")/.."
build=${BUILD:-build}
status=0
folders=0
# The mark before the handler's entry, by which copies of the library find each other: sampler/source has the entry.
later=onstack_copy_self

order() { sed -n "/^$1=\"/{:a;/\"\$/!{N;ba};p}" ci/check-includes.sh | sed "s/^$1=//" | tr -d '"()' | xargs; }
for list in sampler profile; do
  objects=()
  for folder in $(order "$list"); do
    for source in core/"$folder"/*.c; do
      object=$build/obj/${source#core/}
      objects+=("${object%.c}.o")
      [ -f "${objects[-1]}" ] && continue
      echo "check-links: $source has no object in $build/obj: run 'make -f core/Makefile lib' first" >&2
      exit 1
    done
    missing=$(${CC:-cc} -shared -Wl,-z,defs "${objects[@]}" -o "$build/links.so" -lpthread -ldl 2>&1 |
      sed -n "s/.*undefined reference to [\`']\([^']*\)'.*/\1/p" | sort -u | grep -vxF "$later" || true)
    folders=$((folders + 1))
    [ -z "$missing" ] && continue
    echo "check-links: core/$folder needs what no folder before it has: $(xargs <<<"$missing"). Move it down, or hand it over" >&2
    status=1
  done
done
rm -f "$build/links.so"
[ "$status" -eq 0 ] && echo "check-links: $folders folders link without those behind them"
exit "$status"
