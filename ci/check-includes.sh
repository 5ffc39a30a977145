#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
#
# The directory of a source says in which context it runs, so who may include whom is an order:
#   base <- handler <- {control, drain};  profile: the public header and base;  core/src/onstack.c: everything.
# Also: internal headers are included by their path from core/src, so that this check sees them all.
# Usage: ci/check-includes.sh [directory]   (default: core/src)
set -euo pipefail
cd "$(dirname "$0")/.."
root=${1:-core/src}
status=0
seen=0

# What each directory may see besides itself.
declare -A may=([base]="" [handler]="base" [control]="base handler" [drain]="base handler" [profile]="base")

while IFS=: read -r file line text; do
  seen=$((seen + 1))
  included=$(sed -E 's/.*"([^"]+)".*/\1/' <<<"$text")
  inside=${file#"$root"/}
  from=${inside%%/*}
  to=${included%%/*}
  [ "$included" = "onstack/onstack.h" ] && continue
  case "$inside" in */*) ;; *) continue ;; esac # core/src/onstack.c joins them
  if [ "$to" = "$included" ] || [ -z "${may[$to]+known}" ]; then
    echo "check-includes: $file:$line: \"$included\": write the path from $root, as \"handler/ring.h\"" >&2
    status=1
  elif [ "$to" != "$from" ] && [[ " ${may[$from]-} " != *" $to "* ]]; then
    echo "check-includes: $file:$line: $from/ may not include \"$included\"; it may see: ${may[$from]-nothing} and the" \
      "public header. Move what is shared down to the directory that both may see" >&2
    status=1
  fi
done < <(grep -rnE '^[[:space:]]*#[[:space:]]*include[[:space:]]*"' "$root" --include='*.c' --include='*.h')

for directory in "$root"/*/; do
  name=$(basename "$directory")
  [ -n "${may[$name]+known}" ] && continue
  echo "check-includes: $root/$name is not in the order; add it to ci/check-includes.sh and docs" >&2
  status=1
done
if [ "$seen" -eq 0 ]; then
  echo "check-includes: no include found under $root; is the path right?" >&2
  exit 1
fi
[ "$status" -eq 0 ] && echo "check-includes: $seen includes keep the order"
exit "$status"
