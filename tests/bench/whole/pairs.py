# SPDX-License-Identifier: MIT OR Apache-2.0
"""
CPU time of the same work with and without a profiler, in pairs, with the interval of their mean. Both of a pair run at once,
each on a processor of its own, and then the other way round: what changes with time changes for both. What a run takes for
start and end, as tables and the profile itself, is told apart: by a run that hardly works.
"""

import math
import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from statistics import mean, stdev

import tools

# Of t, two-sided 95 %, by degrees of freedom.
STUDENT = {2: 4.30, 3: 3.18, 4: 2.78, 5: 2.57, 6: 2.45, 7: 2.36, 8: 2.31, 9: 2.26}
STUDENT_MORE = 2.23


def at_once(program, settings, scratch, processors):
    """(CPU seconds of the work, of start and end) for each setting, on its processor. Of a program without start and end that could
    be left out the second is None."""
    with ThreadPoolExecutor(len(settings)) as pool:
        together = threading.Barrier(len(settings))

        def run(number):
            place = os.path.join(scratch, str(number))
            os.makedirs(place, exist_ok=True)
            together.wait()
            once = program(settings[number], place, processors[number], little=True)
            return program(settings[number], place, processors[number]) - (once or 0), once

        return list(pool.map(run, range(len(settings))))


def in_pairs(program, base, on, scratch, seconds, least, most):
    """Yields ((without, with), ...) of both ways round, each as at_once tells it: at least `least` times, then until `seconds` are over."""
    processors = sorted(os.sched_getaffinity(0))[:2]
    if len(processors) < 2:
        raise tools.Missing("two processors")
    end, done = time.monotonic() + seconds, 0
    while done < least or (done < most and time.monotonic() < end):
        yield [at_once(program, (base, on), scratch, pair) for pair in (processors, processors[::-1])]
        done += 1


def interval(values):
    """Mean, and half of its 95 % interval."""
    return mean(values), STUDENT.get(len(values) - 1, STUDENT_MORE) * stdev(values) / math.sqrt(len(values))


def relative(emit, turns):
    """What the profiler adds to the work, in per cent of it, and in milliseconds to start and end."""
    logs, ends = [], []
    for both in turns:
        logs.append(mean(math.log(with_it / without) for (without, _), (with_it, _) in both))
        ends += [with_it - without for (_, without), (_, with_it) in both if without is not None]
    adds, half = interval(logs)
    emit("adds", "% CPU time", 100 * (math.exp(adds) - 1))
    emit("interval", "% CPU time", 100 * half)
    emit("least", "% CPU time", 100 * (math.exp(adds - half) - 1))
    if ends:
        emit("once", "ms", 1000 * mean(ends))


def for_each(emit, turns, count):
    """What the profiler adds to each of `count` commands."""
    adds, half = interval([mean(with_it - without for (without, _), (with_it, _) in both) for both in turns])
    emit("each", "ms", 1000 * adds / count)
    emit("interval", "ms", 1000 * half / count)
