#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# Installs what `make demo` and `make test` need beyond a C compiler, make, Go and cargo: prints its command first.
# Without root, or with ONSTACK_NO_INSTALL=1, it says what is missing and what to type, and fails.
# ONSTACK_DEPS=bench adds the neighbours that `make bench` compares with; they are optional there.
# ONSTACK_DEPS=fuzz adds clang with libFuzzer.
# ONSTACK_DEPS=install adds what builds programs against an installed library, ONSTACK_DEPS=portability other compilers.
# ONSTACK_DEPS=hosts adds the programs that are profiled by the preload in `make stress`; those that are missing fail there.
# ONSTACK_DEPS=view adds a browser and its driver.
# ONSTACK_DEPS=sanitize adds valgrind and the static checkers; those that are missing are skipped.
# ONSTACK_DEPS=platforms adds compilers and Rust's libraries for the other platforms.
# ONSTACK_DEPS=aarch64 adds an emulator of arm64, and ONSTACK_DEPS=aarch64-vm one of a whole machine.
# ONSTACK_DEPS=debian adds debootstrap, for a clean Debian in a directory.
# ONSTACK_DEPS=check adds bindgen, which only the comparison of the generated Rust declarations needs, abidiff and clang-format.
set -euo pipefail

bindgen_version=0.73.2
missing_tools=()
for tool in cc make go cargo python3; do
  command -v "$tool" >/dev/null 2>&1 || missing_tools+=("$tool")
done
if [ ${#missing_tools[@]} -gt 0 ]; then
  echo "onstack: missing: ${missing_tools[*]}" >&2
  echo "  C compiler, make and python3: apt-get install gcc make python3" >&2
  echo "  Go 1.25 or later: https://go.dev/dl/   Rust 1.85 or later: https://rustup.rs" >&2
  exit 1
fi

packages=()
want_header() { # package, header
  echo "#include <$2>" | cc -E -x c - >/dev/null 2>&1 || packages+=("$1")
}
want_header libcriterion-dev criterion/criterion.h
want_header libunwind-dev libunwind.h
want_header zlib1g-dev zlib.h # libz.a goes into the preload, which writes plain pprof without
if [ "${ONSTACK_DEPS:-}" = bench ]; then
  want_header libgoogle-perftools-dev gperftools/profiler.h
  ls /usr/lib/*/libjemalloc.so.2 >/dev/null 2>&1 || packages+=(libjemalloc2)
  ls /usr/lib/heaptrack/libheaptrack_preload.so >/dev/null 2>&1 || packages+=(heaptrack)
  command -v redis-server >/dev/null 2>&1 || packages+=(redis)
  command -v db_bench >/dev/null 2>&1 || packages+=(rocksdb-tools)
  command -v ab >/dev/null 2>&1 || packages+=(apache2-utils)
  command -v nginx >/dev/null 2>&1 || [ -x /usr/sbin/nginx ] || packages+=(nginx)
  command -v clang-14 >/dev/null 2>&1 || packages+=(clang-14)
  command -v javac >/dev/null 2>&1 || packages+=(default-jdk-headless)
  ls /usr/lib/postgresql/*/bin/pgbench >/dev/null 2>&1 || packages+=(postgresql)
  pkg-config --exists python3-embed 2>/dev/null || packages+=(pkg-config python3-dev)
  export RUNLEVEL=1 # the packages' own services are not started
fi
case ${ONSTACK_DEPS:-} in fuzz | sanitize)
  command -v clang-14 >/dev/null 2>&1 || packages+=(clang-14)
  ls /usr/lib/llvm-14/lib/clang/*/lib/linux/libclang_rt.fuzzer-* >/dev/null 2>&1 || packages+=(libclang-rt-14-dev)
  ;;
esac
want_tool() { # package, command
  command -v "$2" >/dev/null 2>&1 || packages+=("$1")
}
if [ "${ONSTACK_DEPS:-}" = hosts ]; then
  want_tool redis-server redis-server
  want_tool nginx nginx
  want_tool nodejs node
  want_tool chromium chromium
  want_tool default-jdk-headless javac
  want_tool php-cli php
  want_tool luajit luajit
  python3 -c 'import ensurepip' 2>/dev/null || packages+=(python3-venv)
  want_tool apache2 apache2
  want_tool clang-14 clang-14
  want_tool ffmpeg ffmpeg
  want_tool erlang-base erl
  want_tool llvm-runtime lli
  want_tool sbcl sbcl
  want_tool guile-3.0 guile
  [ -e /usr/include/boost/context/fiber.hpp ] || packages+=(libboost-context-dev)
  ls /usr/lib/postgresql/*/bin/pgbench >/dev/null 2>&1 || packages+=(postgresql)
  ls /usr/lib/apache2/modules/libphp* >/dev/null 2>&1 || packages+=(libapache2-mod-php)
  /usr/bin/python3 -c 'import test.test_signal' 2>/dev/null || packages+=(python3 libpython3.11-testsuite) # Debian 12's
  export RUNLEVEL=1 # the packages' own services are not started
fi
if [ "${ONSTACK_DEPS:-}" = debian ]; then want_tool debootstrap debootstrap; fi
if [ "${ONSTACK_DEPS:-}" = view ]; then
  want_tool chromium chromium
  want_tool chromium-driver chromedriver
fi
if [ "${ONSTACK_DEPS:-}" = install ]; then
  want_tool cmake cmake
  want_tool pkg-config pkg-config
  want_tool g++ g++
  want_tool clang-14 clang-14
  want_tool mandoc mandoc
fi
case ${ONSTACK_DEPS:-} in portability | platforms | aarch64 | aarch64-vm)
  want_tool gcc-aarch64-linux-gnu aarch64-linux-gnu-gcc
  [ -e /usr/aarch64-linux-gnu/include/stdio.h ] || packages+=(libc6-dev-arm64-cross)
  ;;
