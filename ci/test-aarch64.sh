#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# Runs the core on aarch64: cross-built programs (tests/aarch64) under qemu-user, which has no ticks that the core accepts
# (it delivers timers under ids that timer_create did not return), and then with ticks in a virtual machine with Debian's
# arm64 kernel. Prints one line a check and "N passed, N failed" at the end. Installs what it needs and says the command
# first; with ONSTACK_NO_INSTALL=1 it only says, and skips what cannot run.
# Usage: ci/test-aarch64.sh [user] [fuzz] [go] [vm]   (default: all; go is a program for vm)
#        ci/test-aarch64.sh record                    (for tests/aarch64/fixtures/record.sh: the recorders, in the vm)
set -uo pipefail
cd "$(dirname "$0")/.."
parts=" ${*:-user fuzz go vm} "
build=${BUILD:-build}/aarch64
prefix=/usr/aarch64-linux-gnu # where Debian's cross libraries lie
limit=900                     # seconds for the virtual machine
log=$build/log
mkdir -p "$build/user" "$build/vm" "$build/kernel"
: >"$log"

skip() {
  echo "skip $*" | tee -a "$log"
}

finish() {
  local passed failed
  passed=$(grep -c '^ok ' "$log")
  failed=$(grep -c '^not ok ' "$log")
  echo "$passed passed, $failed failed"
  [ "$failed" -eq 0 ]
  exit
}

may_install() {
  [ "${ONSTACK_NO_INSTALL:-}" != 1 ] && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1
}

# Package, and a file or command that it brings.
missing=()
want() {
  [ -e "$2" ] || command -v "$2" >/dev/null 2>&1 || missing+=("$1")
}

