#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
#
# Core, preload, Go and Rust compiled for each platform that README names, but the one that this machine is, which all
# other checks and tests compile for. Nothing runs: `make portability` and `make test-aarch64` do that. Seconds, where
# nothing has changed; the first time, Go compiles its library for each (a minute or two).
# What has no compiler or no library here is skipped, and fails: a platform that nobody has compiled for is not shown to work.
# With ONSTACK_NO_INSTALL=1, where nobody could have installed them, it is only said, as long as anything was compiled.
set -uo pipefail
cd "$(dirname "$0")/.."
out=$PWD/${BUILD:-build}/platforms
cargo_target=${CARGO_TARGET_DIR:-$PWD/${BUILD:-build}/rust}
native=$(uname -m)-gnu
mkdir -p "$out"
passed=0 failed=0 skipped=0

skip() { echo "skip $*"; skipped=$((skipped + 1)); }

# What it says is shown if it fails; warnings are errors where its own flags say so.
try() { # name, command...
  local name=$1 log=$out/${1// /-}.log
  shift
  if "$@" >"$log" 2>&1; then
    passed=$((passed + 1))
    return
  fi
  failed=$((failed + 1))
  { grep -E 'error|warning' "$log" || tail -20 "$log"; } | head -20
  echo "not ok $name ($log)"
}

find_compiler() { # platform
  case $1 in
  *-gnu) compiler=${1%-gnu}-linux-gnu-gcc ;;
  "$(uname -m)-musl") compiler=musl-gcc ;;
  aarch64-musl) compiler=$(ci/arm64-musl.sh "$out" || true) ;;
  *) compiler= ;;
  esac
  [ -n "$compiler" ] && command -v "$compiler" >/dev/null
}

# As strictly as `make portability` compiles.
check_c() {
  try "core and preload for $1" make --no-print-directory -j2 -f core/Makefile lib BUILD="$out/$1" CC="$compiler" \
    CFLAGS="-O2 -g -pedantic -Wundef -Wshadow -Wstrict-prototypes -Wmissing-prototypes"
}

# Another libc is another C library for the packages with C in them, and nothing to the others.
check_go() {
  local machine=amd64 packages=./...
  case $1 in aarch64-*) machine=arm64 ;; esac
  case $1 in *-musl) packages=$(cd bindings/go && go list -f '{{if .CgoFiles}}{{.ImportPath}}{{end}}' ./...) ;; esac
  # shellcheck disable=SC2086
  try "Go for $1" env -C bindings/go CGO_ENABLED=1 GOARCH=$machine CC="$compiler" go build -p 2 $packages
}

# cargo's own way to name a compiler for a target; the linker is for nothing: no program is linked. The same C was compiled
# with all warnings above.
check_rust() {
  local target=${1%-*}-unknown-linux-${1#*-}
  if ! rustc --print target-libdir --target "$target" 2>/dev/null | xargs -r ls >/dev/null 2>&1; then
    skip "Rust for $1: no standard library (rustup target add $target)"
    return
  fi
  try "Rust for $1" env -C bindings/rust "CC_${target//-/_}=$compiler" "AR_${target//-/_}=ar" \
    "CFLAGS_${target//-/_}=-O0" CARGO_TARGET_DIR="$cargo_target" \
    cargo check --quiet --locked --workspace -j2 --target "$target"
}

# The core without sessions, as macOS and FreeBSD get it, by this machine's compiler: each name once, and none missing.
check_unsupported() {
  local place=$out/unsupported
  try "the core without sessions" make --no-print-directory -j2 -f core/Makefile lib BUILD="$place" SYSTEM=freebsd
  try "all of it together" cc -shared -o "$place/whole.so" -Wl,--no-undefined -Wl,--whole-archive "$place/lib/libonstack.a" -Wl,--no-whole-archive -lpthread
}

# As cargo compiles the core (-O3, at which gcc finds other warnings), for a user whose own flags ask for link-time optimization.
check_flags() {
  try "the core at -O3 with -flto" make --no-print-directory -j2 -f core/Makefile lib BUILD="$out/flags" CFLAGS="-O3 -g -flto"
}

ONSTACK_DEPS=platforms ci/deps.sh || skip "what deps.sh names: it is not installed"
for platform in x86_64-gnu x86_64-musl aarch64-gnu aarch64-musl; do
  [ "$platform" != "$native" ] || continue
  if ! find_compiler "$platform"; then
    skip "$platform: no C compiler for it"
    continue
  fi
  check_c "$platform"
  check_go "$platform"
  check_rust "$platform"
done
check_unsupported
check_flags
echo "check-platforms: $passed compiled, $failed failed, $skipped skipped"
if [ "$skipped" -gt 0 ] && [ "${ONSTACK_NO_INSTALL:-}" != 1 ]; then
  echo "not ok check-platforms: what was skipped above is to be installed, or left out by ONSTACK_NO_INSTALL=1"
  exit 1
fi
if [ "$passed" -eq 0 ]; then
  echo "not ok check-platforms: nothing was compiled"
  exit 1
fi
[ "$failed" -eq 0 ]
