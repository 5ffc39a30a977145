#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# The demo: a Go service with Rust inside, profiled by onstack and by runtime/pprof at once, and a flame graph of it.
#   examples/demo.sh [options of examples/go-wasmtime, e.g. -seconds 10]
set -eu
root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
out=$root/build/demo
mkdir -p "$out"
# Otherwise the demo would show an older core than the one in the tree.
"$root/ci/amalgamate.py" --check

echo "building examples/go-wasmtime (the first time, wasmtime's static library is downloaded: about 55 MB)"
cd "$root/examples/go-wasmtime"
go build -o "$out/go-wasmtime" .
"$out/go-wasmtime" -out "$out" "$@"

cd "$root"
if command -v cargo >/dev/null; then
  echo "drawing the flame graph (the first time, the command-line tool is built)"
  cd "$root/bindings/rust"
  cargo run --quiet --release -p onstack-cli --no-default-features -- flamegraph "$out/onstack.pb.gz" -o "$out/flamegraph.svg"
else
  echo "no cargo here: no flame graph; onstack.folded is the input of any flame graph tool"
fi
echo
ls -l "$out"/onstack.pb.gz "$out"/go.pb.gz "$out"/onstack.folded "$out"/flamegraph.svg 2>/dev/null || true
echo "look closer: go tool pprof -http=:8000 $out/onstack.pb.gz"
