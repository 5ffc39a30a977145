# SPDX-License-Identifier: MIT OR Apache-2.0
"""Programs that are linked with musl, under the preload that was built with glibc: by accident in a shell, or on purpose."""
import pathlib
import platform

from harness import STATUS, Run, Skip, about, built, case, check, equal, rarer

WORK = 0.3


def musl(source="program.c"):
    if "glibc" not in platform.libc_ver()[0]:
        raise Skip("the preload is not built with glibc")
    return built(f"{pathlib.Path(source).stem}-musl", source, "-w", compiler="musl-gcc")


@case
def a_program_of_another_libc_starts():
    with Run(musl(), WORK, "exit") as run:
        equal((run.status, run.errors, run.names), (STATUS, "", []), "status, errors and files without a variable")
    with Run("/bin/sh", "-c", f"{musl()} {WORK} exit; echo $?", ONSTACK_PROFILE="out", ONSTACK_FREQUENCY="250") as run:
        equal((run.status, run.output, run.errors), (0, f"{STATUS}\n", ""), "status, output and errors under a shell")


@rarer
def a_program_of_another_libc_is_profiled():
    for end in ("exit", "_exit", "quick_exit", "thread", "own-handler"):
        with Run(musl(), WORK, end, ONSTACK_PROFILE="out", ONSTACK_FREQUENCY="250") as run:
            equal((run.status, run.errors, run.names), (STATUS, "", ["out"]), f"status, errors and files of {end}")
            about(run.profile().seconds("program_parent_work"), WORK, "work")
    with Run(musl(), WORK, "fork", ONSTACK_PROFILE="out.%p", ONSTACK_FREQUENCY="250") as run:
        equal((run.status, run.errors), (STATUS, ""), "status and errors with a child")
        check(any(profile.seconds("program_child_work") > 0 for profile in run.profiles()), "the child is not profiled")
