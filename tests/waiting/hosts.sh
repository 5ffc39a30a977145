#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# Blocked threads of real programs, walked from SP and PC alone, against walks with all registers (run.sh): of each program at
# least 98 of 100 stacks are whole, and none is wrong. Called by `make stress`. It fails where a program is missing, so that nobody
# takes for tried what was not; ONSTACK_NO_INSTALL=1 leaves those out.
set -uo pipefail
cd "$(dirname "$0")"
export WAITING_SECONDS=${WAITING_SECONDS:-3}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
passed=0 failed=0 missing=()

try() { # name, program and arguments
  local said counts
  if ! command -v "$2" >/dev/null; then
    echo "skip waiting: $1: there is no $2 here"
    missing+=("$2")
    return
  fi
  said=$(timeout -k 5 40 ./run.sh "${@:2}" 2>"$work/log" | grep ' looks, ')
  # "...; 282 compared: whole 100.00 %, wrong 0", a line for each process.
  counts=$(sed -n 's/.*; \([0-9]*\) compared: whole \([0-9]*\).*, wrong \([0-9]*\)$/\1 \2 \3/p' <<<"$said")
  if awk '{ few += $2 < 98; wrong += $3; all += $1 } END { exit !(all >= 50 && few == 0 && wrong == 0) }' <<<"$counts"; then
    echo "ok waiting: $1: ${said//$'\n'/; }"
    passed=$((passed + 1))
  else
    tail -3 "$work/log"
    echo "not ok waiting: $1: ${said:-no report}"
    failed=$((failed + 1))
  fi
}

cat >"$work/waits.py" <<'PY'
import threading, time
def wait():
    event = threading.Event()
    for _ in range(80): event.wait(0.1)
threads = [threading.Thread(target=wait, daemon=True) for _ in range(5)]
for thread in threads: thread.start()
time.sleep(6)
PY
cat >"$work/Waits.java" <<'JAVA'
class Waits {
  public static void main(String[] words) throws Exception {
    for (int i = 0; i < 5; i++) {
      Thread thread = new Thread(() -> { try { while (true) Thread.sleep(50); } catch (InterruptedException end) { } });
      thread.setDaemon(true);
      thread.start();
    }
    Thread.sleep(7000);
  }
}
JAVA
try python3 python3 "$work/waits.py"
try node node -e 'setInterval(() => {}, 40); setTimeout(() => process.exit(0), 6000)'
try java java "$work/Waits.java"
(sleep $((WAITING_SECONDS + 4)) && redis-cli -s "$work/socket" shutdown nosave) >/dev/null 2>&1 &
try redis redis-server --port 0 --unixsocket "$work/socket" --save ''
wait
if [ ${#missing[@]} -gt 0 ] && [ "${ONSTACK_NO_INSTALL:-}" != 1 ]; then
  echo "not ok waiting: missing: ${missing[*]}; as root, type: ONSTACK_DEPS=hosts ci/deps.sh (ONSTACK_NO_INSTALL=1: left out)"
  failed=$((failed + ${#missing[@]}))
fi
echo "waiting: $passed passed, $failed failed"
[ "$failed" = 0 ] && [ "$passed" -gt 0 ]
