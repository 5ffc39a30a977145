#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# What is published beside the repository, from the commit that is checked out, into build/dist:
#
#   onstack-VERSION.tar.gz          the tree of the commit, to build and install from. The inputs of fuzz targets stay out, and with
#                                   them every binary: tests run in a clone
#   onstack-VERSION-vendor.tar.gz   the crates of the command `onstack`, for builds without a network (ci/vendor.py)
#   SHA256SUMS                      of both; with SIGN=KEY (of gpg) also SHA256SUMS.asc and a .asc beside each
#
# The same commit makes the same bytes, whoever makes them where: owners, times, modes and order come from the commit.
# Usage: ci/dist.sh [DIRECTORY]   DIRECTORY: in place of build/dist
set -euo pipefail
cd "$(dirname "$0")/.."
place=${1:-${BUILD:-build}/dist}
version=$(sed -n 's/^#define ONSTACK_VERSION_[A-Z]* //p' core/include/onstack/onstack.h | paste -sd .)
name=onstack-$version
export TZ=UTC LC_ALL=C
umask 022

changed=$(git status --porcelain --untracked-files=no)
if [ -n "$changed" ]; then
  printf 'dist: commit these first; what is published is a commit:\n%s\n' "$changed" >&2
  exit 1
fi
mkdir -p "$place"
place=$(cd "$place" && pwd)
rm -f "$place/$name"*.tar.gz* "$place"/SHA256SUMS*
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# The user's configuration may set another umask.
git -c tar.umask=0022 archive --format=tar --prefix="$name/" HEAD -- . ':!tests/fuzz/corpus' ':!bindings/rust/fuzz' \
  ':!bindings/go/internal/nativelines/testdata/debug' | gzip -9n >"$place/$name.tar.gz"

ci/vendor.py "$scratch/vendor"
tar c --format=ustar --sort=name --owner=0 --group=0 --numeric-owner --mode=u=rwX,go=rX --mtime="@$(git log -1 --format=%ct)" \
  -C "$scratch" vendor | gzip -9n >"$place/$name-vendor.tar.gz"

cd "$place"
sha256sum "$name.tar.gz" "$name-vendor.tar.gz" >SHA256SUMS
if [ -n "${SIGN:-}" ]; then
  for file in "$name.tar.gz" "$name-vendor.tar.gz" SHA256SUMS; do
    gpg --batch --yes --local-user "$SIGN" --armor --detach-sign "$file"
  done
fi
cat SHA256SUMS
