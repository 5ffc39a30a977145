#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# A C compiler for arm64 with musl, made below DIRECTORY; prints its path. musl's headers and library of arm64 are unpacked
# there, behind Debian's cross compiler for glibc: what musl-gcc is to the compiler of this machine. Fails where the packages
# cannot be had, and with ONSTACK_NO_INSTALL=1 where they have not been unpacked before.
# Usage: ci/arm64-musl.sh DIRECTORY
set -euo pipefail
mkdir -p "$1"
directory=$(cd "$1" && pwd)
cd "$(dirname "$0")/.."
musl=$directory/arm64/root
specs=$directory/aarch64-musl.specs
compiler=$directory/aarch64-musl-gcc
command -v aarch64-linux-gnu-gcc >/dev/null
[ "${ONSTACK_NO_INSTALL:-}" != 1 ] || [ -e "$musl/usr/lib/aarch64-linux-musl/musl-gcc.specs" ]
ci/arm64-apt.sh "$directory/arm64" unpack musl musl-dev >"$directory/arm64.log" 2>&1
sed "s#/usr/#$musl/usr/#g" "$musl/usr/lib/aarch64-linux-musl/musl-gcc.specs" >"$specs"
printf '#!/bin/sh\nexec aarch64-linux-gnu-gcc "$@" -specs "%s"\n' "$specs" >"$compiler"
chmod +x "$compiler"
echo "$compiler"
