#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# Runs the core on aarch64: cross-built programs (tests/aarch64) under qemu-user, which has no ticks that the core accepts
# (it delivers timers under ids that timer_create did not return), and then with ticks in a virtual machine with Debian's
# arm64 kernel. Prints one line a check and "N passed, N failed" at the end. Installs what it needs and says the command
# first; with ONSTACK_NO_INSTALL=1 it only says, and skips what cannot run.
# Usage: ci/test-aarch64.sh [user] [core] [musl] [fuzz] [go] [vm]   (default: all; go is a program for vm)
#        ci/test-aarch64.sh quick                         (what `make test` runs: user, core's tests of what differs there)
#        ci/test-aarch64.sh rest                          (what `make test-all` runs: the other ones of core, musl, the kept
#                                                          inputs of fuzz, unchanged)
#        ci/test-aarch64.sh record                        (for tests/aarch64/fixtures/record.sh: the recorders, in the vm)
set -uo pipefail
cd "$(dirname "$0")/.."
parts=" ${*:-user core musl fuzz go vm} "
mutations=4000 # of each fuzz target's kept inputs
leaves=        # of the core's tests: more, tests
case $parts in
" quick ") parts=" user core " leaves=more ;;
" rest ") parts=" core musl fuzz " mutations=0 leaves=tests ;;
esac
build=${BUILD:-build}/aarch64
prefix=/usr/aarch64-linux-gnu # where Debian's cross libraries lie
limit=900                     # seconds for the virtual machine
arm64=$build/arm64            # Debian packages of arm64, unpacked below it
log=$build/log
mkdir -p "$build/user" "$build/vm" "$build/kernel"
: >"$log"

skipped=0
skip() {
  skipped=$((skipped + 1))
  echo "skip $*" | tee -a "$log"
}

finish() {
  local passed failed
  passed=$(grep -c '^ok ' "$log")
  failed=$(grep -c '^not ok ' "$log")
  if [ $skipped -gt 0 ] && [ "${ONSTACK_NO_INSTALL:-}" != 1 ]; then
    echo "not ok aarch64: what was skipped above is to be installed, or left out by ONSTACK_NO_INSTALL=1"
    failed=$((failed + 1))
  elif [ $skipped = 0 ] && [ "$passed" = 0 ]; then
    echo "not ok aarch64: nothing was tested"
    failed=1
  fi
  echo "$passed passed, $failed failed"
  [ "$failed" -eq 0 ]
  exit
}

# ---- programs ----

cross=aarch64-linux-gnu-gcc
program() { # directory, name, flags and sources
  local out=$build/$1/$2
  shift 2
  $cross -std=gnu11 -D_GNU_SOURCE -g -Wall -Wextra -Werror -I core/include -I core -I tests/aarch64 "$@" \
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

build_user() {
  program user sessions -O2 -DVARIANT='"user"' tests/aarch64/test_sessions.c &&
    program user rules -O2 -DVARIANT='"user"' tests/aarch64/test_rules.c
}

build_vm() {
  local t=tests/aarch64
  local steps="-Wl,-z,lazy $t/steps.c $t/workload.c"
  program vm 1-sessions -O2 $t/test_sessions.c &&
    program vm 1-generated -O2 $t/test_generated.c &&
    program vm 1-waits -O2 -DVARIANT='"waits"' $t/test_waits.c &&
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

# Those of tests/core that need no tick, by a small stand-in for Criterion: every assertion of theirs as arm64 compiles it.
core_tests="action arm64 cfi code_map fde_lookup generated_code go_library heap nesting pc_cache ring seqlock thread_table"
core_more="options profile_aggregate profile_kinds profile_maps profile_pprof profile_symbols profile_threads sized
  statistics_text symbol_index"
# qemu-user shows a memory map of its own making, finds libraries below a prefix that a chroot does not have, keeps the places
# of the recorded Go program for itself, and fails in children of fork that have threads. It has no ticks, and no
# process_vm_readv, so that tables of libraries are read by loads (and test_call_site_check proves nothing), and the end of the
# main thread's stack can be read or not, depending on the size of the environment.
core_not="heap/stacks_lead_from_the_allocation_to_the_root
  go_library/opens_that_fail_do_not_hurt_who_looks_at_them
  heap/a_child_of_fork_has_none_and_may_start_one statistics_text/the_lines_are_the_counters_and_the_modules_that_lost
  statistics_text/a_writer_that_refuses_ends_it
  profile_maps/without_proc_the_loader_is_asked
  profile_maps/offsets_become_virtual_addresses_whatever_happens_to_the_mapping symbol_index/names_outlive_their_file
  arm64/go_and_its_changes_of_stacks fde_lookup/stacks_are_whole_before_there_are_tables
  fde_lookup/a_frame_of_a_megabyte_has_callers"

run_core_tests() { # directory, compiler, flags, how to run it, tests, those that are left out
  local out=$1 name programs=() status runner
  read -ra runner <<<"$4"
  for name in $5; do programs+=("$out/tests/core/test_$name"); done
  if ! make --no-print-directory -s -j2 -f tests/core/Makefile BUILD="$out" CC="$2" CRITERION=tests/aarch64/criterion/run.c \
    CFLAGS="-O2 -g -Wall -Wextra -Wno-sign-compare -DT_DEADLINE=240u -I tests/aarch64 $3" "${programs[@]}" >"$build/core.log" 2>&1; then
    cat "$build/core.log"
    echo "not ok ${out##*/}: the core's tests do not build (above)" | tee -a "$log"
    return
  fi
  for name in "${programs[@]}"; do
    # shellcheck disable=SC2086
    timeout -k 5 120 "${runner[@]}" "$name" $6 2>&1 | tee -a "$log"
    status=${PIPESTATUS[0]}
    [ "$status" -le 1 ] || echo "not ok ${name##*/}: exit status $status" | tee -a "$log"
  done
}

run_core() {
  command -v qemu-aarch64 >/dev/null 2>&1 || return
  local tests="$core_tests $core_more"
  case $leaves in more) tests=$core_tests ;; tests) tests=$core_more ;; esac
  run_core_tests "$build" $cross "" "qemu-aarch64 -L $prefix" "$tests" "$core_not"
}

