#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# Whether the commit that is checked out can be released: everything that is published is made in a fresh clone of it, and
# used as those do who get it. Nothing is uploaded.
#
#   ci/release-check.sh [PART...]   parts, all unless named:
#     versions   every place names the header's version
#     dist       the tarballs, twice in clones that differ: the same bytes; a signature by a key of the moment is good
#     tarball    the unpacked tarball builds, installs and serves the example in C
#     crates     cargo publish --dry-run of all crates in order; the packaged command is installed and records a program
#     msrv       the oldest Rust, with this lock file and with the newest dependencies
#     go         `go get` of the module by its tag, and a program with it
#     debian     source and binary packages in a clean Debian 13 root: lintian, installed, tried (ci/deb.sh)
# The last line counts; a part that cannot be had here is skipped by name, and then the exit code is 77.
set -uo pipefail
cd "$(dirname "$0")/.."
BUILD=${BUILD:-build}
mkdir -p "$BUILD/release"
work=$(cd "$BUILD/release" && pwd)
clone=$work/clone
export CARGO_TARGET_DIR=$work/rust TZ=UTC
unset BUILD SIGN
version=$(sed -n 's/^#define ONSTACK_VERSION_[A-Z]* //p' core/include/onstack/onstack.h | paste -sd .)
module=github.com/onstack-profiler/onstack
passed=0 failed=0 skipped=0

fresh_clone() { # directory
  rm -rf "$1"
  git clone --quiet --no-hardlinks . "$1" && git -C "$1" checkout --quiet --detach "$(git rev-parse HEAD)"
}

check_versions() { ci/check-versions.py; }

# Another name of the directory, umask, time zone and language.
check_dist() {
  local second=$work/a-second-clone/of-it
  ci/dist.sh "$work/dist" && mkdir -p "${second%/*}" && fresh_clone "$second" || return
  (umask 077 && cd "$second" && git config tar.umask 0077 && TZ=Asia/Tokyo LC_ALL=C.UTF-8 ci/dist.sh "$work/dist-second") || return
  rm -rf "${second%/*}"
  diff -r "$work/dist" "$work/dist-second" && check_signature
}

check_signature() {
  command -v gpg >/dev/null || { echo "dist: no gpg: a signature was NOT tried"; return 77; }
  local GNUPGHOME
  GNUPGHOME=$(mktemp -d)
  export GNUPGHOME
  local key=nobody@example.org status=0
  gpg --batch --quiet --passphrase '' --quick-generate-key "$key" default default never 2>/dev/null &&
    SIGN=$key ci/dist.sh "$work/dist-signed" >/dev/null && diff "$work/dist/SHA256SUMS" "$work/dist-signed/SHA256SUMS" || status=1
  local file
  for file in "$work"/dist-signed/*.tar.gz "$work/dist-signed/SHA256SUMS"; do
    gpg --batch --quiet --verify "$file.asc" "$file" 2>/dev/null || { echo "no good signature: $file"; status=1; }
  done
  gpgconf --kill all
  rm -rf "$GNUPGHOME"
  return $status
}

check_tarball() {
  [ -e "$work/dist/onstack-$version.tar.gz" ] || ci/dist.sh "$work/dist" || return
  rm -rf "$work/tarball"
  mkdir "$work/tarball"
  tar xzf "$work/dist/onstack-$version.tar.gz" -C "$work/tarball" && cd "$work/tarball/onstack-$version" &&
    nice -n 19 make -s install PREFIX="$work/tarball/prefix" &&
    PKG_CONFIG_PATH=$work/tarball/prefix/lib/pkgconfig make -s -C examples/c LDFLAGS="-Wl,-rpath,$work/tarball/prefix/lib" &&
    examples/c/profile "$work/tarball/c.pb" 1 && [ -s "$work/tarball/c.pb" ]
  local status=$?
  cd "$clone" || return
  return $status
}

# What cargo uploads is what it packs; crates that others here depend on come from beside them.
check_crates() {
  (cd bindings/rust && cargo metadata --locked --no-deps --format-version 1) | python3 -c 'import json, sys
lacking = [(p["name"], f) for p in json.load(sys.stdin)["packages"] if p["publish"] is None
           for f in ("repository", "homepage", "documentation", "description", "license", "readme", "rust_version") if not p[f]]
sys.exit("".join(f"{name}/Cargo.toml says no {field}\n" for name, field in lacking) or 0)' || return
  (cd bindings/rust && nice -n 19 cargo publish --workspace --dry-run --locked &&
    cargo package --quiet --workspace --no-verify --locked) || return
  rm -rf "$work/crate" "$work/root"
  mkdir "$work/crate"
  local crate
  for crate in "$CARGO_TARGET_DIR"/package/onstack*-"$version".crate; do
    tar xzf "$crate" -C "$work/crate"
    tar tzvf "$crate" | awk '$1 ~ /^l/ { exit 1 }' || { echo "$crate has a link in it"; return 1; }
    tar tzf "$crate" | grep LICENSE-MIT >/dev/null || { echo "$crate has no licence in it"; return 1; }
  done
  # The siblings are not in a registry yet: the same packages by path.
  local patches=()
  for crate in "$work/crate"/*; do
    patches+=(--config "patch.crates-io.$(basename "${crate%-"$version"}").path=\"$crate\"")
  done
  [ ${#patches[@]} -gt 0 ] || { echo "no crate was packed"; return 1; }
  nice -n 19 cargo install --quiet --path "$work/crate/onstack-cli-$version" --root "$work/root" "${patches[@]}" || return
  (cd "$work/root" && XDG_CACHE_HOME=$work/root/cache bin/onstack record -o sort.pb.gz -- \
    sh -c 'i=0; while [ $i -lt 500000 ]; do i=$((i+1)); done' && bin/onstack report sort.pb.gz | grep 'Total: [1-9]') &&
    ls "$work"/root/cache/onstack/*/libonstack-preload.so
}