install_missing() {
  [ ${#missing[@]} -gt 0 ] || return 0
  local command="apt-get install -y --no-install-recommends ${missing[*]}"
  if ! may_install; then
    echo "test-aarch64: missing: ${missing[*]}; as root, type: $command" >&2
    return 1
  fi
  echo "+ $command"
  DEBIAN_FRONTEND=noninteractive $command >"$build/apt.log" 2>&1 ||
    { echo "+ apt-get update" && apt-get update >>"$build/apt.log" 2>&1 && DEBIAN_FRONTEND=noninteractive $command >>"$build/apt.log" 2>&1; }
}

# ---- programs ----

cross=aarch64-linux-gnu-gcc
program() { # directory, name, flags and sources
  local out=$build/$1/$2
  shift 2
  $cross -std=gnu11 -D_GNU_SOURCE -g -Wall -Wextra -Werror -I core/include -I core/src -I tests/aarch64 "$@" \
    tests/aarch64/check.c "$build/lib/libonstack.a" -lpthread -o "$out" \
    2> >(grep -vE 'in function|in statically linked' >&2) # the linker's word on dlopen in static programs
}

wants() { [[ $parts == *" $1 "* ]]; }

build_library() {
  rm -f "$build"/vm/* "$build"/user/*
  make --no-print-directory -j2 -f core/Makefile lib BUILD="$build" CC=$cross AR=aarch64-linux-gnu-ar >"$build/make.log" 2>&1 ||
    { cat "$build/make.log"; return 1; }
  $cross -O2 -Wall -Wextra -Werror -D_GNU_SOURCE -static tests/aarch64/init.c -o "$build/init"
}

build_c() {
  local t=tests/aarch64
  local steps="-Wl,-z,lazy $t/steps.c $t/workload.c"
  program user sessions -O2 -DVARIANT='"user"' $t/test_sessions.c &&
    program user rules -O2 -DVARIANT='"user"' $t/test_rules.c &&
    program vm 1-sessions -O2 $t/test_sessions.c &&
    program vm 2-stacks-nofp -O2 -fomit-frame-pointer -DVARIANT='"nofp"' $t/test_stacks.c &&
    program vm 2-stacks-fp -O2 -fno-omit-frame-pointer -DFRAME_POINTERS -DVARIANT='"fp"' $t/test_stacks.c &&
    program vm 2-stacks-pac -O2 -fomit-frame-pointer -mbranch-protection=standard -DVARIANT='"pac"' $t/test_stacks.c &&
    # The walk by frame pointers needs records in leaves as well, and finds return addresses signed.
    program vm 2-stacks-records -O2 -fno-omit-frame-pointer -mno-omit-leaf-frame-pointer -mbranch-protection=standard \
      -DFRAME_POINTERS -DUNWINDER='"frame_pointer"' -DVARIANT='"records"' $t/test_stacks.c &&
    program vm 2-stacks-static -O2 -fomit-frame-pointer -static -Wl,--eh-frame-hdr -DVARIANT='"static"' $t/test_stacks.c &&
    program vm 3-steps-nofp -O2 -fomit-frame-pointer -DVARIANT='"nofp"' $t/test_steps.c $steps &&
    program vm 3-steps-pac -O2 -fno-omit-frame-pointer -mbranch-protection=standard -DVARIANT='"pac"' $t/test_steps.c $steps
}

build_recorders() {
  local t=tests/aarch64
  local steps="-Wl,-z,lazy -I $t/fixtures $t/fixtures/record_steps.c $t/fixtures/tables.c $t/fixtures/writer.c $t/steps.c $t/workload.c"
  program vm steps-nofp -O2 -fomit-frame-pointer -DVARIANT='"nofp"' $steps &&
    program vm steps-pac -O2 -fno-omit-frame-pointer -mbranch-protection=standard -DVARIANT='"pac"' $steps &&
    build_go_program go "-fomit-frame-pointer -DINPUTS=$(cat $t/fixtures/*.[ch] "$build/lib/libonstack.a" | cksum | cut -d' ' -f1)" \
      -tags record
}

# A static program has no .eh_frame_hdr unless it is asked for, and the unwinder no rules without it. The library is for
# the recorder; Go's cache does not see files outside of the package, hence INPUTS above.
build_go_program() { # name, flags for C, for go build
  local name=$1 flags=$2
  shift 2
  (export CGO_CFLAGS="-O2 $flags" CGO_LDFLAGS="$PWD/$build/lib/libonstack.a" CGO_ENABLED=1 GOOS=linux GOARCH=arm64 CC=$cross
    cd tests/aarch64/go && go build "$@" -ldflags '-linkmode external -extldflags "-static -Wl,--eh-frame-hdr"' \
      -o "$OLDPWD/$build/vm/$name" .) >"$build/go.log" 2>&1 && return
  cat "$build/go.log"
  return 1
}

build_go() {
  if ! command -v go >/dev/null 2>&1; then
    skip "go: Go is not installed (https://go.dev/dl/)"
    return
  fi
  build_go_program 4-go -fomit-frame-pointer && build_go_program 4-go-fp -fno-omit-frame-pointer && return
  echo "not ok go: does not build for arm64 (above)" | tee -a "$log"
}

run_user() {
  if ! command -v qemu-aarch64 >/dev/null 2>&1; then
    skip "qemu-user: it is not installed (apt-get install qemu-user)"
    return
  fi
  local program status
  for program in sessions rules; do
    ONSTACK_TEST_EMULATED=1 timeout -k 5 60 qemu-aarch64 -L $prefix "$build/user/$program" | tee -a "$log"
    status=${PIPESTATUS[0]}
    [ "$status" -le 1 ] || echo "not ok qemu-user $program: exit status $status" | tee -a "$log"
  done
}

# The fuzz targets as this architecture compiles them: the kept inputs and mutations of them, without sanitizers.
run_fuzz() {
  command -v qemu-aarch64 >/dev/null 2>&1 || return
  if ! make --no-print-directory -s -j2 -f tests/fuzz/Makefile replays BUILD="$build" CC=$cross \
    AR=aarch64-linux-gnu-ar SANITIZE= >"$build/fuzz.log" 2>&1; then
    cat "$build/fuzz.log"
    echo "not ok fuzz: does not build for arm64 (above)" | tee -a "$log"
    return
  fi
  local target corpus
  for corpus in tests/fuzz/corpus/*; do
    target=${corpus##*/}
    if timeout -k 5 150 qemu-aarch64 -L $prefix "$build/fuzz/replay_$target" -random=4000 "$corpus"; then
      echo "ok fuzz/$target: kept inputs and 4000 mutations" | tee -a "$log"
    else
      echo "not ok fuzz/$target: see above" | tee -a "$log"
    fi
  done
}

# ---- the virtual machine ----

# Debian's kernel for arm64, downloaded once and unpacked, never installed.
fetch_kernel() {
  compgen -G "$build/kernel/boot/vmlinuz-*" >/dev/null && return
  if ! may_install; then
    skip "vm: no arm64 kernel; as root, type: dpkg --add-architecture arm64 && apt-get update, and run this again"
    return 1
  fi
  if ! dpkg --print-foreign-architectures | grep -qx arm64; then
    echo "+ dpkg --add-architecture arm64 && apt-get update"
    dpkg --add-architecture arm64 && apt-get update >"$build/apt.log" 2>&1
  fi
  local package
  package=$(apt-cache depends linux-image-cloud-arm64:arm64 2>/dev/null | awk '/Depends: linux-image/ {print $2; exit}')
  package=${package%:arm64}
  echo "+ apt-get download ${package:-linux-image-arm64}:arm64"
  (cd "$build/kernel" && apt-get download "${package:-linux-image-arm64}:arm64" >../apt.log 2>&1 &&
    dpkg-deb --fsys-tarfile linux-image-*.deb | tar xf - --wildcards './boot/vmlinuz-*' && rm -f linux-image-*.deb) && return
  skip "vm: the arm64 kernel cannot be had ($build/apt.log says why)"
  return 1
}

run_vm() {
  if ! command -v qemu-system-aarch64 >/dev/null 2>&1; then
    skip "vm: qemu-system-aarch64 is not installed (apt-get install qemu-system-arm)"
    return
  fi
  fetch_kernel || return
  local kernels=("$build"/kernel/boot/vmlinuz-*) files=("init=$build/init") library file console=$build/console
  for library in ld-linux-aarch64.so.1 libc.so.6 libm.so.6; do files+=("lib/$library=$prefix/lib/$library"); done
  for file in "$build"/vm/*; do files+=("tests/$(basename "$file")=$file"); done
  python3 tests/aarch64/initramfs.py "$build/initramfs" "${files[@]}"
  echo "== virtual machine (${kernels[0]##*/}), at most $limit s"
  # The recorder of Go wants more instructions a tick, for the variety of its stacks.
  local speed=5
  if wants record; then speed=3; fi
  # icount: time is counted in instructions, so that the load of this machine changes nothing, and a tick can come at any
  # instruction, not only where qemu's blocks of translated code begin.
  timeout -k 5 $limit qemu-system-aarch64 -M virt -cpu max -smp 2 -m 1024 -nographic -nic none -no-reboot \
    -icount shift=$speed,sleep=off \
    -kernel "${kernels[0]}" -initrd "$build/initramfs" -append "console=ttyAMA0 quiet panic=-1" </dev/null 2>&1 |
    tr -d '\r' | tee "$console"
  grep -E '^(ok|not ok|skip) ' "$console" >>"$log"
  grep -q '^== all done' "$console" || echo "not ok vm: it did not come to its end (see $console)" | tee -a "$log"
}

want gcc-aarch64-linux-gnu aarch64-linux-gnu-gcc
want libc6-dev-arm64-cross $prefix/include/stdio.h
install_missing || { skip "everything: no cross compiler"; finish; }
missing=()
want qemu-user qemu-aarch64
want qemu-system-arm qemu-system-aarch64
install_missing # without them the parts below skip
builds=build_c
wants record && builds=build_recorders
if build_library && $builds; then
  wants go && build_go
  wants user && run_user
  wants fuzz && run_fuzz
  { wants vm || wants record; } && run_vm
else
  echo "not ok build: see above" | tee -a "$log"
fi
finish
