#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
#
# The directory of a source says in which context it runs, so who may include whom is an order:
#   base <- handler <- {allocator, drain}; allocator <- control;  profile: the public header and base;  session: control,
#   drain, profile and what is below them;  preload: all but allocator and drain;  heap, adapters, unsupported: the public
#   header alone.
# Below the context a directory is a subject: handler/tick, control/unwind. An internal header is included by its path
# from core/src (from core for the preload's own), so that this check sees it.
# docs/ARCHITECTURE.md has the same order as a table.
# Nobody includes in a circle. What differs by processor lies in files that are named after one; elsewhere only a file that
# chooses among them may ask for it, in at most `choosers` places.
# Usage: ci/check-includes.sh [directory]   (default: core)
set -euo pipefail
cd "$(dirname "$0")/.."
root=${1:-core}
status=0
seen=0
choosers=5

# What each directory may see besides itself.
declare -A may=(
  [base]=""
  [handler]="base"
  [allocator]="base handler"
  [control]="base handler allocator"
  [drain]="base handler"
  [profile]="base"
  [session]="base handler control drain profile"
  [preload]="base handler control profile session"
  [heap]=""
  [adapters]=""
  [unsupported]=""
)

while IFS=: read -r file line text; do
  seen=$((seen + 1))
  included=$(sed -E 's/.*"([^"]+)".*/\1/' <<<"$text")
  inside=${file#"$root"/}
  inside=${inside#src/}
  from=${inside%%/*}
  to=${included%%/*}
  [ "$included" = "onstack/onstack.h" ] && continue
  if [ "$to" = "$included" ] || [ -z "${may[$to]+known}" ]; then
    echo "check-includes: $file:$line: \"$included\": write the path from the context on, as \"handler/tick/ring.h\"" >&2
    status=1
  elif [ "$to" != "$from" ] && [[ " ${may[$from]-} " != *" $to "* ]]; then
    echo "check-includes: $file:$line: $from/ may not include \"$included\"; it may see: ${may[$from]:-nothing} and the" \
      "public header. Move what is shared down to the directory that both may see" >&2
    status=1
  fi
done < <(grep -rnE '^[[:space:]]*#[[:space:]]*include[[:space:]]*"' "$root" --include='*.c' --include='*.h')

for directory in "$root"/*/ "$root"/src/*/; do
  name=$(basename "$directory")
  case $name in include | package | src) continue ;; esac
  [ -n "${may[$name]+known}" ] && continue
  echo "check-includes: $directory is not in the order; add it to ci/check-includes.sh and docs" >&2
  status=1
done
for file in "$root"/src/*.[ch]; do
  [ -e "$file" ] || continue
  echo "check-includes: $file has no context; move it into a directory of $root/src" >&2
  status=1
done
# A .c and its .h are one: what the .c includes, both depend on.
find_circle() { # which files
  grep -rE '^[[:space:]]*#[[:space:]]*include[[:space:]]*"' "$root" --include="$1" |
    sed -E "s#^$root/(src/)?([^:]+)\.[ch]:[^\"]*\"([^\"]+)\.h\".*#\\2 \\3#" |
    awk '$1 != $2' | tsort 2>&1 >/dev/null | sed 's/^tsort: //; s/^-: //' || true
}
circle=$(find_circle '*.h')
[ -n "$circle" ] || circle=$(find_circle '*.[ch]')
if [ -n "$circle" ]; then
  printf 'check-includes: these include each other in a circle (each a .c with its .h):\n%s\n' "$circle" >&2
  status=1
fi
# An #elif belongs to its #if. x86 and arm in whatever macros compilers have for them.
chosen=$(grep -rnE '^[[:space:]]*#[[:space:]]*if.*(__x86_64|__amd64|__i386|__aarch64|__arm)' "$root" \
  --include='*.[ch]' | grep -vE '^[^:]*_(x86_64|aarch64)\.[ch]:' || true)
asked=$(grep -c . <<<"$chosen" || true)
if [ "$asked" -gt "$choosers" ]; then
  printf 'check-includes: %d places ask for the processor, at most %d may; put what differs into files named after it:\n%s\n' \
    "$asked" "$choosers" "$chosen" >&2
  status=1
fi
if [ "$seen" -eq 0 ]; then
  echo "check-includes: no include found under $root; is the path right?" >&2
  exit 1
fi
[ "$status" -eq 0 ] && echo "check-includes: $seen includes keep the order, $asked places choose the processor"
exit "$status"
