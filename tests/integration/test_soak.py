"""Run after run over days of twenty models, with somebody who merges: nothing fails, grows or is left behind.

A run of the gate lasts some simulated hours, `make soak` a thousand runs (SOAK_RUNS). All but two of them share this
process, which is stricter than a job that has a process for each: what a run leaves behind, the next one finds.
"""

import ctypes
import gc
import json
import os
import re
import statistics
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import pairwise
from multiprocessing import forkserver
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from reconciler.http.messages import Clock
from reconciler.simulation.draws import random_generator
from tests.conftest import SOAK
from tests.servers.fleet import HOUR_S, STEP_S, Day, write_replica
from tests.servers.git_workshop import run_git
from tests.servers.prometheus import History, serve_blocks
from tests.servers.remote_write import send
from tests.stories.stage import Moment, Phase, Served, Team, at_work

pytestmark = pytest.mark.integration

RUNS = int(os.environ.get("SOAK_RUNS", "10"))
MODELS, MINUTES, SEED = 20, 14, 7
"""A thousand runs are ten days."""
SYNC_S, START_S, LEVEL_S = 3 * 60.0, 5 * 60.0, 2 * 3600.0
LEVELS = (6.0, 20.0, 45.0, 70.0, 95.0)
RESTART_EVERY = max(RUNS // 20, 5)
WARM = max(RUNS // 10, 2)
"""Runs after which nothing may grow any more."""
MEASURED_EVERY = max(RUNS // 100, 1)
"""To count what is allocated takes a tenth of a run."""
MIB = 1024 * 1024
MOST_KEPT_A_RUN, MOST_KEPT = MIB // 16, 16 * MIB
"""What runs of one process leave allocated: each (the median, as modules are loaded when first needed), and all.

The process itself grows more: a free page lies between used ones. No user has that, who starts a process for each run.
"""
MOST_GROWTH, MOST_OF_A_PULL_REQUEST = 12 * MIB, MIB // 32
"""By how much a run of its own process, as everybody starts it, may need more memory than one at the beginning: for
what Prometheus has of two weeks, and for each pull request that was merged in the last thirty days."""
DEFAULTS = "defaults: {serviceClass: standard, accelerator: keep}"
SETTINGS = f"{DEFAULTS}\npullRequests: {{limits: {{open: 8}}}}\nrunInterval: {MINUTES}m"
TOLERANCE = 0.3
"""By how much fewer or more pull requests may be opened a day than a backtest of the same days says."""


@dataclass(kw_only=True)
class Cluster:
    """Twenty models whose load changes every two hours; replicas follow Git, and Prometheus is told what they do."""

    moment: Moment
    told_s: float
    counts: list[int]
    levels: Any

    def load_at(self, index: int, at_s: float) -> float:
        """Requests a second of a model."""
        return float(self.levels[index, max(int((at_s - self.moment.at_s) // LEVEL_S), 0)])

    def tell(self, team: Team, until_s: float) -> None:
        """What happened since it was last told, with what Git has asked for since then.

        Counters begin at 0 each time, as after a restart of each engine: rates do not see that.
        """
        history = History(end_s=until_s)
        files = run_git(team.workshop.remote, "show", *(f"main:{each.path}" for each in self.moment.served))
        counts = [int(each) for each in re.findall(r"^  replicas: (\d+)", files, flags=re.MULTILINE)]
        for index, (before, now) in enumerate(zip(self.counts, counts, strict=True)):
            self._tell_of(history, index, before, now)
        self.counts = counts
        send(history, team.prometheus, after_s=self.told_s)
        self.told_s = until_s

    def _tell_of(self, history: History, index: int, before: int, now: int) -> None:
        each, begin_s = self.moment.served[index], self.told_s
        times = np.arange(begin_s, history.end_s + 1, STEP_S)
        asked = np.where(times < begin_s + SYNC_S, before, now)
        running = np.where(times < begin_s + SYNC_S + START_S, np.minimum(asked, before), now)

        def rate_at(at_s: float) -> float:
            count = running[min(round((at_s - begin_s) / STEP_S), len(running) - 1)]
            return self.load_at(index, at_s) / max(int(count), 1)

        for number in range(int(running.max())):
            alive = times[running > number]
            pod = f"{each.name}-5d4c8b7f9-bcd{'fghjklmnpqrstvwxz'[number % 17]}{number // 17 + 2}"
            labels = {"namespace": each.namespace, "pod": pod, "model_name": each.name}
            day = Day(start_s=float(alive[0]), hours=float(alive[-1] - alive[0]) / HOUR_S)
            write_replica(history, day, labels, rate_at)
        named = {"namespace": each.namespace, "deployment": each.name}
        counts = list(zip(times.tolist(), asked.astype(float).tolist(), strict=True))
        history.series("gauge", "kube_deployment_spec_replicas", named, counts, "")


def new_cluster() -> Cluster:
    """It has run for an hour and a half when the first day begins."""
    days = RUNS * MINUTES / 1440
    levels = random_generator(SEED).choice(LEVELS, size=(MODELS, int(days * 12) + 2))
    served = [
        Served(
            name=f"model-{index:02}",
            namespace=f"team-{index % 5}",
            phases=(Phase(replicas=2, per_s=float(levels[index, 0])),),
        )
        for index in range(MODELS)
    ]
    moment = Moment(at="2026-03-02T00:00:00+00:00", served=tuple(served))
    return Cluster(moment=moment, told_s=moment.at_s - 1.5 * HOUR_S, counts=[2] * MODELS, levels=levels)


def replayed_days(team: Team) -> dict[str, int]:
    """The pull requests of each whole day by a backtest, with the own rules, limits and time until a merge."""
    outcome = team.invoke("backtest", "--days", "90", "-q", "-o", "json")
    assert outcome.code == 0, outcome.err
    return {each["day"]: int(each["opened"]) for each in json.loads(outcome.out)["days"]}


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


def date_files(team: Team) -> None:
    """Files of pull requests were written at the team's time: one that we closed counts as closed then."""
    for path in (team.workshop.remote / "reconciler" / "pulls").glob("*.md"):
        if path.stat().st_mtime > team.now_s:
            os.utime(path, (team.now_s, team.now_s))


@dataclass(kw_only=True)
class Course:
    """What was seen of the runs so far."""

    codes: list[int] = field(default_factory=list)
    said: list[str] = field(default_factory=list)
    """By runs that failed."""
    measured: list[tuple[int, int, int]] = field(default_factory=list)
    peaks: list[int] = field(default_factory=list)
    """In bytes, of runs that had a process of their own."""
    merged: int = 0
    opened: Counter[str] = field(default_factory=Counter)
    """Pull requests by the day (UTC) on which they were opened."""
    rng: Any = field(default_factory=lambda: random_generator(SEED))

    def run(self, team: Team) -> None:
        """One more run, and perhaps somebody who merges."""
        before = len(team.pull_requests())
        outcome = team.run("-q")
        date_files(team)
        self.codes.append(outcome.code)
        self.said += [outcome.err] if outcome.code else []
        shown = team.pull_requests()
        self.opened[datetime.fromtimestamp(team.now_s, UTC).date().isoformat()] += len(shown) - before
        is_open = [each.number for each in shown if each.state == "open"]
        if is_open and self.rng.random() < 0.5:
            team.merge(is_open[0])
            self.merged += 1
        count = len(self.codes)
        if count >= WARM and count % MEASURED_EVERY == 0:
            self.measured.append(usage())
        if count in (WARM, RUNS):
            self.peaks.append(peak_of_a_run(team))


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mallinfo2"), reason="what is allocated is counted by glibc 2.33")
def test_nothing_fails_grows_or_is_left_behind(tmp_path: Path, record_property: Callable[[str, object], None]) -> None:
    cluster, course = new_cluster(), Course()
    forkserver.ensure_running()
    *_, others = usage()  # servers of other tests that this process runs
    rules, settings = ["{name: all, approval: {}}"], [(DEFAULTS, SETTINGS)]
    restarts = range(0, RUNS, RESTART_EVERY)
    (tmp_path / "blocks").mkdir()
    with temporary_files(tmp_path / "temporary") as temporary:
        with at_work(cluster.moment, "", tmp_path / "team", rules=rules, settings=settings) as team:
            team.patch.setattr(Clock, "now_s", lambda _clock: team.now_s)
            team.patch.setattr("reconciler.cli.backtest.time", SimpleNamespace(time=lambda: team.now_s))
            for first in restarts:
                with serve_blocks(tmp_path / "blocks", tmp_path) as team.prometheus:
                    for number in range(first, min(first + RESTART_EVERY, RUNS)):
                        team.go_back(cluster.moment.at_s + 60.0 * MINUTES * (number + 1))
                        cluster.tell(team, team.now_s)
                        course.run(team)
                    replayed = replayed_days(team) if number == RUNS - 1 and RUNS * MINUTES >= 1440 else {}
            stays_small(team)
        assert not list(temporary.iterdir())
    assert set(course.codes) == {0}, course.said[:3]
    kept, descriptors, children = zip(*course.measured, strict=True)
    assert max(descriptors) - min(descriptors) <= 2
    assert max(children) <= others + 1, "no child but Prometheus"
    kept_a_run = statistics.median(later - sooner for sooner, later in pairwise(kept)) / MEASURED_EVERY
    opened, told = course.opened.total(), [f"{RUNS} runs", f"{len(restarts)} restarts of Prometheus"]
    told.append(f"{opened} pull requests, {course.merged} merged")
    told.append(f"a run's memory {course.peaks[0] / MIB:.0f} MiB, then {course.peaks[-1] / MIB:.0f}")
    told.append(f"kept {kept_a_run / 1024:+.0f} KiB a run, {(kept[-1] - kept[0]) / MIB:+.1f} MiB")
    told.append(f"{descriptors[-1] - descriptors[0]:+d} descriptors")
    of_days = {day: course.opened[day] for day in replayed}
    if replayed:
        told.append(f"{sum(of_days.values())} of {len(replayed)} whole days, {sum(replayed.values())} by a backtest")
    record_property(SOAK, " | ".join(told))
    assert kept_a_run < MOST_KEPT_A_RUN
    assert kept[-1] - kept[0] < MOST_KEPT
    assert course.peaks[-1] - course.peaks[0] < MOST_GROWTH + course.merged * MOST_OF_A_PULL_REQUEST
    assert course.merged
    assert not replayed or abs(sum(of_days.values()) / sum(replayed.values()) - 1) < TOLERANCE, (of_days, replayed)
