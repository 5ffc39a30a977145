# SPDX-License-Identifier: MIT OR Apache-2.0
"""What is run: hosts, mixes of load, orders of start and stop. host/driver.h explains the steps."""

from dataclasses import dataclass

ERRATIC = ("native", "rust", "foreign", "callin")  # Go's own profile of these swings between 0 and all without us
GOHOST_MIXES = ("pure", "short", "native", "rust", "foreign")
ARCHIVE_MIXES = (*GOHOST_MIXES, "callin")
GO, C = "go", "c"  # who the other owner of SIGPROF is


@dataclass(frozen=True)
class Host:
    name: str  # a target of the Makefile and a program in build/matrix
    owner: str
    mixes: tuple  # the first one is --quick's
    displaces: bool  # the other owner installs its action anew for each profile

    @property
    def exact_mixes(self):
        """Where only threads with the other owner's own timers burn, every tick can be accounted for."""
        return self.mixes if self.owner == C else ("pure", "short")


HOSTS = (
    Host("go-exe", GO, GOHOST_MIXES, False),
    Host("go-library", GO, GOHOST_MIXES, True),
    Host("c-archive", GO, ARCHIVE_MIXES, True),
    Host("c-shared", GO, ARCHIVE_MIXES, True),
    Host("rust-archive", GO, ARCHIVE_MIXES, True),
    Host("c-plain", C, ("bare", "polite", "chain"), True),
    Host("rust-plain", C, ("bare", "polite", "chain"), True),
)

# What SIGPROF's action is in the end, where the other owner installs it anew each time.
INITIAL = "what it was in the beginning (or SIG_IGN for SIG_DFL)"
ALONE = "what the other owner leaves without us"
PASS = "our pass-through, put back by the other owner after our stop"

INITIAL_OR_PASS = "one of the two, as the race goes"


@dataclass(frozen=True)
class Order:
    name: str
    steps: str  # w: a window of load, C: a third of 1,000 starts and stops of ours, in the full matrix
    final: str
    exact: bool = True  # also run with the load at rest during each start and stop


ORDERS = (
    Order("before", "O+ w O- G+ w G-", ALONE),
    Order("after", "G+ w G- O+ w O-", ALONE),
    Order("inside", "G+ w O+ w O- w G-", ALONE),
    Order("left-straddling", "O+ w G+ w O- w G- R:5 w", PASS),
    Order("right-straddling", "G+ w O+ w G- w O-", ALONE),
    Order("around", "O+ w G+ w G- w O-", INITIAL),
    Order("two-after", "O+ w O- G+ w G- G+ w G-", ALONE),
    Order("twice-inside", "G+ w O+ w O- w O+ w O- w G-", ALONE),
    # Our stop comes before we have noticed their start.
    Order("stop-on-start", "O+ w G+ O- w G- R:5 w", PASS),
    # Our stop follows theirs at once: their last ticks may still be on the way.
    Order("stop-on-stop", "O+ w G+ w G- O-", INITIAL, exact=False),
    # The same, with every distance in time between the two.
    Order("race", "O+ O- race", INITIAL_OR_PASS, exact=False),
    # All of it over the pass-through that a stop under the other owner leaves behind.
    Order("over-pass-through", "O+ w G+ w O- w G- R:5 O+ w O- w", INITIAL),
    # They end under our second session, but had found our first.
    Order("restart-inside", "O+ w G+ w O- w O+ w G- w O-", INITIAL),
    Order("churn", "G+ C G- C G+ C G-", ALONE, exact=False),
)

LIVE, EXACT = "live", "exact"


@dataclass(frozen=True)
class Cell:
    host: Host
    mix: str
    order: Order
    flavour: str

    @property
    def name(self):
        return f"{self.host.name}/{self.mix}/{self.order.name}/{self.flavour}"

    def steps(self, quick):
        window, churn, races = (200, 30, 20) if quick else (250, 334, 60)
        steps = []
        running = False
        for step in self.order.steps.split():
            running = {"O+": True, "O-": False}.get(step, running)
            if step == "C":
                steps.append(f"churn:{churn}")
            elif step == "race":
                steps.append(f"race:{races}")
            elif step != "w":
                steps.append(step)
            elif self.flavour == LIVE:
                steps.append(f"w:{window}")
            else:
                steps += (["T"] if running else []) + ["L+", f"w:{window}", "L-"]
        return [*(["L+"] if self.flavour == LIVE else []), *steps, *(["L-"] if self.flavour == LIVE else []), "H"]


# Each profile alone, beside the cells of its host and mix: what its weight is compared with.
GO_ALONE = Order("go-alone", "G+ w w w G- G+ w w w G-", ALONE)
OURS_ALONE = Order("ours-alone", "O+ w w w O- O+ w w w O-", INITIAL)
# Of an erratic mix Go's profile weighs more the longer it runs, and other than with a load that has run before it. So there
# it is compared with the same steps without ours: a baseline, and the orders that it is fair to.
SAME_STEPS = {
    Order("go-alone-once", "w G+ w G- w", ALONE): ("before", "around", "stop-on-start", "stop-on-stop"),
    Order("go-alone-through", "G+ w w w G-", ALONE): ("inside",),
    Order("go-alone-left", "w G+ w w G-", ALONE): ("left-straddling", "over-pass-through"),
    Order("go-alone-right", "G+ w w G-", ALONE): ("right-straddling",),
    Order("go-alone-two", "w G+ w G- G+ w G-", ALONE): ("two-after",),
}
THEIRS_ALONE = (GO_ALONE, *SAME_STEPS)
BASELINES = (*THEIRS_ALONE, OURS_ALONE)


def baselines_of(mix, orders):
    if mix not in ERRATIC:
        return GO_ALONE, OURS_ALONE
    names = {order.name for order in orders}
    return (*(alone for alone, fair_to in SAME_STEPS.items() if names & set(fair_to)), OURS_ALONE)


def cells_of(host, quick):
    """In the order in which they run, the baselines of a mix first."""
    chosen = []
    for mix in host.mixes:
        orders = ORDERS if not quick or mix == host.mixes[0] else [o for o in ORDERS if o.name == "inside"]
        chosen += [Cell(host, mix, order, LIVE) for order in (*baselines_of(mix, orders), *orders)]
        if mix in host.exact_mixes and (not quick or mix == host.mixes[0]):
            chosen += [Cell(host, mix, order, EXACT) for order in orders if order.exact]
    return chosen
