"""Same recording, same bytes: nothing is read but the recording, and of the snapshot the same plan is made."""

import builtins
import datetime as dt
import hashlib
import math
import os
import random
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any, NoReturn

import pytest

from reconciler.cli.sample import read_demo_recording
from reconciler.decision.decide import decide
from reconciler.domain.answers import HeldBody
from reconciler.domain.recording import Recording
from reconciler.domain.snapshot import Snapshot
from reconciler.snapshot.build import read_snapshot
from reconciler.snapshot.declarations import read_declaration

SCRIPT = Path(__file__).parent / "print_plan.py"


@pytest.fixture
def busy(fleet: Any, make: Any) -> Any:
    """Changes, a kept proposal, a shortfall, a held and an idle variant."""
    fleet.add("a", replicas=1, profiles=(make.profile("H100"), make.profile("A100"), make.profile("L4", 3)))
    fleet.add("b", model_id="qwen", replicas=9, annotations={"ignore": True})
    fleet.add("c", model_id="phi", replicas=9, max_replicas=1)
    fleet.add("d", model_id="idle", replicas=4)
    for model_id, rate in (("meta/llama-8b", 33.0), ("qwen", 5.0), ("phi", 50.0), ("idle", 0.0)):
        fleet.offer(rate, model_id)
    return fleet


@contextmanager
def nothing_outside(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Files, sockets, processes, clocks and chance are out of reach."""

    def refuse(*_: Any, **__: Any) -> NoReturn:
        raise AssertionError("deciding must not look outside")

    class NoClock(dt.datetime):
        now = utcnow = today = refuse

    with monkeypatch.context() as patch:
        patch.setattr(builtins, "open", refuse)
        patch.setattr(socket, "socket", refuse)
        patch.setattr(socket, "create_connection", refuse)
        patch.setattr(subprocess, "Popen", refuse)
        patch.setattr(dt, "datetime", NoClock)
        patch.setattr(os, "urandom", refuse)
        patch.setattr(random, "random", refuse)
        patch.setattr(os, "open", refuse)
        for clock in ("time", "time_ns", "monotonic", "perf_counter", "sleep", "localtime", "gmtime"):
            patch.setattr(time, clock, refuse)
        yield


def test_deciding_reads_no_clock_no_file_and_no_network(busy: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = repr(busy.plan())
    snapshot = busy.snapshot()
    with nothing_outside(monkeypatch):
        plan = decide(snapshot)
    assert repr(plan) == expected


def test_reading_a_snapshot_reads_nothing_but_the_recording(monkeypatch: pytest.MonkeyPatch) -> None:
    recording = in_memory(read_demo_recording())
    expected = repr(snapshot_of(recording))
    with nothing_outside(monkeypatch):
        snapshot = snapshot_of(recording)
    assert repr(snapshot) == expected


def in_memory(recording: Recording) -> Recording:
    answers = (replace(each, body=HeldBody(content=each.body.read())) for each in recording.answers)
    return replace(recording, answers=tuple(answers))


def snapshot_of(recording: Recording) -> Snapshot:
    declared = read_declaration(recording.manifests, recording.withheld, recording.settings, recording.paths)
    return read_snapshot(recording, declared, "0")


def test_deciding_twice_gives_the_same_plan(busy: Any) -> None:
    assert repr(busy.plan()) == repr(busy.plan())


def test_two_processes_with_other_hash_seeds_give_the_same_bytes() -> None:
    digests = {
        subprocess.run(
            [sys.executable, str(SCRIPT)],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
            text=True,
        ).stdout
        for seed in ("1", "2", "31337")
    }
    assert len(digests) == 1
    assert len(digests.pop().strip()) == len(hashlib.sha256().hexdigest())


def unrounded(value: object, path: str = "plan") -> Iterator[str]:
    """Where a plan has a float with more than ten significant digits."""
    if isinstance(value, float):
        if math.isfinite(value) and value != float(f"{value:.10g}"):
            yield f"{path}: {value!r}"
    elif is_dataclass(value):
        for each in fields(value):
            yield from unrounded(getattr(value, each.name), f"{path}.{each.name}")
    elif isinstance(value, Mapping):
        for key, each in value.items():
            yield from unrounded(each, f"{path}[{key}]")
    elif isinstance(value, tuple | list):
        for index, each in enumerate(value):
            yield from unrounded(each, f"{path}[{index}]")


def test_numbers_are_rounded_before_they_enter_the_plan(fleet: Any) -> None:
    fleet.price(H100=6.0, L4=1.0 / 3)
    fleet.stock(H100=7, L4=3)
    fleet.add("a", replicas=1, model_id="a")
    fleet.add("b", replicas=2, model_id="b")
    fleet.add("c", replicas=1, model_id="b", runs_on="L4")
    fleet.offer(100 / 3, "a")
    fleet.offer(200 / 7, "b")
    found = list(unrounded(replace(fleet.plan(), histories={}, figures={})))
    found = [each for each in found if ".load." not in each]  # as it was measured
    assert not found, "\n".join(found)
