#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# A Go service with a leak in C: Go's own heap profile and the one of both heaps, side by side.
#   examples/demo-memory.sh [options of examples/go-leak, e.g. -length 20s]
set -eu
root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
out=$root/build/demo-memory
mkdir -p "$out"
# Otherwise the demo would show an older core than the one in the tree.
"$root/ci/amalgamate.py" --check
cd "$root/examples/go-leak"
go build -o "$out/go-leak" .
"$out/go-leak" -out "$out" "$@"
echo
echo "look closer: go tool pprof -http=:8000 $out/both.pb.gz"
