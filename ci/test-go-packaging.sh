#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# The Go package as its users build it: every build mode, -race, -asan, -trimpath, without cgo; go vet and staticcheck.
# Each form is built from a module of its own, takes a profile of itself and must find its own functions in it: one of CPU time,
# and by nativeheap one of memory, of a C library beside it, C++'s operators, a Rust archive and libc's own functions.
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

# All keep blocks of 1000 bytes.
mkdir -p "$dir/heap/native"
sed 's/example.org\/user/example.org\/heap/' "$dir/user/go.mod" >"$dir/heap/go.mod"
cat >"$dir/heap/native/library.c" <<'C'
#include <stdlib.h>
static void *volatile kept;
void library_keep(void) { kept = malloc(1000); }
C
cat >"$dir/heap/native/archive.rs" <<'RUST'
#[no_mangle]
pub extern "C" fn rust_keep() { std::mem::forget(std::hint::black_box(vec![1u8; 1000])); }
RUST
cat >"$dir/heap/keeps.cc" <<'CXX'
static char *volatile kept;
extern "C" void cxx_keep(void) { kept = new char[1000]; }
CXX
cat >"$dir/heap/main.go" <<GO
package main

/*
#cgo LDFLAGS: -L\${SRCDIR}/native -lkeeps -Wl,-rpath,\${SRCDIR}/native
#include <stdlib.h>
#include <string.h>
void library_keep(void), cxx_keep(void);
static char text[1000];
static char *volatile kept;
static void libc_keep(void) {
  memset(text, 'x', 999);
  kept = strdup(text);
}
*/
import "C"

import (
	"bytes"
	"fmt"
	"os"
	"strings"

	"github.com/google/pprof/profile"
	onstack "$package"
	_ "$package/nativeheap"
)

const blocks = 200

// keeps is each way of allocating, by the function that the profile must name.
var keeps = map[string]func(){
	"library_keep": func() { C.library_keep() },
	"cxx_keep":     func() { C.cxx_keep() },
	"libc_keep":    func() { C.libc_keep() },
}

//go:noinline
func goKeeps(keep func()) {
	for range blocks {
		keep()
	}
}

//export UserRun
func UserRun() C.int {
	p, err := onstack.Start(onstack.WithClock(onstack.ClockHeap), onstack.WithHeapInterval(1))
	if err != nil {
		fmt.Println(err)
		return 2
	}
	defer p.Close()
	for _, keep := range keeps {
		goKeeps(keep)
	}
	var out bytes.Buffer
	if err := onstack.WriteHeapProfile(&out); err != nil {
		fmt.Println(err)
		return 3
	}
	parsed, err := profile.Parse(&out)
	if err != nil {
		fmt.Println(err)
		return 4
	}
	found := map[string]int64{}
	for _, sample := range parsed.Sample {
		below, name := "", ""
		for _, location := range sample.Location {
			for _, line := range location.Line {
				if _, known := keeps[line.Function.Name]; known {
					below = line.Function.Name
				}
				if strings.HasSuffix(line.Function.Name, "goKeeps") {
					name = below
				}
			}
		}
		found[name] += sample.Value[3] // in use
	}
	for name := range keeps {
		if found[name] != 1000*blocks && !strings.Contains(os.Getenv("UNSEEN"), name) {
			fmt.Println(found[name], "bytes of", name, "and not", 1000*blocks, "in", found)
			return 5
		}
	}
	fmt.Println("profile has all heaps")
	return 0
}

func main() {
	if code := UserRun(); code != 0 {
		panic(code)
	}
}
GO
cc -O2 -shared -fPIC -o "$dir/heap/native/libkeeps.so" "$dir/heap/native/library.c"
natives=(-L"$dir/heap/native" -lkeeps -Wl,-rpath,"$dir/heap/native" -lstdc++) # what a program that links the archive names itself
if command -v rustc >/dev/null; then
  rustc -O --crate-type staticlib -o "$dir/heap/native/libarchive.a" "$dir/heap/native/archive.rs" || exit 1
  natives+=("$dir/heap/native/libarchive.a")
  cat >"$dir/heap/rust.go" <<'GO'
package main

// #cgo LDFLAGS: ${SRCDIR}/native/libarchive.a -ldl -lm
// void rust_keep(void);
import "C"

func init() { keeps["rust_keep"] = func() { C.rust_keep() } }
GO
else
  echo "SKIPPED a Rust archive: there is no rustc"
fi

cd "$dir/user"
go mod tidy >/dev/null 2>&1 || { go mod tidy; exit 1; }

run() { # name, command that builds and runs
  local name=$1 out
  shift
  if out=$("$@" 2>&1) && grep -qE 'profile has (both languages|all heaps)' <<<"$out"; then
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
    cc -o "$dir/host-archive" "$dir/host.c" "$dir/libuser.a" "$@" -lpthread -ldl -lrt -lm && timeout -k 5 60 "$dir/host-archive"
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

cd "$dir/heap"
go mod tidy >/dev/null 2>&1 || { go mod tidy; exit 1; }
run "heap, exe" built exe
run "heap, pie" built pie -buildmode=pie
run "heap, c-archive" archive "${natives[@]}"
run "heap, c-shared" shared
if [ "${1:-}" != short ]; then
  run "heap, -race" built race -race
  ASAN_OPTIONS=detect_leaks=0 UNSEEN=cxx_keep,libc_keep run "heap, -asan" built asan -asan # its own functions take no memory by malloc
fi
cd "$dir/user"

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
