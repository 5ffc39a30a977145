#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# The Go package as its users build it: every build mode, -race, -asan, -trimpath, without cgo; go vet and staticcheck.
# Each form is built from a module of its own, takes a profile of itself and must find its own functions in it.
# Five to eight minutes, most of it for the race detector's and the sanitizer's builds of the runtime.
set -uo pipefail
cd "$(dirname "$0")/.."
root=$PWD
package=github.com/onstack-profiler/onstack/bindings/go
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
failed=()
export GOFLAGS= GOWORK=off
export EXPECT="goWork, work " # functions that the profile must name; the C one with blanks, as profiles print it

mkdir -p "$dir/user"
cat >"$dir/user/go.mod" <<MOD
module example.org/user

go 1.25.0

require $package v0.0.0

replace $package => $root/bindings/go
MOD
cat >"$dir/user/main.go" <<GO
package main

// int work(int turns);
import "C"

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/google/pprof/profile"
	onstack "$package"
	_ "$package/cgotraceback"
	_ "$package/onstackhttp"
)

//go:noinline
func goWork(end time.Time) (x uint64) {
	for ; time.Now().Before(end); x += 3 {
	}
	return x
}

//export UserRun
func UserRun() C.int {
	p, err := onstack.Start(onstack.WithRate(200))
	if err != nil {
		fmt.Println(err)
		return 2
	}
	defer p.Close()
	goWork(time.Now().Add(300 * time.Millisecond))
	for end := time.Now().Add(300 * time.Millisecond); time.Now().Before(end); {
		C.work(1000000)
	}
	var out bytes.Buffer
	if err := errors.Join(p.Stop(), func() error { _, err := p.WriteTo(&out); return err }()); err != nil {
		fmt.Println(err)
		return 3
	}
	parsed, err := profile.Parse(io.Reader(&out))
	if err != nil {
		fmt.Println(err)
		return 4
	}
	text := parsed.String()
	for _, name := range strings.Split(os.Getenv("EXPECT"), ",") {
		if !strings.Contains(text, name) {
			fmt.Println("no", name, "in", text)
			return 5
		}
	}
	if s := p.Stats(); s.Truncated*5 > s.Samples {
		fmt.Printf("%d of %d stacks cut: %v\n", s.Truncated, s.Samples, s.TruncatedBy)
	}
	fmt.Println("profile has both languages")
	return 0
}

func main() {
	if code := UserRun(); code != 0 {
		panic(code)
	}
}
GO
cat >"$dir/user/work.c" <<'C'
int work(int turns) {
  volatile int sum = 0;
  for (int i = 0; i < turns; i++) sum += i;
  return sum;
}
C
cat >"$dir/host.c" <<'C'
int UserRun(void);
int main(void) { return UserRun(); }
C
cd "$dir/user"
go mod tidy >/dev/null 2>&1 || { go mod tidy; exit 1; }

run() { # name, command that builds and runs
  local name=$1 out
  shift
  if out=$("$@" 2>&1) && grep -q 'profile has both languages' <<<"$out"; then
    echo "ok    $name"
  else
    echo "FAIL  $name"
    printf '%s\n' "$out" | head -30
    failed+=("$name")
  fi
}
built() { go build "${@:2}" -o "$dir/$1" . && timeout -k 5 60 "$dir/$1"; }
archive() {
  go build -buildmode=c-archive -o "$dir/libuser.a" . &&
    cc -o "$dir/host-archive" "$dir/host.c" "$dir/libuser.a" -lpthread -ldl -lrt && timeout -k 5 60 "$dir/host-archive"
}
shared() {
  go build -buildmode=c-shared -o "$dir/libuser.so" . &&
    cc -o "$dir/host-shared" "$dir/host.c" "$dir/libuser.so" -Wl,-rpath,"$dir" && timeout -k 5 60 "$dir/host-shared"
}
run "exe" built exe
run "exe, -trimpath" built trimmed -trimpath
EXPECT=goWork run "exe, stripped" built stripped -ldflags=-s -trimpath # its C functions have no names
run "pie" built pie -buildmode=pie
run "c-archive" archive
run "c-shared" shared
if [ "${1:-}" != short ]; then
  run "-race" built race -race
  run "-asan" built asan -asan
fi

# Without cgo the package compiles, and says what is missing.
mkdir -p "$dir/nocgo"
sed 's/example.org\/user/example.org\/nocgo/' go.mod >"$dir/nocgo/go.mod"
cp go.sum "$dir/nocgo/"
cat >"$dir/nocgo/main.go" <<GO
package main

import (
	"errors"
	"fmt"

	onstack "$package"
	_ "$package/cgotraceback"
	_ "$package/onstackhttp"
)

func main() {
	_, err := onstack.Start()
	fmt.Println(errors.Is(err, onstack.ErrUnsupported), err)
}
GO
cd "$dir/nocgo"
for system in linux/amd64 darwin/arm64 windows/amd64 freebsd/amd64; do
  if CGO_ENABLED=0 GOOS=${system%/*} GOARCH=${system#*/} go build -mod=mod -o "$dir/nocgo-${system%/*}" .; then
    echo "ok    CGO_ENABLED=0 $system builds"
  else
    failed+=("CGO_ENABLED=0 $system")
  fi
done
if "$dir/nocgo-linux" | grep -q '^true onstack: start: not available here: it needs Linux, cgo'; then
  echo "ok    CGO_ENABLED=0 returns ErrUnsupported"
else
  failed+=("CGO_ENABLED=0 result")
fi

cd "$root/bindings/go"
go vet ./... && echo "ok    go vet" || failed+=("go vet")
staticcheck=$(go env GOPATH)/bin/staticcheck
[ -x "$staticcheck" ] || go install honnef.co/go/tools/cmd/staticcheck@latest >/dev/null 2>&1
if [ -x "$staticcheck" ]; then
  "$staticcheck" ./... && echo "ok    staticcheck" || failed+=("staticcheck")
else
  echo "SKIPPED staticcheck: it cannot be installed here (go install honnef.co/go/tools/cmd/staticcheck@latest)"
fi

if [ ${#failed[@]} -gt 0 ]; then
  printf 'test-go-packaging: FAILED: %s\n' "${failed[@]}"
  exit 1
fi
echo "test-go-packaging: all forms profile themselves"
