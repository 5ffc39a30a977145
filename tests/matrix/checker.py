# SPDX-License-Identifier: MIT OR Apache-2.0
"""What a run must show. Each check has a name; a run is checked by what its host printed after each step."""

from cells import ALONE, C, EXACT, INITIAL, INITIAL_OR_PASS, PASS

# The four ways in which a profiler without displacement failed beside a Go c-archive.
OURS_WHILE_THEIRS = "ours samples while theirs runs"
THEIRS_NOT_OVER = "theirs does not count our ticks"
OURS_AFTER_THEIRS = "ours samples on after theirs has stopped"
PASS_THROUGH = "our handler, put back after our stop, does no harm"

ALIVE = "runs to its end, the runtime whole"
ACCOUNTING = "our counters add up"
ACTION_FINAL = "the action in the end is the right one"
ACTION_STOP = "our stop puts back exactly what our start found"
ACTION_NEWER = "our stop leaves a newer owner alone"
ON_TOP = "we go back on top"
FORWARDED = "foreign ticks are forwarded once each"
NOT_OURS = "none of our ticks is forwarded"

DROPS = ("unattributed", "dropped_ring_full", "dropped_no_stack", "dropped_unwinder", "dropped_stopping")
THEIR_PERIOD_MS = 10


class Verdict:
    def __init__(self):
        self.checks = {}  # name -> how often it was made
        self.problems = []  # [name, text]
        self.theirs = [0, 0.0]  # samples, CPU milliseconds
        self.ours = [0.0, 0.0]  # milliseconds sampled, CPU milliseconds
        self.notes = {}

    def check(self, name, holds, text):
        self.checks[name] = self.checks.get(name, 0) + 1
        if not holds:
            self.problems.append([name, text])

    def note(self, name, value):
        self.notes.setdefault(name, []).append(value)

    def as_dict(self):
        return dict(self.__dict__)


def check(cell, events):
    verdict = Verdict()
    verdict.check(ALIVE, True, "")
    _weights(verdict, cell, events)
    _books(verdict, cell, events)
    _actions(verdict, cell, events)
    if cell.flavour == EXACT:
        _on_top(verdict, events)
    if cell.host.owner == C:
        _counting_owner(verdict, cell, events)
    elif cell.flavour == EXACT:
        _go_ticks(verdict, cell, events)
    return verdict


def windows(events, begin, end):
    """Index pairs of a profile's start and stop."""
    first = None
    for i, event in enumerate(events):
        if event["step"] == begin:
            first = i
        elif event["step"] == end:
            yield first, i


def _ours_ms(event):
    return event["ours"]["ticks"] * event["ours"]["period"] / 1e6


def cpu_ms(earlier, later):
    return (later["cpu0"] - earlier["cpu1"]) / 1e6


def _churn_ms(events):
    """CPU time of our own starts and stops, which is nothing that the other owner could sample: the driver's, that of
    threads of ours that have ended, and that of Go's sysmon, which watches each C call. With a thousand of them it is a
    tenth of it all; with a single one nothing."""
    churns = [event for event in events if event["step"].startswith("churn")]
    return sum(event["cpu1"] - event["cpu0"] - event["sampled"] for event in churns) / 1e6


def _weights(verdict, cell, events):
    for first, last in windows(events, "G+", "G-"):
        verdict.theirs[0] += events[last]["result"]
        verdict.theirs[1] += cpu_ms(events[first], events[last]) - _churn_ms(events[first:last])
    for first, last in windows(events, "O+", "O-"):
        verdict.ours[0] += _ours_ms(events[last])
        verdict.ours[1] += cpu_ms(events[first], events[last])
        _each_load_window(verdict, events, first, last)
    _over_counting(verdict, cell)


def _each_load_window(verdict, events, first, last):
    """Nowhere inside our session does sampling rest: not under their profile, not when it has gone."""
    theirs = [e["step"] for e in events[:first] if e["step"] in ("G+", "G-")][-1:] == ["G+"]
    gone = False
    for before, event in zip(events[first:last], events[first + 1 : last]):
        if event["step"] in ("G+", "G-"):
            gone = event["step"] == "G-"
            theirs = not gone
        if not event["step"].startswith("w:") or not (theirs or gone):
            continue
        cpu = (event["cpu1"] - event["cpu0"]) / 1e6
        got = _ours_ms(event) - _ours_ms(before)
        name = OURS_WHILE_THEIRS if theirs else OURS_AFTER_THEIRS
        verdict.check(name, got > 0.7 * cpu - 20, f"{got:.0f} ms sampled of {cpu:.0f} ms burnt")


