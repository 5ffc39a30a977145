#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# What users of the crates rely on beyond tests: clippy and documentation without a warning, all features together, the
# packages as they would be published (built from their own files), and the oldest compiler.
# Usage: tests/check.sh [clippy] [doc] [package] [msrv]   (default: all). 77: a part could not be had and was skipped.
set -uo pipefail
cd "$(dirname "$0")/.."
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$PWD/../../build/rust}
usual=onstack-profile/flamegraph,onstack-pprof-compat/flamegraph,onstack-pprof-compat/prost-codec
oldest=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)
failed=0 skipped=0
run() { echo "+ $*"; "$@" || { echo "FAILED: $*"; failed=1; }; }

clippy() {
  run cargo clippy --quiet --locked --workspace --all-targets --features "$usual" -- -D warnings
  run cargo clippy --quiet --locked -p onstack-cli --no-default-features --all-targets -- -D warnings
  run cargo clippy --quiet --locked -p onstack -p onstack-profile -p onstack-pprof-compat --lib --features "$all" -- -D warnings
  local feature
  for feature in "" handler hyper axum push; do
    run cargo clippy --quiet --locked -p onstack-http --lib --features "$feature" -- -D warnings
  done
}

doc() {
  # All features but `system`, which wants an installed library.
  RUSTDOCFLAGS="-D warnings" run cargo doc --quiet --locked --no-deps -p onstack-sys -p onstack -p onstack-profile \
    -p onstack-pprof-compat -p onstack-tracing --features "$all"
  RUSTDOCFLAGS="-D warnings" run cargo doc --quiet --locked --no-deps -p onstack-http --all-features
}

package() {
  run cargo package --quiet --locked --allow-dirty --workspace
  local archive=$CARGO_TARGET_DIR/package/onstack-sys-0.1.0.crate
  # The link to the core must have become files, licences included.
  tar tzvf "$archive" | awk '$1 ~ /^l/ { bad = 1 } /csrc\/sampler\/api\/session.c/ { core = 1 } /interpreters\/python.c/ { plugin = 1 } /LICENSE-MIT/ { licence = 1 }
    END { exit bad || !core || !plugin || !licence }' || { echo "FAILED: $archive lacks files"; failed=1; }
}

msrv() {
  if ! cargo +"$oldest" --version >/dev/null 2>&1; then
    rustup toolchain install --profile minimal "$oldest" >/dev/null 2>&1 || {
      echo "SKIPPED: rust $oldest cannot be had: the oldest compiler was NOT tried"; skipped=1; return; }
  fi
  CARGO_TARGET_DIR=$CARGO_TARGET_DIR/msrv run cargo +"$oldest" check --quiet --locked --workspace \
    --features "$usual,onstack-profile/zstd,onstack-http/axum,onstack-http/hyper"
  fresh
}

# As users get them who have no lock file of ours: the libraries by the rule of edition 2021, which looks at no rust-version,
# the command, on which nothing can depend, by the rule of this workspace.
fresh() {
  local dir
  dir=$(mktemp -d)
  mkdir -p "$dir/libraries/src" "$dir/command"
  : >"$dir/libraries/src/lib.rs"
  cat >"$dir/libraries/Cargo.toml" <<TOML
[package]
name = "fresh"
version = "0.0.0"
edition = "2021"
[workspace]
[dependencies]
onstack-pprof-compat = { path = "$PWD/onstack-pprof-compat", features = ["flamegraph", "prost-codec", "zstd"] }
onstack-http = { path = "$PWD/onstack-http", features = ["axum", "hyper", "push"] }
onstack-tracing = { path = "$PWD/onstack-tracing" }
TOML
  cp Cargo.toml "$dir/command"
  ln -s "$PWD"/onstack* "$dir/command"
  newest "$dir/libraries"
  newest "$dir/command" -p onstack-cli
  rm -rf "$dir"
}

newest() { # directory without a lock file, what else cargo is told
  local dir=$1
  shift
  if (cd "$dir" && cargo +"$oldest" generate-lockfile --quiet 2>/dev/null); then
    (cd "$dir" && CARGO_TARGET_DIR=$CARGO_TARGET_DIR/msrv run cargo +"$oldest" check --quiet "$@"; [ $failed = 0 ]) || failed=1
  else
    echo "SKIPPED: no registry: the newest versions were NOT tried with rust $oldest"; skipped=1
  fi
}

all=$(cargo metadata --no-deps --format-version 1 | python3 -c 'import json,sys
for p in json.load(sys.stdin)["packages"]:
    if p["name"] == "onstack-pprof-compat":
        print(",".join("onstack-pprof-compat/" + f for f in sorted(p["features"]) if f not in ("system", "default")))')
for part in ${*:-clippy doc package msrv}; do "$part"; done
[ $failed = 0 ] || exit 1
[ $skipped = 0 ] || exit 77
echo "rust: no warning, nothing missing in: ${*:-clippy doc package msrv}"
