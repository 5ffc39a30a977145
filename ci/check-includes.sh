#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
#
# A folder of the core is a subject, and the folders have an order: a file may include what lies in its own folder and in those
# that come before it in one of the lists below. So no two folders need each other, and a folder can be built and tested with
# those before it. docs/ARCHITECTURE.md shows the same order. The public headers may be included anywhere; core/heap,
# core/adapters and core/unsupported include nothing else.
# Nor do files include each other in a circle. What differs by processor lies in files that are named after one; elsewhere only
# a file that chooses among them may ask for it, in at most `choosers` places.
# Usage: ci/check-includes.sh [directory]   (default: core)
set -euo pipefail
cd "$(dirname "$0")/.."
root=${1:-core}
status=0
seen=0
choosers=5

# A list begins with what it builds on, in parentheses if that is another list's.
sampler="platform sampler/unwind sampler/modules sampler/labels sampler/interpreter sampler/ring sampler/threads sampler/signal
  sampler/session sampler/source sampler/drain"
profile="(platform) profile/store profile/maps profile/elf profile/generated profile profile/pprof"
whole="$sampler $profile sampler/api preload"
alone="heap adapters unsupported"

complain() {
  echo "check-includes: $*" >&2
  status=1
}

declare -A may=() # of each folder, those that it may include
for list in "$sampler" "$profile" "$whole"; do
  before=""
  for name in $list; do
    folder=${name//[()]/}
    [ "$folder" = "$name" ] && [ -z "${may[$folder]+known}" ] && may[$folder]=" $before"
    before+="$folder "
  done
done
for name in $alone; do may[$name]=""; done


while IFS=: read -r file line text; do
  seen=$((seen + 1))
  included=${text#*\"}
  included=${included%%\"*}
  case $included in onstack/*) continue ;; esac
  inside=${file#"$root"/}
  from=${inside%/*} to=${included%/*}
  if [ ! -f "$root/$included" ]; then
    [ "$from" = adapters ] && [ -f "$root/adapters/$included" ] && continue
    complain "$file:$line: \"$included\" is no file of $root: write the path from there on, as \"sampler/ring/ring.h\""
  elif [ "$to" != "$from" ] && [[ "${may[$from]-} " != *" $to "* ]]; then
    complain "$file:$line: $from may not include \"$included\"; it may see:${may[$from]:- nothing} and the public headers." \
      "Move what both need to a folder that both may see"
  fi
done < <(grep -rnE '^[[:space:]]*#[[:space:]]*include[[:space:]]*"' "$root" --include='*.c' --include='*.h')

while read -r directory; do
  [ -n "${may[${directory#"$root"/}]+known}" ] && continue
  complain "$directory is not in the order; add it to ci/check-includes.sh and docs/ARCHITECTURE.md"
done < <(find "$root" -name '*.[ch]' -not -path "$root/include/*" -not -path "$root/package/*" -printf '%h\n' | sort -u)

# A plug-in sees its own files and the public headers.
if [ "$root" = core ]; then
  while IFS=: read -r file line text; do
    seen=$((seen + 1))
    included=${text#*\"}
    included=${included%%\"*}
    case $included in onstack/*) continue ;; esac
    [ -f "${file%/*}/$included" ] || complain "$file:$line: a plug-in may include its own files and public headers, not \"$included\""
  done < <(grep -rnE '^[[:space:]]*#[[:space:]]*include[[:space:]]*"' plugins --include='*.[ch]')
fi

# A .c and its .h are one: what the .c includes, both depend on.
find_circle() { # which files
  grep -rE '^[[:space:]]*#[[:space:]]*include[[:space:]]*"' "$root" --include="$1" |
    sed -E "s#^$root/([^:]+)\.[ch]:[^\"]*\"([^\"]+)\.h\".*#\\1 \\2#; s#_handler ([^ ]+)\$# \\1#" |
    awk '$1 != $2' | tsort 2>&1 >/dev/null | sed 's/^tsort: //; s/^-: //' || true
}
circle=$(find_circle '*.h')
[ -n "$circle" ] || circle=$(find_circle '*.[ch]')
[ -z "$circle" ] || complain "these include each other in a circle (each a .c with its .h):"$'\n'"$circle"

# An #elif belongs to its #if. x86 and arm in whatever macros compilers have for them.
chosen=$(grep -rnE '^[[:space:]]*#[[:space:]]*if.*(__x86_64|__amd64|__i386|__aarch64|__arm)' "$root" \
  --include='*.[ch]' | grep -vE '^[^:]*_(x86_64|aarch64)(_handler)?\.[ch]:' || true)
asked=$(grep -c . <<<"$chosen" || true)
[ "$asked" -le "$choosers" ] ||
  complain "$asked places ask for the processor, at most $choosers may; put what differs into files named after it:"$'\n'"$chosen"
if [ "$seen" -eq 0 ]; then
  echo "check-includes: no include found under $root; is the path right?" >&2
  exit 1
fi
[ "$status" -eq 0 ] && echo "check-includes: $seen includes keep the order of $((${#may[@]})) folders, $asked places choose the processor"
exit "$status"