check_msrv() { nice -n 19 bindings/rust/tests/check.sh msrv; }

# The tag is set in a clone that stands for the public repository.
check_go() {
  local public=$work/public place=$work/go-user
  fresh_clone "$public" || return
  git -C "$public" tag "bindings/go/v$version"
  chmod -R u+w "$place" 2>/dev/null
  rm -rf "$place"
  mkdir -p "$place"
  printf '[url "%s"]\n\tinsteadOf = https://%s\n' "file://$public" "$module" >"$place/gitconfig"
  cat >"$place/main.go" <<'GO'
package main

import (
	"bytes"
	"log"
	"time"

	onstack "github.com/onstack-profiler/onstack/bindings/go"
	_ "github.com/onstack-profiler/onstack/bindings/go/cgotraceback"
	_ "github.com/onstack-profiler/onstack/bindings/go/onstackhttp"
)

func main() {
	var out bytes.Buffer
	if err := onstack.StartCPUProfile(&out, onstack.WithRate(199)); err != nil {
		log.Fatal(err)
	}
	for end := time.Now().Add(time.Second); time.Now().Before(end); {
	}
	if err := onstack.StopCPUProfile(); err != nil {
		log.Fatal(err)
	}
	log.Print(out.Len(), " bytes")
}
GO
  (
    cd "$place" || exit
    export GIT_CONFIG_GLOBAL=$place/gitconfig GOMODCACHE=$place/modules GOPRIVATE=$module GOFLAGS=-mod=mod
    go mod init example.com/user && go get "$module/bindings/go@v$version" && nice -n 19 go run . && go mod verify &&
      grep -F "$module/bindings/go v$version" go.mod
  )
}

check_debian() {
  ONSTACK_DEPS=debian ci/deps.sh || echo "without it:"
  BUILD=$work ci/deb.sh --root
}

# In a function: bash reads a script as it goes, and in an hour the file may change.
main() {
  if [ -n "$(git status --porcelain --untracked-files=no)" ]; then
    echo "release-check: commit first; what is released is a commit" >&2
    exit 1
  fi
  parts=${*:-versions dist tarball crates msrv go debian}
  fresh_clone "$clone" || exit
  cd "$clone" || exit
  for part in $parts; do
    declare -F "check_$part" >/dev/null || { echo "release-check: no part is named $part" >&2; exit 2; }
    echo "== $part"
    "check_$part"
    case $? in
    0) echo "ok $part" && passed=$((passed + 1)) ;;
    77) echo "skip $part" && skipped=$((skipped + 1)) ;;
    *) echo "not ok $part" && failed=$((failed + 1)) ;;
    esac
  done
  echo "== onstack $version, $(git rev-parse --short HEAD)"
  grep -q "^## $version, not released" CHANGELOG.md && echo "to do before the tags: a date in CHANGELOG.md and core/package/debian/changelog"
  echo "tags: v$version and bindings/go/v$version; then cargo publish --workspace in bindings/rust"
  echo "$passed passed, $failed failed, $skipped skipped"
  [ $failed = 0 ] || exit 1
  [ $skipped = 0 ] || exit 77
  exit 0
}

main "$@"
