#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# What the plug-in knows of interpreters, against the headers of each version that is installed: Debian's, and those of
# ONSTACK_PYTHONS (programs, a pattern; default: pyenv's). Called by ci/test.sh rest.
set -uo pipefail
cd "$(dirname "$0")/../.."
BUILD=${BUILD:-build}
out=$BUILD/tests/interpreters
mkdir -p "$out"
failed=0 compared=0

# The static functions of the plug-in's file that are not called here are no mistake.
compare() { # name, source, flags of the headers
  local name=$1 source=$2
  shift 2
  compared=$((compared + 1))
  cc -w -O1 -std=gnu11 -D_GNU_SOURCE -I core/include -I plugins/interpreters/include -I plugins/interpreters -I . "$@" "tests/interpreters/$source" \
    "$BUILD/lib/libonstack-interpreters.a" "$BUILD/lib/libonstack.a" \
    -lpthread -o "$out/$name" && timeout -k 5 20 "$out/$name" || failed=$((failed + 1))
}

for program in /usr/bin/python3 ${ONSTACK_PYTHONS:-"$HOME"/.pyenv/versions/*/bin/python3.*}; do
  [[ -x $program && $(readlink -f "$program") =~ python3\.(9|1[0-3])$ ]] || continue
  include=$("$program" -c 'import sysconfig; print(sysconfig.get_paths()["include"])')
  [ -f "$include/internal/pycore_runtime.h" ] || continue
  compare "python-$compared" python_layouts.c -I "$include" -I "$include/internal"
done
for config in /usr/bin/php-config8.[1-5]; do
  [ -x "$config" ] || continue
  # shellcheck disable=SC2046
  compare "php-$compared" php_layouts.c $("$config" --includes)
done
echo "interpreters: $compared compared, $failed failed"
[ $failed = 0 ]
