"""Plays incidents to the whole program: one Prometheus remembers them all, each at a time of its own."""

import json
import subprocess
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from itertools import repeat
from pathlib import Path
from typing import Any

import pytest

from reconciler.domain.settings import Identity
from reconciler.git.repository import create_bare
from reconciler.http.messages import Clock as DoorClock
from tests.incidents.answers import spoiled
from tests.incidents.rows import Incident
from tests.incidents.stage import ALPHA_S, BETA_S, MAX_BATCH, Stage
from tests.servers.fleet import run_here
from tests.servers.prometheus import serve_blocks, write_blocks

BLOCK_H = 18
FIRST_S = 1_790_035_200.0
"""A time at which a block of Prometheus ends."""
APART_S = 2 * BLOCK_H * 3600.0
"""Nothing that is asked looks back for longer than a day: no incident sees another, and no two blocks overlap."""
ANN = Identity(name="Ann", email="ann@example.com")
SETTINGS = """\
apiVersion: reconciler.io/v1alpha1
kind: Configuration
clusters: [{name: prod, paths: {include: ["prod/**"]}}]
accelerators: [{name: H100, costPerHour: 6.88}]
policies: []
"""
QUEUEING = f"""\
serviceClasses: [{{name: standard, itl: 60ms}}]
defaults: {{serviceClass: standard}}
models:
- id: org/chat
  profiles: [{{accelerator: H100, alpha: {ALPHA_S * 1000:g}ms, beta: {BETA_S * 1000:g}ms, maxBatchSize: {MAX_BATCH}}}]
"""
WORKLOAD = """\
apiVersion: llmd.ai/v1alpha1
kind: VariantAutoscaling
metadata:
  name: chat
  namespace: llm
  labels: {inference.optimization/acceleratorName: H100}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: chat}
  modelID: org/chat
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: chat, namespace: llm}
spec:
  replicas: REPLICAS
  selector: {matchLabels: {app: chat}}
  template:
    metadata: {labels: {app: chat}}
    spec:
      containers: [{name: vllm, image: "vllm/vllm-openai:v0.11.0", resources: {limits: {nvidia.com/gpu: "1"}}}]
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Clock:
    """Stands for module `time` in a command."""

    now_s: float

    def time(self) -> float:
        """Unix seconds."""
        return self.now_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What the program makes of an incident: replicas, and the kind and words of what it tells, first things first."""

    after: int
    kind: str
    words: tuple[str, ...]

    def fault_of(self, incident: Incident) -> str:
        """What is wrong with it; empty when it is what the truth allows."""
        if self.after not in incident.allowed:
            return f"{incident.replicas} -> {self.after}, allowed is {_numbers(incident.allowed)}"
        if incident.holds and self.kind not in incident.holds:
            return f'told as "{self.kind}", expected is {" or ".join(incident.holds)}'
        if self.kind and not incident.may_hold:
            return f'held as "{self.kind}", and all is well'
        missing = [words for words in incident.told if not any(words in told for told in self.words)]
        if missing:
            return f'does not tell "{missing[0]}"'
        return ""

    def row_of(self, incident: Incident) -> str:
        """A line of the table that the gate prints."""
        truth = _numbers(incident.allowed) + (f", {' or '.join(incident.holds)}" if incident.holds else "")
        verdict = "WRONG: " if self.fault_of(incident) else ""
        kind = f"[{self.kind}] " if self.kind else ""
        moved = f"{incident.replicas} -> {self.after}"
        return f"{incident.name} | {moved} | {truth} | {verdict}{kind}{self.words[0] if self.words else ''}"


@contextmanager
def remembered(incidents: Sequence[Incident], directory: Path) -> Iterator[str]:
    """The base URL of one Prometheus that remembers all of them."""
    blocks = directory / "blocks"
    with ThreadPoolExecutor() as pool:
        list(pool.map(_write, range(len(incidents)), incidents, repeat(blocks)))
    with serve_blocks(blocks, directory) as url:
        yield url


def play(incident: Incident, number: int, prometheus: str, folder: Path) -> Outcome:
    """Plan for a small repository at the time of the incident."""
    now_s = _now_s(number)
    settings = SETTINGS + (QUEUEING if incident.engine == "queueing" else "") + incident.settings
    files = {
        "reconciler.yaml": settings.encode(),
        "prod/chat.yaml": WORKLOAD.replace("REPLICAS", str(incident.replicas)).encode(),
    }
    repository = folder / "fleet.git"
    create_bare(repository, branch="main", files=files, message="Run", author=ANN, date_s=int(now_s - 7 * 86400))
    between = nullcontext(prometheus) if incident.answers is None else spoiled(prometheus, incident.answers)
    with pytest.MonkeyPatch.context() as patch, between as url:
        patch.setattr("reconciler.cli.plan.time", Clock(now_s=now_s))
        patch.setattr(DoorClock, "sleep", lambda _clock, _seconds: None)
        outcome = run_here(["plan", "--repo", str(repository), "--prometheus", url, "-o", "json"])
    if (outcome.code or outcome.err) and incident.answers is None:
        raise subprocess.CalledProcessError(outcome.code, "plan", outcome.out, outcome.err)
    return _told(json.loads(outcome.out), incident)


def _told(plan: Any, incident: Incident) -> Outcome:
    decision = next(each for group in plan["groups"] for each in group["decisions"])
    hold = decision["hold"] or decision["wait"] or {}
    steps = [step["reason"] for step in reversed(decision["steps"])]
    notes = [hold.get("words", ""), decision["reason"], *plan["notes"], *plan["warnings"], *steps]
    after = decision["desired"]["replicas"] if decision["outcome"] != "held" else incident.replicas
    words = tuple(dict.fromkeys(each for each in notes if each not in ("", "needs approval")))
    return Outcome(after=after, kind=hold.get("kind", ""), words=words)


def _now_s(number: int) -> float:
    return FIRST_S + number * APART_S - 60.0


def _write(number: int, incident: Incident, blocks: Path) -> None:
    end_s, source = _now_s(number), blocks.parent / f"{number}.om"
    if incident.life is not None:
        lived = incident.life.history(
            end_s, incident.name, has_gateway=incident.has_gateway, replicas=incident.replicas
        )
        write_blocks(lived, source, blocks, BLOCK_H)
        return
    stage = Stage(
        incident.name,
        incident.replicas,
        has_gateway=incident.has_gateway,
        has_kube_state_metrics=incident.has_kube_state_metrics,
    )
    incident.play(stage)
    write_blocks(stage.history(end_s), source, blocks)


def _numbers(allowed: Sequence[int]) -> str:
    return " or ".join(map(str, allowed))