# Static programs with musl: the same tests, but those that look for a library.
musl_tests="action options profile_aggregate profile_kinds profile_pprof profile_symbols profile_threads ring sized
  thread_table"
musl_not="profile_pprof/the_program_is_the_first_mapping_and_has_its_build_id profile_symbols/libc_by_its_dynamic_symbols
  profile_symbols/a_gap_of_libc_is_module_and_offset"

run_musl() {
  command -v qemu-aarch64 >/dev/null 2>&1 || return
  local platforms=${BUILD:-build}/platforms compiler out
  out=$platforms/aarch64-musl # as ci/check-platforms.sh has it
  compiler=$(ci/arm64-musl.sh "$platforms") || { skip "musl: its packages of arm64 are not here"; return; }
  if ! make --no-print-directory -s -j2 -f core/Makefile BUILD="$out" CC="$compiler" lib >"$build/musl.log" 2>&1; then
    cat "$build/musl.log"
    echo "not ok musl: the core does not build (above)" | tee -a "$log"
    return
  fi
  echo "== static, with musl"
  # The kernel's own headers are among glibc's.
  run_core_tests "$out" "$compiler" "-static -idirafter $prefix/include" qemu-aarch64 "$musl_tests" "$musl_not"
}

# The fuzz targets as this architecture compiles them: the kept inputs and mutations of them, without sanitizers.
run_fuzz() {
  command -v qemu-aarch64 >/dev/null 2>&1 || return
  local target targets=()
  for target in tests/fuzz/corpus/*; do targets+=("${target##*/}"); done
  if ! make --no-print-directory -s -j2 -f tests/fuzz/Makefile replays BUILD="$build" AR=aarch64-linux-gnu-ar SANITIZE= \
    CC="$cross" TARGETS="${targets[*]}" >"$build/fuzz.log" 2>&1; then
    cat "$build/fuzz.log"
    echo "not ok fuzz: does not build for arm64 (above)" | tee -a "$log"
    return
  fi
  for target in "${targets[@]}"; do
    if timeout -k 5 150 qemu-aarch64 -L $prefix "$build/fuzz/replay_$target" -random=$mutations "tests/fuzz/corpus/$target"; then
      echo "ok fuzz/$target: kept inputs and $mutations mutations" | tee -a "$log"
    else
      echo "not ok fuzz/$target: see above" | tee -a "$log"
    fi
  done
}

# ---- the virtual machine ----

# Debian's kernel for arm64, downloaded once and unpacked, never installed.
fetch_kernel() {
  compgen -G "$build/kernel/boot/vmlinuz-*" >/dev/null && return
  if [ "${ONSTACK_NO_INSTALL:-}" = 1 ]; then
    skip "vm: no arm64 kernel, which without ONSTACK_NO_INSTALL=1 is downloaded, and not installed"
    return 1
  fi
  local package
  package=$(ci/arm64-apt.sh "$arm64" depends linux-image-cloud-arm64 2>"$build/apt.log" | awk '/Depends: linux-image/ {print $2; exit}')
  echo "+ apt-get download ${package:-linux-image-arm64} (of arm64)"
  local apt=$PWD/ci/arm64-apt.sh
  (cd "$build/kernel" && "$apt" ../arm64 download "${package:-linux-image-arm64}" >../apt.log 2>&1 &&
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
    sed -u 's/\r//' | tee "$console"
  grep -E '^(ok|not ok|skip) ' "$console" >>"$log"
  grep -q '^== all done' "$console" || echo "not ok vm: it did not come to its end (see $console)" | tee -a "$log"
}

deps=aarch64
if wants vm || wants record; then deps=aarch64-vm; fi
ONSTACK_DEPS=$deps ci/deps.sh || skip "what deps.sh names: it is not installed"
command -v $cross >/dev/null || { skip "everything: no cross compiler"; finish; }
if build_library && { ! wants user || build_user; } && { ! wants vm || build_vm; } && { ! wants record || build_recorders; }; then
  wants go && build_go
  wants user && run_user
  wants core && run_core
  wants musl && run_musl
  wants fuzz && run_fuzz
  { wants vm || wants record; } && run_vm
else
  echo "not ok build: see above" | tee -a "$log"
fi
finish
