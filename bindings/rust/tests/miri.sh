#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# The unit tests of the pure modules of onstack-profile and onstack-pprof-compat under Miri: parsers, writers and tables that call
# neither C nor the system beyond reading a file; where one of their tests asks the core for an advice it is left out. The crate
# onstack calls the C core, which Miri cannot run, and `storage` maps pages, which it cannot either: their unsafe blocks are run by ordinary tests and, as far as files reach them, by bindings/rust/fuzz,
# neither under a sanitizer. The core itself has its own under the address sanitizer (tests/sanitizers).
# Usage: miri.sh [TEST FILTER...]
set -euo pipefail
cd "$(dirname "$0")/.."
pure=(wire:: message:: folded:: tree:: top:: demangle:: stacks:: dwarf:: debug_file:: profile:: frames:: symbolize::)
[ $# -eq 0 ] || pure=("$@")
if ! cargo +nightly miri --version >/dev/null 2>&1; then
  echo "miri.sh: Miri is missing; type: rustup toolchain install nightly --component miri --component rust-src" >&2
  exit 1
fi
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$PWD/../../${BUILD:-build}/rust}/miri
export MIRIFLAGS="${MIRIFLAGS:--Zmiri-disable-isolation}" # files are read
# A stack of 200,000 frames takes more than ten minutes there; it is about depth, not about memory.
cargo +nightly miri test --locked -p onstack-profile -p onstack-pprof-compat --lib --no-default-features -- "${pure[@]}" --skip deep_stacks_do_not_recurse
