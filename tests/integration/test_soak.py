"""Run after run over days of twenty models, with somebody who merges: nothing fails, grows or is left behind.

A run of the gate lasts some simulated hours, `make soak` a thousand runs (SOAK_RUNS).
"""

import ctypes
import gc
import os
import shutil
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from multiprocessing import forkserver
from pathlib import Path

import pytest

from reconciler.simulation.draws import random_generator
from tests.conftest import SOAK
from tests.servers.git_workshop import run_git
from tests.servers.prometheus import serve_blocks, write_blocks
from tests.stories.stage import Moment, Phase, Served, Team, at_work

pytestmark = pytest.mark.integration

RUNS = int(os.environ.get("SOAK_RUNS", "10"))
MODELS, RUNS_A_DAY, MINUTES, SEED = 20, 132, 10, 7
"""A day is 22 hours, so that no two overlap in one Prometheus."""
RESTART_EVERY = max(RUNS // 10, 5)
WARM = max(RUNS // 10, 2)
"""Runs after which nothing may grow any more."""
MIB = 1024 * 1024
MOST_KEPT_A_RUN, MOST_KEPT = MIB // 16, 16 * MIB
"""What runs of one process leave allocated: each (the median, as modules are loaded when first needed), and all.

The process itself grows more: a free page lies between used ones. No user has that, who starts a process for each run.
"""
MOST_GROWTH = 8 * MIB
"""By how much a run of its own process, as everybody starts it, may need more memory than one at the beginning."""
DEFAULTS = "defaults: {serviceClass: standard, accelerator: keep"
SLOW = "actuationDelay: {sync: 1d}}\npullRequests: {limits: {open: 8}}"
"""What is scraped does not follow Git here."""


def a_day(number: int, hours: float) -> Moment:
    """Twenty models whose load changes every two hours."""
    rng = random_generator(SEED + number)
    served = []
    for index in range(MODELS):
        levels = rng.choice([6.0, 20.0, 45.0, 70.0, 95.0], size=13)
        phases = [Phase(replicas=2, per_s=float(levels[0]))]
        phases += [
            Phase(minutes=120.0 * step, replicas=2, per_s=float(each)) for step, each in enumerate(levels[1:], 1)
        ]
        served.append(Served(name=f"model-{index:02}", namespace=f"team-{index % 5}", phases=tuple(phases)))
    at = datetime(2026, 3, 2, tzinfo=UTC) + timedelta(days=2 * number)
    return Moment(at=at.isoformat(), served=tuple(served), hours=hours)


@contextmanager
def temporary_files(folder: Path) -> Iterator[Path]:
    """A folder of our own for everything temporary."""
    folder.mkdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TMPDIR", str(folder))
        patch.setattr(tempfile, "tempdir", None)
        yield folder


class _Allocated(ctypes.Structure):
    """`struct mallinfo2`."""

    _fields_ = [
        (name, ctypes.c_size_t)
        for name in ("arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks")
    ] + [("fordblks", ctypes.c_size_t), ("keepcost", ctypes.c_size_t)]


def allocated_bytes() -> int:
    """What is in use: large blocks as the C library counts them, and small ones of Python, of 64 bytes on average."""
    count = ctypes.CDLL(None).mallinfo2
    count.restype = _Allocated
    found = count()
    return int(found.uordblks + found.hblkhd) + 64 * sys.getallocatedblocks()


def usage() -> tuple[int, int, int]:
    """Bytes that are in use, open descriptors and children of this process.

    A run leaves its objects out of collections, as its process ends with it; here one process makes all runs.
    """
    gc.unfreeze()
    gc.collect()
    children = sum(len(each.read_text().split()) for each in Path("/proc/self/task").glob("*/children"))
    return allocated_bytes(), sum(1 for _ in Path("/proc/self/fd").iterdir()), children


def peak_of_a_run(team: Team) -> int:
    """The most memory of a run in a process of its own."""
    run = team.start("none", "-q")
    code, said = run.end()
    assert code == 0, said
    return run.peak_bytes


def stays_small(team: Team) -> None:
    """A branch for each open pull request and no lock; what git packs away is one file."""
    is_open = {each.head for each in team.pull_requests() if each.state == "open"}
    remote = team.workshop.remote
    heads = run_git(remote, "for-each-ref", "--format=%(refname:short)", "refs/heads/").split()
    assert set(heads) == {"main", *is_open}
    assert not list(remote.rglob("*.lock"))
    assert not [each for each in (remote / "reconciler").rglob("*") if each.name.startswith(".")]
    run_git(remote, "gc", "-q", "--prune=now")
    assert len(list((remote / "objects" / "pack").glob("*.pack"))) == 1


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mallinfo2"), reason="what is allocated is counted by glibc 2.33")
def test_nothing_fails_grows_or_is_left_behind(tmp_path: Path, record_property: Callable[[str, object], None]) -> None:
    rng = random_generator(SEED)
    hours = min(RUNS, RUNS_A_DAY) * MINUTES / 60 + 0.5
    days = [a_day(number, hours) for number in range(-(-RUNS // RUNS_A_DAY))]
    blocks = tmp_path / "blocks"
    codes: list[tuple[int, str]] = []
    measured: list[tuple[int, int, int]] = []
    peaks: list[int] = []
    merged = restarts = 0
    forkserver.ensure_running()
    *_, others = usage()  # servers of other tests that this process runs
    with temporary_files(tmp_path / "temporary") as temporary:
        with at_work(
            days[0],
            "",
            tmp_path / "team",
            rules=["{name: all, approval: {}}"],
            settings=[(DEFAULTS + "}", f"{DEFAULTS}, {SLOW}")],
        ) as team:
            for day in days:
                shutil.rmtree(blocks, ignore_errors=True)
                write_blocks(day.history(), tmp_path / "day.om", blocks, 24)
                left = min(RUNS_A_DAY, RUNS - len(codes))
                for first in range(0, left, RESTART_EVERY):
                    restarts += 1
                    with serve_blocks(blocks, tmp_path) as team.prometheus:
                        for run in range(first, min(first + RESTART_EVERY, left)):
                            team.go_back(day.at_s + 60.0 * MINUTES * (run + 1))
                            outcome = team.run("-q")
                            codes.append((outcome.code, outcome.err))
                            is_open = [each.number for each in team.pull_requests() if each.state == "open"]
                            if is_open and rng.random() < 0.5:
                                team.merge(is_open[0])
                                merged += 1
                            if len(codes) >= WARM:
                                measured.append(usage())
                            if len(codes) in (WARM, RUNS):
                                peaks.append(peak_of_a_run(team))
            stays_small(team)
            opened = len(team.pull_requests())
        assert not list(temporary.iterdir())
    assert {code for code, _ in codes} == {0}, [said for code, said in codes if code][:3]
    kept, descriptors, children = zip(*measured, strict=True)
    assert max(descriptors) - min(descriptors) <= 2
    assert max(children) <= others + 1, "no child but Prometheus"
    kept_a_run = statistics.median(later - sooner for sooner, later in pairwise(kept))
    assert kept_a_run < MOST_KEPT_A_RUN
    assert kept[-1] - kept[0] < MOST_KEPT
    assert peaks[-1] - peaks[0] < MOST_GROWTH
    assert merged
    counts = f"{RUNS} runs | {restarts} restarts of Prometheus | {opened} pull requests, {merged} merged"
    memory = f"a run's memory {peaks[0] / MIB:.0f} MiB, then {peaks[-1] / MIB:.0f}"
    grown = f"kept {kept_a_run / 1024:+.0f} KiB a run, {(kept[-1] - kept[0]) / MIB:+.1f} MiB"
    record_property(SOAK, f"{counts} | {memory} | {grown}, {descriptors[-1] - descriptors[0]:+d} descriptors")