def _over_counting(verdict, cell):
    samples, cpu = verdict.theirs
    # Where other threads burn too, Go's own profile is above and below the truth without us.
    if cpu and verdict.ours[1] and cell.mix in cell.host.exact_mixes:
        share = samples * THEIR_PERIOD_MS / cpu
        text = f"{samples} samples are {share:.2f} of the CPU time"
        verdict.check(THEIRS_NOT_OVER, share < 1.1 + 40 / cpu, text)


def _books(verdict, cell, events):
    for event in events:
        ours = event.get("ours")
        if not ours or ours["running"] or not event["step"].startswith(("O-", "churn", "race")):
            continue
        spent = ours["recorded"] + sum(ours[name] for name in DROPS)
        verdict.check(ACCOUNTING, ours["ticks"] == spent, f"{ours['ticks']} ticks, {spent} accounted for")
        verdict.check(ACCOUNTING, ours["delivered"] == ours["samples"], f"{ours['delivered']} of {ours['samples']} delivered")
        if "sink_ticks" in ours:
            verdict.check(ACCOUNTING, ours["sink_ticks"] == ours["recorded"], f"sink got {ours['sink_ticks']}, not recorded's")
        lost = ours["ticks"] - ours["recorded"] - ours["dropped_stopping"]
        verdict.check(ACCOUNTING, lost == 0, f"{lost} ticks dropped: {ours}")
        # A signal on its way through an owner that leaves while we stop comes back to a handler without a level below.
        allowed = 1 if cell.order.name in ("stop-on-stop", "race") else 0
        looped = ours.get("looped", 0)
        verdict.check(FORWARDED, looped <= allowed, f"{looped} foreign signals went in a circle")


def portable(action):
    """An action without what address space randomization changes: pages move, offsets in them do not."""
    handler, flags, restorer, mask = (int(field, 16) for field in action)
    return [handler if handler < 4096 else f"...{handler % 4096:03x}", flags, restorer % 4096, mask]


def _actions(verdict, cell, events):
    for first, last in windows(events, "O+", "O-"):
        inside = [e["step"] for e in events[first:last]]
        found, left = events[first - 1], events[last]
        if found["on_top"]:
            continue  # a start over our own pass-through ends at what lies under that
        if not cell.host.displaces or not {"G+", "G-"} & set(inside):
            verdict.check(ACTION_STOP, left["action"] == found["action"], f"found {found['action']}, left {left['action']}")
        elif "G+" in inside and "G-" not in inside:
            verdict.check(ACTION_NEWER, not left["on_top"], f"ours is still there: {left['action']}")
    initial, final = events[0], events[-1]
    became = f"{initial['action']} became {final['action']}, ours: {final['on_top']}"
    verdict.notes["final"] = portable(final["action"])
    as_before = final["action"] == initial["action"]
    # The default would kill the process with the other owner's late ticks; alone it leaves SIG_IGN for that reason too.
    ignored = initial["action"][0] == "0" and final["action"][0] == "1" and "G+" in cell.steps(True)
    if not cell.host.displaces:
        verdict.check(ACTION_FINAL, as_before, became)
    elif cell.order.final == INITIAL:
        verdict.check(ACTION_FINAL, as_before or ignored, became)
    elif cell.order.final == INITIAL_OR_PASS:
        verdict.check(ACTION_FINAL, as_before or final["action"][0] == "1" or final["on_top"], became)
    elif cell.order.final == PASS:
        verdict.check(PASS_THROUGH, final["on_top"], became)


def compare_final(cell, record, alone):
    """A problem, or None: needs the baseline of the same host and mix."""
    if cell.host.displaces and cell.order.final == ALONE and record["notes"]["final"] != alone["notes"]["final"]:
        return [ACTION_FINAL, f"{record['notes']['final']} where theirs alone leaves {alone['notes']['final']}"]
    return None


