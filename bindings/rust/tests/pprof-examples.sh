#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# Takes the nine examples of the published `pprof` crate from the registry as they are, builds them with `onstack-pprof-compat`
# under the name `pprof`, and runs them. What they write and print is looked at. Exit code 77, with a loud line:
# the registry cannot be reached and nothing was tested.
set -euo pipefail
cd "$(dirname "$0")/.."
version=0.15.0
crate=$PWD/onstack-pprof-compat
work=${BUILD_DIR:-$PWD/../../build/rust}/pprof-examples
export CARGO_TARGET_DIR=$work/target
mkdir -p "$work/fetch/src" "$work/app/src" "$work/app/examples"

cat >"$work/fetch/Cargo.toml" <<TOML
[package]
name = "fetch"
version = "0.0.0"
edition = "2021"
[workspace]
[dependencies]
pprof = "=$version"
TOML
: >"$work/fetch/src/lib.rs"
published() {
  (cd "$work/fetch" && cargo metadata --format-version 1 "$@") |
    python3 -c 'import json,os,sys
print(next(os.path.dirname(p["manifest_path"]) for p in json.load(sys.stdin)["packages"] if p["name"] == "pprof"))'
}
if ! source=$(published --offline 2>/dev/null || published 2>"$work/fetch.log"); then
  tail -5 "$work/fetch.log" >&2
  echo "SKIPPED: pprof $version cannot be had from the registry: NONE of its nine examples was built or run" >&2
  exit 77
fi

rm -f "$work"/app/examples/*.rs
count=0
for example in "$source"/examples/*.rs; do
  cp "$example" "$work/app/examples/"
  count=$((count + 1))
done
[ "$count" = 9 ] || { echo "pprof $version has $count examples, not nine" >&2; exit 1; }

# The features are those that pprof's own manifest asks for.
cat >"$work/app/Cargo.toml" <<TOML
[package]
name = "app"
version = "0.0.0"
edition = "2021"
autoexamples = true
[workspace]
[features]
prost-codec = ["pprof/prost-codec"]
protobuf-codec = ["pprof/protobuf-codec"]
[dependencies]
pprof = { package = "onstack-pprof-compat", path = "$crate", features = ["flamegraph", "criterion", "frame-pointer", "cpp", "perfmaps", "large-depth", "huge-depth", "framehop-unwinder"] }
backtrace = "0.3"
criterion = { version = "0.5", default-features = false }
[profile.release]
debug = "limited"
TOML
: >"$work/app/src/lib.rs"
# What the repository's own builds use is there already; the rest is fetched.
cp -n Cargo.lock "$work/app/Cargo.lock" 2>/dev/null || true
cd "$work/app"
others=(backtrace_while_sampling criterion flamegraph multithread multithread_flamegraph post_processor prime_number)
cargo build --quiet --release --features prost-codec $(printf -- '--example %s ' "${others[@]}" profile_proto_with_prost)
cargo build --quiet --release --features protobuf-codec --example profile_proto_with_protobuf_codec

failed=0
check() { # example, seconds, file it writes or "-", text in what it printed, text in the file
  local name=$1 seconds=$2 file=$3 printed=$4 written=$5 status=0
  rm -rf "$work/run" && mkdir "$work/run" && cd "$work/run"
  timeout -k 5 "$seconds" "$CARGO_TARGET_DIR/release/examples/$name" >out.txt 2>err.txt || status=$?
  # Three of them never end by themselves.
  if { [ $status = 0 ] || { [ $status = 124 ] && [ "$file" = - ]; }; } && grep -q -- "$printed" out.txt &&
    { [ "$file" = - ] || grep -qa -- "$written" "$file"; }; then
    echo "ok   $name"
  else
    echo "FAIL $name: status $status, looked for '$printed' and '$written'"
    tail -n 3 err.txt out.txt
    failed=1
  fi
}
check backtrace_while_sampling 60 flamegraph.svg 'deep_recursive' 'deep_recursive'
check flamegraph 60 flamegraph.svg 'is_prime_number3' 'is_prime_number2'
check multithread_flamegraph 60 flamegraph.svg 'THREAD_ONE' 'THREAD_TWO'
check multithread 4 - 'THREAD_ONE.*is_prime_number' ''
check post_processor 4 - 'PROCESSED.*is_prime_number' ''
check prime_number 4 - 'main.*is_prime_number' ''
check profile_proto_with_prost 60 profile.pb 'is_prime_number3' 'is_prime_number2'
check profile_proto_with_protobuf_codec 60 profile.pb 'is_prime_number3' 'is_prime_number2'

# Criterion's own directory holds the result; it wants to be told that it is a benchmark.
rm -rf "$work/run" && mkdir "$work/run" && cd "$work/run"
CRITERION_HOME=$work/run/criterion timeout -k 5 120 \
  "$CARGO_TARGET_DIR/release/examples/criterion" --bench --profile-time 1 >out.txt 2>&1 || true
if grep -q 'fibonacci' "$work/run/criterion/Fibonacci/profile/flamegraph.svg"; then
  echo "ok   criterion"
else
  echo "FAIL criterion"; tail -n 5 out.txt; failed=1
fi
[ $failed = 0 ] && echo "pprof-examples: nine of nine build and run with one line of the manifest changed"
exit $failed
