#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# The Debian source package of the commit that is checked out, and its packages, in build/deb. The packaging is
# core/package/debian; the tarballs are those of ci/dist.sh, the crates a component of the source.
#
#   ci/deb.sh          builds here; without Debian's cargo (12 has an older one than 1.85) by the cargo that is there
#   ci/deb.sh --root   builds in a clean Debian 13 root without a network, asks lintian there, installs the packages and runs
#                      their tests. Root and debootstrap are needed; the root stays in build/deb-root for the next time.
#                      ONSTACK_DEBIAN_MIRROR: another mirror than debootstrap takes by itself.
# 77: it cannot be had here.
set -euo pipefail
cd "$(dirname "$0")/.."
mkdir -p "${BUILD:-build}"
build=$(cd "${BUILD:-build}" && pwd)
version=$(sed -n 's/^#define ONSTACK_VERSION_[A-Z]* //p' core/include/onstack/onstack.h | paste -sd .)
place=$build/deb
root=$build/deb-root
needed=build-essential,debhelper,zlib1g-dev,cargo,rustc,lintian,pkgconf
commands='dpkg-buildpackage -us -uc'

skip() { echo "skip deb: $*"; exit 77; }

source_tree() {
  rm -rf "$place"
  mkdir -p "$place"
  ci/dist.sh "$place/dist" >/dev/null
  cp "$place/dist/onstack-$version.tar.gz" "$place/onstack_$version.orig.tar.gz"
  cp "$place/dist/onstack-$version-vendor.tar.gz" "$place/onstack_$version.orig-vendor.tar.gz"
  tar xzf "$place/onstack_$version.orig.tar.gz" -C "$place"
  tar xzf "$place/onstack_$version.orig-vendor.tar.gz" -C "$place/onstack-$version"
  cp -r "$place/onstack-$version/core/package/debian" "$place/onstack-$version/debian"
}

here() {
  command -v dpkg-buildpackage >/dev/null && command -v dh >/dev/null || skip "apt-get install build-essential debhelper"
  source_tree
  dpkg -s cargo >/dev/null 2>&1 || { command -v cargo >/dev/null && commands+=' -d'; }
  (cd "$place/onstack-$version" && $commands)
  ls "$place"/*.deb
}

make_root() {
  [ -e "$root/complete" ] && return
  rm -rf "$root"
  echo "+ debootstrap --variant=minbase trixie"
  debootstrap --variant=minbase trixie "$root" ${ONSTACK_DEBIAN_MIRROR:+"$ONSTACK_DEBIAN_MIRROR"} >"$root.log" 2>&1 ||
    skip "there is no root to be had ($root.log says why)"
  cp /etc/resolv.conf "$root/etc/"
  echo "+ apt-get install ${needed//,/ }, in the root"
  DEBIAN_FRONTEND=noninteractive chroot "$root" apt-get install -y --no-install-recommends ${needed//,/ } >>"$root.log" 2>&1 ||
    skip "the root lacks packages ($root.log says why)"
  chroot "$root" useradd --create-home builder
  touch "$root/complete"
}

# In namespaces of its own: its /proc goes when it ends. The loopback device is all there is of a network.
inside() { # seconds, commands of a shell
  timeout -k 5 "$1" unshare --net --mount --pid --fork --mount-proc="$root/proc" chroot "$root" /bin/bash -euc "$2"
}

in_root() {
  [ "$(id -u)" = 0 ] || skip "it needs root (chroot)"
  command -v debootstrap >/dev/null || skip "apt-get install debootstrap"
  make_root
  source_tree
  rm -rf "$root/home/builder/deb"
  cp -r "$place" "$root/home/builder/deb"
  chroot "$root" chown -R builder: /home/builder/deb
  inside 5400 "nice -n 19 runuser -u builder -- bash -euc 'cd ~/deb/onstack-$version && $commands' >/home/builder/deb/build.log 2>&1 || {
    tail -40 /home/builder/deb/build.log; exit 1; }"
  cp "$root"/home/builder/deb/*.{deb,dsc,changes,buildinfo,tar.*} "$root/home/builder/deb/build.log" "$place/"
  inside 600 "nice -n 19 runuser -u builder -- bash -euc 'cd ~/deb && lintian --fail-on error --tag-display-limit 0 onstack_*.changes'"
  inside 300 "dpkg -i /home/builder/deb/*.deb >/dev/null
    for test in linked command; do
      (cd /home/builder/deb/onstack-$version && runuser -u builder -- debian/tests/\$test)
    done
    dpkg --purge onstack libonstack-preload libonstack-dev libonstack0 onstack-dbgsym libonstack0-dbgsym libonstack-preload-dbgsym >/dev/null"
  echo "ok deb: $(cd "$place" && ls *.deb | grep -vc dbgsym) packages of onstack $version for Debian 13: built without a network, no error of lintian, installed and tried"
}

case ${1:-} in
--root) in_root ;;
"") here ;;
*) sed -n '3,12s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
esac