def _on_top(verdict, events):
    for event in events:
        if event["step"] == "T":
            verdict.check(ON_TOP, event["result"] < 1000000, "another handler stood on top of ours for a second")
            verdict.note("on_top_us", event["result"])


def _go_ticks(verdict, cell, events):
    """With Go threads only: the POSIX timer ticks that we forwarded are Go's samples, to the last one where none is of
    external code. The load rests during each start and stop, since Go's timers outlive its profile until their thread
    is scheduled anew. A C program's main thread and Go's own start leave room for one or two ticks."""
    sessions = list(windows(events, "O+", "O-"))
    for first, last in windows(events, "G+", "G-"):
        inside = [any(a < i < b for a, b in sessions) for i in range(first + 1, last) if events[i]["step"].startswith("w:")]
        # Sessions count anew; those that reach into the window add up.
        forwarded = 0
        for a, b in sessions:
            if a < last and b > first:
                upto, since = events[min(b, last - 1)], events[max(a, first)]
                forwarded += upto["ours"]["forwarded_timer"] - since["ours"]["forwarded_timer"] * (a < first)
        samples, external = events[last]["result"], events[last]["external"]
        direct, dropped = _taken_before_us(cell, events, first), _dropped_by_go(events[first : last + 1])
        text = f"{forwarded} timer ticks forwarded, Go has {samples} samples and {external} of external code"
        text += f"; {direct} may have come before we were on top, and Go may have dropped {dropped}"
        # External code is a thread that is not Go's, or one of Go's in the vDSO or libc.
        verdict.check(FORWARDED, forwarded <= samples + external + dropped, text)
        if all(inside):
            verdict.check(FORWARDED, forwarded >= samples - direct, text)
            verdict.note("forwarded_less_samples", forwarded - samples)


def _ticks_in(ns):
    """As many as one timer whose first period has a random length may have in so much CPU time."""
    return 1 + int(ns / 1e6 / THEIR_PERIOD_MS) if ns else 0


def _ticks_of_threads_in(ns):
    """The same of several threads' timers, each with a first period of its own: all of them may come at once, so what is
    left out is what comes less often than Poisson's counts leave four standard deviations."""
    expected = ns / 1e6 / THEIR_PERIOD_MS
    return 1 + int(expected + 4 * expected**0.5) if ns else 0


def _taken_before_us(cell, events, start):
    """Where Go installs its action anew, what its own start costs (it reads the program's mappings) can have a tick."""
    if not cell.host.displaces:
        return 0
    top = next((i for i in range(start, len(events)) if events[i]["step"] == "T"), start)
    return _ticks_of_threads_in(events[top]["cpu1"] - events[start]["cpu0"])


def _dropped_by_go(events):
    """A C program's main thread has a timer of Go's as soon as it has waited in Go, and Go drops the ticks that meet it in C
    (runtime/signal_unix.go, sigtrampgo: isExtraInC). It polls there, for some per cent of a processor."""
    return _ticks_in(sum(event.get("driver", 0) for event in events))


def _counting_owner(verdict, cell, events):
    last = events[-1]["owner"]
    verdict.check(NOT_OURS, last["via_theirs"] == 0, f"{last['via_theirs']} of our ticks forwarded")
    ticks = sum(events[i]["ours"]["ticks"] for _, i in windows(events, "O+", "O-"))
    if cell.order.name == "race":
        return  # its sessions are not told apart
    # Threads at rest wake now and then, and a tick of ours may fall there before we are back on top.
    allowed = 2 if cell.flavour == EXACT else 8 + ticks // 10
    text = f"{last['direct_theirs']} of our ticks reached the owner, {ticks} reached us"
    verdict.check(THEIRS_NOT_OVER, last["direct_theirs"] <= allowed, text)
    for first, end in windows(events, "O+", "O-"):
        via = events[end]["owner"]["via"] - events[first - 1]["owner"]["via"]
        forwarded = events[end]["ours"]["forwarded"]
        if events[first - 1]["on_top"]:  # the counters go on where no other action was found
            forwarded -= events[first - 1]["ours"]["forwarded"]
        verdict.check(FORWARDED, forwarded == via, f"{forwarded} signals forwarded, the owner got {via}")
