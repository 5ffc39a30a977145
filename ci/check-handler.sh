#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
#
# What runs inside the signal handler calls nothing of libc and touches no thread-local storage: on a thread made by raw
# clone the thread pointer may be 0, and a call through the PLT may bind lazily on a signal stack of a few KiB.
# Looks at the objects of all NAME_handler.c: undefined names, stack protector, sanitizers, relocations for TLS and PLT.
# Usage: ci/check-handler.sh [directory with objects]   (default: build/obj). Names that may be used all the
# same stand in ci/handler.allow, one a line, with the reason behind a '#'.
set -euo pipefail
cd "$(dirname "$0")/.."
objects=${1:-${BUILD:-build}/obj}
status=0
complain() {
  echo "check-handler: $*" >&2
  status=1
}

mapfile -t files < <(find "$objects" -name '*_handler.o' 2>/dev/null | LC_ALL=C sort)
if [ ${#files[@]} -eq 0 ]; then
  echo "check-handler: no objects in $objects; run 'make -f core/Makefile lib' first" >&2
  exit 1
fi
# Each source has its object, or the check would pass by looking at nothing.
if [ $# -eq 0 ]; then
  while read -r source; do
    object=${source#core/} # those of plugins/ lie in plugins/
    [ -f "$objects/${object%.c}.o" ] || complain "$source has no object in $objects; build first"
  done < <(find core plugins -name '*_handler.c')
  # An object whose source has moved is not linked any more.
  for object in "${!files[@]}"; do
    source=${files[$object]#"$objects"/}
    [ -f "core/${source%.o}.c" ] || [ -f "${source%.o}.c" ] || unset "files[$object]"
  done
fi
allowed=$(sed -E 's/#.*//; s/[[:space:]]+//g; /^$/d' ci/handler.allow)

# TLS in every model of both architectures, and calls by the PLT.
tls='TPOFF|DTPMOD|DTPOFF|TLSGD|TLSLD|TLSDESC|GOTTPOFF|TLSLE|TLSIE'
for file in "${files[@]}"; do
  name=$(basename "$file")
  while read -r symbol; do
    case "$symbol" in
    onstack_*) continue ;; # another object of the handler, or shared data: hidden, so bound at link time
    _GLOBAL_OFFSET_TABLE_) continue ;;
    esac
    grep -qxF "$symbol" <<<"$allowed" && continue
    case "$symbol" in
    __stack_chk_*) complain "$name uses the stack protector ($symbol): build it with -fno-stack-protector" ;;
    __asan_* | __tsan_* | __ubsan_* | __msan_*) complain "$name is instrumented ($symbol): -fno-sanitize=all" ;;
    *) complain "$name uses $symbol: not allowed in the signal handler (write it inline; see ci/handler.allow)" ;;
    esac
  done < <(nm -u "$file" | awk '{print $NF}')
  relocations=$(readelf -rW "$file")
  if grep -E "$tls" <<<"$relocations" >&2; then
    complain "$name has thread-local storage (above): the thread pointer of a raw thread may be 0"
  fi
  if grep -E 'R_X86_64_PLT32|R_X86_64_GOTPCREL' <<<"$relocations" | grep -vE ' (onstack_[A-Za-z0-9_]+|\.[a-z.A-Z0-9_]+)( [-+] [0-9a-f]+)?$' >&2; then
    complain "$name calls through the PLT or GOT (above)"
  fi
done

# Names of ours that the handler uses must be its own: control code may lock and allocate.
defined=$(nm --defined-only "${files[@]}" 2>/dev/null | awk 'NF == 3 {print $3}' | sort -u)
needed=$(nm -u "${files[@]}" 2>/dev/null | awk '$1 == "U" && $2 ~ /^onstack_/ {print $2}' | sort -u)
foreign=$(comm -13 <(printf '%s\n' "$defined") <(printf '%s\n' "$needed"))
if [ -n "$foreign" ]; then
  complain "the handler uses names that are defined in no NAME_handler.c: $(tr '\n' ' ' <<<"$foreign")"
fi
[ "$status" -eq 0 ] && echo "check-handler: ${#files[@]} objects use nothing but each other"
exit "$status"
