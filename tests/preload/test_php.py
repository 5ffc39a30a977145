# SPDX-License-Identifier: MIT OR Apache-2.0
"""Frames of PHP in profiles, against what the program's own clock says."""
import json
import subprocess
import tempfile

from harness import Run, Skip, case, check, equal
from hosts_common import need
from test_python import check_counts, index

WORK = """<?php
class Sums {
  function squares($n) { $sum = 0; for ($i = 0; $i < $n; $i++) $sum += $i * $i; return $sum; }
  static function fibonacci($n) { return $n < 2 ? $n : self::fibonacci($n - 1) + self::fibonacci($n - 2); }
}
function compare($x, $y) { return strrev("$x") <=> strrev("$y"); }
function order($n) { for ($k = 0; $k < $n; $k++) { $rows = range(0, 2000); usort($rows, 'compare'); } }
function numbers($n) { for ($i = 0; $i < $n; $i++) yield $i * $i; }
function add_up($n) { $sum = 0; foreach (numbers($n) as $x) $sum += $x; return $sum; }
function encode($n) { for ($k = 0; $k < $n; $k++) json_decode(json_encode(range(0, 3000))); }
function deep($n) { return $n ? deep($n - 1) : (new Sums)->squares(150000); }
function now() { $use = getrusage(); return $use['ru_utime.tv_sec'] + $use['ru_utime.tv_usec'] / 1e6 + $use['ru_stime.tv_sec'] + $use['ru_stime.tv_usec'] / 1e6; }
$used = [];
$work = ['squares' => fn() => (new Sums)->squares(150000), 'fibonacci' => fn() => Sums::fibonacci(19), 'order' => fn() => order(2),
         'add_up' => fn() => add_up(60000), 'encode' => fn() => encode(15), 'deep' => fn() => deep(40)];
$end = now() + 1.5;
while (now() < $end)
  foreach ($work as $name => $do) { $before = now(); $do(); $used[$name] = ($used[$name] ?? 0) + now() - $before; }
echo json_encode($used);
"""


@case
def php_frames():
    functions_have_their_time("-d", "extension=json", "-r", WORK[5:])


# With its just-in-time compiler, whose code has no frames of its own; that compiles files alone.
@case
def php_frames_of_compiled_code():
    if "Zend OPcache" not in subprocess.run([need("php"), "-m"], capture_output=True, text=True, check=True).stdout:
        raise Skip("opcache is not installed")
    for how in ("tracing", "function"):
        with tempfile.NamedTemporaryFile("w", suffix=".php") as script:
            script.write(WORK)
            script.flush()
            options = ("zend_extension=opcache", "opcache.enable_cli=1", "opcache.jit_buffer_size=32M", f"opcache.jit={how}")
            words = [word for option in options for word in ("-d", option)]
            asked = subprocess.run([need("php"), "-n", *words, "-r", "echo json_encode(opcache_get_status()['jit']['on']);"], capture_output=True, text=True, check=True)
            equal(asked.stdout, "true", "the compiler does not begin")
            profile = functions_have_their_time(*words, script.name)
            jumped = sum(any(frame.startswith("zero+") for frame in stack) for _, _, stack in profile.samples)
            check(jumped < 0.03 * len(profile.samples), f"{how}: {jumped} of {len(profile.samples)} stacks have compiled code without a name")


def functions_have_their_time(*arguments):
    with Run(need("php"), "-n", *arguments, ONSTACK_PROFILE="out", ONSTACK_FREQUENCY="500") as done:
        equal(done.status, 0, done.errors)
        profile = done.profile()
        if not any(text.startswith("onstack.interpreted ") for text in profile.comments):
            raise Skip("php is of a version that is not known")
        check_counts(profile, "php")
        used = json.loads(done.output[done.output.index("{") :])
        full = {"squares": "Sums::squares", "fibonacci": "Sums::fibonacci"}
        for name, seconds in used.items():
            wanted = seconds + (used["deep"] if name == "squares" else 0)
            found = profile.seconds(full.get(name, name))
            check(abs(found - wanted) <= 4 * (seconds / 500) ** 0.5 + 0.05 * wanted + 0.05, f"{name}: {found:.3f} s, not {wanted:.3f}")
        # The sort in C lies between PHP's functions; deep() forty times in a row.
        sorts = [stack for _, _, stack in profile.samples if "compare" in stack]
        check(sorts and all("usort" in stack[stack.index("compare") + 2 : stack.index("order")] for stack in sorts), f"{sorts[:1]}")
        deep = [stack for _, _, stack in profile.samples if "deep" in stack]
        at_the_end = [stack.count("deep") for stack in deep if "Sums::squares" in stack]
        check(at_the_end and at_the_end.count(41) >= 0.9 * len(at_the_end), f"deep() is not whole: {at_the_end}")
        check(all("execute_ex" not in stack[1:] for stack in deep), "a loop's frame is left")
        return profile


# What is deprecated calls the handler from the part of the loop that compilers put elsewhere.
COLD = """<?php
function slow() { for ($i = 0, $sum = 0; $i < 200; $i++) $sum += strlen(str_repeat("x", 20000)); return $sum; }
function handler($number, $text) { slow(); return true; }
set_error_handler('handler');
function warns() { return utf8_encode("x"); }
function used() { $use = getrusage(); return $use['ru_utime.tv_sec'] + $use['ru_utime.tv_usec'] / 1e6; }
for ($end = used() + 0.5; used() < $end;) warns();
"""


@case
def php_frames_of_the_part_of_the_loop_that_lies_apart():
    with Run(need("php"), "-n", "-r", COLD[5:], ONSTACK_PROFILE="out", ONSTACK_FREQUENCY="500") as done:
        equal(done.status, 0, done.errors)
        profile = done.profile()
        if not any(text.startswith("onstack.interpreted ") for text in profile.comments):
            raise Skip("php is of a version that is not known")
        handled, warned = profile.seconds("handler"), profile.seconds("warns")
        check(handled > 0.9 * warned > 0.3, f"{handled:.3f} of {warned:.3f} s")
