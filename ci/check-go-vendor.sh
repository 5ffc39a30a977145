#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# A user's view of the Go package: a module of its own that requires ours, vendors it, builds from the vendored copy
# with nothing of this repository in reach, and takes a profile of one second. Fails when `go mod vendor` leaves out a
# file that the build needs.
set -eu
root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
package=github.com/onstack-profiler/onstack/bindings/go
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT INT TERM

# A copy, so that deleting it proves that the vendored files are enough.
mkdir "$dir/source" "$dir/user"
cp -R "$root/bindings/go/." "$dir/source"
cd "$dir/user"
cat >go.mod <<MOD
module example.org/user

go 1.25.0

require $package v0.0.0

replace $package => $dir/source
MOD
cat >main.go <<GO
package main

import (
	"bytes"
	"fmt"
	"os"
	"time"

	onstack "$package"
	_ "$package/onstackhttp"
)

func main() {
	var out bytes.Buffer
	if err := onstack.StartCPUProfile(&out, onstack.WithRate(100)); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	x := uint64(0)
	for end := time.Now().Add(time.Second); time.Now().Before(end); x++ {
	}
	if err := onstack.StopCPUProfile(); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	if err := os.WriteFile("profile.pb.gz", out.Bytes(), 0o644); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}
GO
GOWORK=off GOFLAGS=-mod=mod go mod tidy
GOWORK=off GOFLAGS= go mod vendor
rm -rf "$dir/source"
GOWORK=off GOFLAGS= go build -mod=vendor -o user .
timeout -k 5 30 ./user
GOFLAGS='' go tool pprof -top user profile.pb.gz >top.txt 2>&1 || { cat top.txt; exit 1; }
if ! grep -q 'main\.main' top.txt; then
  echo "check-go-vendor: the profile of the vendored package does not name main.main:" >&2
  cat top.txt >&2
  exit 1
fi
# For a user whose own flags ask for link-time optimization.
CGO_CFLAGS='-g -O2 -flto' GOWORK=off GOFLAGS= go build -mod=vendor -o user-lto .
echo "check-go-vendor: built from vendor/, profile has main.main; builds with -flto"
