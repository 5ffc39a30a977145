#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# The preloaded library where the disk is full or read-only, without /proc, and where no thread may be made: the program
# ends with its own status and output, an error is one line, and no part of a file is left.
# Usage: tests/faults/preload.sh       77: mounts of our own are not allowed here
set -uo pipefail
cd "$(dirname "$0")/../.."
if [ "${1-}" != inside ]; then
  unshare -m true 2>/dev/null || { echo "skip preload.sh: unshare -m is refused here"; exit 77; }
  exec unshare -m --propagation private "$0" inside
fi
library=$PWD/${BUILD:-build}/lib/libonstack-preload.so
place=$PWD/${BUILD:-build}/tests/faults/place
logs=$PWD/${BUILD:-build}/tests/faults/logs
host=$PWD/${BUILD:-build}/tests/faults/host
failed=0
wanted=7
mkdir -p "$place" "$logs"
mount -t tmpfs none "$logs" || { echo "skip preload.sh: no file system can be mounted here"; exit 77; }

# A program with work, output and a status of its own. The word in front may set limits.
program() {
  "$@" env LD_PRELOAD="$library" ONSTACK_PROFILE="$place/out" \
    bash -c 'for ((i = 0; i < 150000; i++)); do :; done; echo done; exit 7' >"$logs/stdout" 2>"$logs/stderr"
  status=$?
}

# One whose first thread ends before the process does; its status is 0.
program_left() {
  timeout -k 5 30 env LD_PRELOAD="$library" ONSTACK_PROFILE="$place/out" \
    "$host" 0.2 pthread_exit >"$logs/stdout" 2>"$logs/stderr"
  status=$?
}

complain() {
  failed=1
  echo "FAILED: $name: $*"
  sed 's/^/    stderr: /' "$logs/stderr"
}

undisturbed() {
  [ $status = "$wanted" ] || complain "status $status, wanted $wanted"
  [ "$(cat "$logs/stdout")" = done ] || complain "its output is not its own"
}

one_line() {
  undisturbed
  [ "$(wc -l <"$logs/stderr")" = 1 ] && grep -q "onstack.*$1" "$logs/stderr" || complain "no one line that says: $1"
  [ -z "$(find "$place" -mindepth 1 ! -name filler)" ] || complain "left: $(ls -A "$place")"
}

profile() {
  undisturbed
  [ ! -s "$logs/stderr" ] || complain "it speaks"
  { gzip -dcf "$place/out" | grep -aq nanoseconds; } 2>/dev/null || complain "no profile"
  rm -f "$place/out"
}

name="a full disk"
mount -t tmpfs -o size=16k none "$place" || exit 77
head -c 1M /dev/zero >"$place/filler" 2>/dev/null
program
one_line "No space left on device"

name="a read-only directory"
rm "$place/filler"
mount -o remount,ro "$place"
program
one_line "Read-only file system"

name="a writable directory"
mount -o remount,rw,size=16m "$place"
program
profile

# libc makes threads' stacks as large as this limit; without one, of a size of its own.
for name in "a stack of 128 KiB" "a stack without a limit"; do
  stack=131072
  if [ "$name" = "a stack without a limit" ]; then stack=unlimited; fi
  program prlimit --stack="$stack"
  profile
done

name="data of 8 MiB" # what a thread's stack alone takes
program prlimit --data=8388608
one_line "Cannot allocate memory\|Resource temporarily unavailable"

name="no thread may be made"
# Another user reaches nothing in a clone that lies in a private directory.
reachable() { mount -t tmpfs -o mode=755 none /mnt && mkdir -m 777 /mnt/place && cp "$library" /mnt; }
if [ "$(id -u)" = 0 ] && command -v setpriv prlimit >/dev/null && reachable; then
  clone=$library disk=$place
  library=/mnt/${library##*/} place=/mnt/place
  program setpriv --reuid 54321 --clear-groups prlimit --nproc=0
  one_line "Resource temporarily unavailable"
  library=$clone place=$disk
else
  echo "skip $name: needs root, setpriv, prlimit and /mnt"
fi

name="a read-only root"
mount -o remount,bind,ro /
if touch "$library.writable" 2>/dev/null; then
  echo "skip $name: it stays writable"
  rm -f "$library.writable"
else
  program
  profile
fi

name="no /proc"
mount -t tmpfs none /proc
program
profile

name="no /proc, and the first thread leaves"
if [ -x "$host" ]; then
  wanted=0
  program_left
  profile
else
  echo "skip $name: needs tests/faults/host, which replaces glibc's malloc"
fi

[ $failed = 0 ] && echo "preload.sh: all as it should be"
exit $failed
