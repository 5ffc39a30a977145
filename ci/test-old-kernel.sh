#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# What depends on the kernel's age: runs tests/coexist's programs in a virtual machine with Debian 12's kernel (6.1), which
# keeps the pending signal of a deleted timer (Linux drops it since 6.13). A naive profiler's stop must be seen to die there.
# Prints one line a check and "N passed, N failed" at the end. Installs what it needs and says the command first; with
# ONSTACK_NO_INSTALL=1 it only says, and skips. ONSTACK_TEST_CYCLES: starts and stops there (10,000; emulated, 18 minutes).
set -uo pipefail
cd "$(dirname "$0")/.."
BUILD=${BUILD:-build}
build=$BUILD/old-kernel
cycles=${ONSTACK_TEST_CYCLES:-10000}
limit=3000 # seconds for the virtual machine
console=$build/console
mkdir -p "$build/kernel"

skip() {
  echo "skip old-kernel: $*"
  exit 0
}

may_install() {
  [ "${ONSTACK_NO_INSTALL:-}" != 1 ] && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1
}

install_qemu() {
  command -v qemu-system-x86_64 >/dev/null 2>&1 && return
  local command="apt-get install -y --no-install-recommends qemu-system-x86 seabios"
  may_install || skip "qemu-system-x86_64 is missing; as root, type: $command"
  echo "+ $command"
  DEBIAN_FRONTEND=noninteractive $command >"$build/apt.log" 2>&1 ||
    { echo "+ apt-get update" && apt-get update >>"$build/apt.log" 2>&1 && DEBIAN_FRONTEND=noninteractive $command >>"$build/apt.log" 2>&1; } ||
    skip "qemu-system-x86 cannot be had ($build/apt.log says why)"
}

# Downloaded once and unpacked, never installed.
fetch_kernel() {
  compgen -G "$build/kernel/boot/vmlinuz-*" >/dev/null && return
  may_install || skip "no kernel; as root, run this again, or unpack Debian 12's linux-image-cloud-amd64 into $build/kernel"
  local package
  package=$(apt-cache depends linux-image-cloud-amd64 2>/dev/null | awk '/Depends: linux-image/ {print $2; exit}')
  [ -n "$package" ] || { apt-get update >"$build/apt.log" 2>&1; package=$(apt-cache depends linux-image-cloud-amd64 | awk '/Depends: linux-image/ {print $2; exit}'); }
  case $package in linux-image-6.[0-9].* | linux-image-6.1[0-2].*) ;; *) skip "this system's kernel package is ${package:-none}, not one before 6.13" ;; esac
  echo "+ apt-get download $package"
  (cd "$build/kernel" && apt-get download "$package" >../apt.log 2>&1 &&
    dpkg-deb --fsys-tarfile linux-image-*.deb | tar xf - --wildcards './boot/vmlinuz-*' && rm -f linux-image-*.deb) ||
    skip "the kernel cannot be had ($build/apt.log says why)"
}

[ "$(uname -m)" = x86_64 ] || skip "for x86_64; ci/test-aarch64.sh has an arm64 machine with the same kernel"
install_qemu
fetch_kernel
make --no-print-directory -s -f tests/coexist/Makefile cycles naive &&
  ${CC:-cc} -O2 -Wall -Wextra -Werror -D_GNU_SOURCE -DLIMIT_SECONDS=2800u -static tests/aarch64/init.c -o "$build/init" ||
  { echo "not ok old-kernel: does not build"; exit 1; }
files=("init=$build/init")
files+=("tests/1-naive=$BUILD/coexist/naive" "tests/2-cycles=$BUILD/coexist/cycles")
# The programs' libraries, at the paths where their linker looks.
while read -r library; do files+=("${library#/}=$library"); done < <(
  ldd "$BUILD/coexist/naive" "$BUILD/coexist/cycles" | grep -o '/[^ ]*\.so[^ ]*' | sort -u)
python3 tests/aarch64/initramfs.py "$build/initramfs" "${files[@]}"
kernels=("$build"/kernel/boot/vmlinuz-*)
echo "== virtual machine (${kernels[0]##*/}), at most $limit s"
# The kernel hands words of its command line that it does not know to the first process as environment.
timeout -k 5 $limit qemu-system-x86_64 -M q35 -accel tcg,thread=multi -cpu max -smp 2 -m 1024 -nographic -nic none -no-reboot \
  -kernel "${kernels[0]}" -initrd "$build/initramfs" \
  -append "console=ttyS0 quiet panic=-1 ONSTACK_TEST_CYCLES=$cycles" </dev/null 2>&1 | stdbuf -o0 tr -d '\r' | tee "$console"
grep -q '^== all done' "$console" || echo "not ok old-kernel: the machine did not come to its end" | tee -a "$console"
passed=$(grep -c '^ok ' "$console")
failed=$(grep -c '^not ok ' "$console")
echo "test-old-kernel: $passed passed, $failed failed"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