esac
case ${ONSTACK_DEPS:-} in portability | platforms) want_tool musl-tools musl-gcc ;; esac
case ${ONSTACK_DEPS:-} in portability) want_tool clang-14 clang-14 ;; esac
case ${ONSTACK_DEPS:-} in aarch64 | aarch64-vm) want_tool qemu-user qemu-aarch64 ;; esac
case ${ONSTACK_DEPS:-} in aarch64-vm) want_tool qemu-system-arm qemu-system-aarch64 ;; esac
if [ "${ONSTACK_DEPS:-}" = sanitize ]; then # most are run by gcc's own sanitizers
  want_tool valgrind valgrind
  want_tool cppcheck cppcheck
  want_tool clang-tidy-14 clang-tidy-14
fi
if [ "${ONSTACK_DEPS:-}" = check ]; then
  want_tool abigail-tools abidiff
  want_tool clang-format-14 clang-format-14
  ls /usr/lib/llvm-*/lib/libclang.so* /usr/lib/*/libclang*.so* >/dev/null 2>&1 || packages+=(libclang-dev)
fi

install_bindgen() {
  [ "${ONSTACK_DEPS:-}" = check ] || return 0
  command -v bindgen >/dev/null 2>&1 || [ -x "${CARGO_HOME:-$HOME/.cargo}/bin/bindgen" ] && return 0
  local command="cargo install bindgen-cli --locked --debug --version $bindgen_version"
  if [ "${ONSTACK_NO_INSTALL:-}" = 1 ]; then
    echo "onstack: missing: bindgen; type: $command" >&2
    return 1
  fi
  echo "+ $command   (a minute; unoptimized is fast enough for one header)"
  $command
}

# Rust's standard library for the other platforms. Without rustup, or where it cannot be had, the check says what it skips.
install_rust_targets() {
  [ "${ONSTACK_DEPS:-}" = platforms ] && command -v rustup >/dev/null 2>&1 || return 0
  local target missing=()
  for target in {x86_64,aarch64}-unknown-linux-{gnu,musl}; do
    ls "$(rustc --print target-libdir --target "$target")" >/dev/null 2>&1 || missing+=("$target")
  done
  [ ${#missing[@]} -gt 0 ] || return 0
  local command="rustup target add ${missing[*]}"
  if [ "${ONSTACK_NO_INSTALL:-}" = 1 ]; then
    echo "onstack: missing: Rust's libraries for ${missing[*]}; type: $command" >&2
    return 0
  fi
  echo "+ $command"
  timeout 300 $command || true
}

if [ ${#packages[@]} -eq 0 ]; then
  install_bindgen
  install_rust_targets
  exit
fi

command="apt-get install -y --no-install-recommends ${packages[*]}"
if [ "${ONSTACK_NO_INSTALL:-}" = 1 ] || [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null 2>&1; then
  echo "onstack: missing: ${packages[*]}" >&2
  echo "  as root, type: $command" >&2
  case ${ONSTACK_DEPS:-} in bench | hosts | sanitize) exit 0 ;; esac
  exit 1
fi
echo "+ $command"
export DEBIAN_FRONTEND=noninteractive
# A machine that never asked Debian for its lists finds no package: then ask once.
$command || { echo "+ apt-get update" && apt-get update && $command; }
install_bindgen
install_rust_targets
