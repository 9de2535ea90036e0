"""Two weeks in a real Prometheus, and replicas for the load that is forecast from them."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from reconciler.domain.settings import Identity
from reconciler.git.repository import create_bare
from tests.bench.loads import DAY_S, START_S, smooth
from tests.servers.fleet import run_here
from tests.servers.prometheus import ABSENT, History, Points, prometheus_over, vllm_replica

pytestmark = [pytest.mark.integration, pytest.mark.skipif(bool(ABSENT), reason=ABSENT)]

NOW_S = START_S + 14 * DAY_S + 9 * 3600 + 140.0
"""Monday, 09:02 UTC: loads rise, and the grid of the history ended two minutes ago."""
SCRAPED_S, FINE_S = 120.0, 4200.0
ROLLED_OUT_S = 2 * DAY_S
OUTAGE_S = START_S + 5 * DAY_S, START_S + 5 * DAY_S + 6 * 3600
"""Prometheus was down."""
PER_REPLICA = 15.0
ANN = Identity(name="Ann", email="ann@example.com")
PICKED, FINISHED = ("picked-0", "picked-1", "picked-2"), ("finished-0", "finished-1", "finished-2")
NAMES = (*PICKED, *FINISHED)
SETTINGS = """\
apiVersion: reconciler.io/v1alpha1
kind: Configuration
clusters: [{name: prod, paths: {include: ["prod/**"]}}]
accelerators: [{name: H100, costPerHour: 6.88}]
policies: []
serviceClasses: [{name: standard, itl: 60ms}]
defaults: {serviceClass: standard, actuationDelay: {merge: 10m, sync: 3m, start: 6m}}
models:
"""
PROFILE = "- {id: org/NAME, profiles: [{accelerator: H100, alpha: 20ms, beta: 0.1ms, maxBatchSize: 64}]}\n"
WORKLOAD = """\
apiVersion: llmd.ai/v1alpha1
kind: VariantAutoscaling
metadata:
  name: NAME
  namespace: llm
  labels: {inference.optimization/acceleratorName: H100}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: NAME}
  modelID: org/NAME
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: NAME, namespace: llm}
spec:
  replicas: REPLICAS
  selector: {matchLabels: {app: NAME}}
  template:
    metadata: {labels: {app: NAME}}
    spec: {containers: [{name: vllm, image: vllm, resources: {limits: {nvidia.com/gpu: "1"}}}]}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Offered:
    """What arrives at the models, and with how many replicas they were left."""

    per_s: Any
    replicas: tuple[int, ...]

    @classmethod
    def made(cls) -> "Offered":
        per_s = smooth(models=len(NAMES), days=15, step_s=SCRAPED_S).per_s * PER_REPLICA / 2.0
        now = per_s[:, int((NOW_S - START_S) // SCRAPED_S)]
        return cls(per_s=per_s, replicas=tuple(int(each) for each in np.ceil(now / PER_REPLICA)))

    def counted(self, number: int, since_s: float, until_s: float) -> Points:
        """A counter of one model that begins at a moment."""
        first, last = (round((at_s - START_S) / SCRAPED_S) for at_s in (since_s, until_s))
        total = np.concatenate(([0.0], np.cumsum(self.per_s[number, first:last] * SCRAPED_S)))
        at_s = START_S + SCRAPED_S * np.arange(first, last + 1)
        is_up = (at_s < OUTAGE_S[0]) | (at_s >= OUTAGE_S[1])
        return [(float(at), float(value)) for at, value in zip(at_s[is_up], total[is_up], strict=True)]


def written(offered: Offered, kept_s: float = 15 * DAY_S) -> History:
    """What is kept of two weeks: counters, of pods that are replaced every two days; of the last hour all."""
    start_s = max(START_S, NOW_S - kept_s)
    start_s -= (start_s - START_S) % SCRAPED_S
    history = History(end_s=NOW_S)
    fine_s = NOW_S - FINE_S
    for number, name in enumerate(NAMES):
        now = float(offered.per_s[number, int((NOW_S - START_S) // SCRAPED_S)])
        if name in PICKED:
            labels = {"namespace": "llm", "model_name": f"org/{name}", "target_model_name": f"org/{name}", "job": "epp"}
            points = offered.counted(number, start_s, NOW_S)
            history.series("counter", "inference_objective_request", labels, points, "_total")
        else:
            for generation, since_s in enumerate(np.arange(start_s, fine_s, ROLLED_OUT_S)):
                pod = f"{name}-5d4c8b7f{generation}-bcdf4"
                points = offered.counted(number, since_s, min(since_s + ROLLED_OUT_S, fine_s))
                labels = {"namespace": "llm", "pod": pod, "model_name": f"org/{name}", "finished_reason": "stop"}
                history.series("counter", "vllm:request_success", labels, points, "_total")
        for index in range(offered.replicas[number]):
            labels = {"namespace": "llm", "pod": f"{name}-5d4c8b7f9-cdfg{index + 4}", "model_name": f"org/{name}"}
            share = now / offered.replicas[number]
            running = share * 180 * 0.0216
            vllm_replica(
                history, labels, per_s=share, running=running, itl_s=0.0216, wait_s=0.001, ttft_s=0.05, since_s=FINE_S
            )
    return history


@pytest.fixture(scope="module")
def offered() -> Offered:
    return Offered.made()


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory, offered: Offered) -> Iterator[str]:
    with prometheus_over(written(offered), tmp_path_factory.mktemp("prometheus"), days=15) as base:
        yield base


@dataclass(frozen=True, slots=True, kw_only=True)
class Clock:
    """Stands for module `time` in a command."""

    def time(self) -> float:
        """Unix seconds."""
        return NOW_S


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """Runs a command on all workloads."""

    repository: Path

    def __call__(self, url: str, *arguments: str) -> str:
        """What it prints."""
        outcome = run_here([*arguments, "--repo", str(self.repository), "--prometheus", url])
        assert outcome.code == 0, outcome.err
        return outcome.out

    @property
    def opened(self) -> str:
        """The text of the first pull request."""
        return (self.repository / "reconciler" / "pulls" / "1.md").read_text(encoding="utf-8")


@pytest.fixture
def command(offered: Offered, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Command:
    monkeypatch.setattr("reconciler.cli.plan.time", Clock())
    monkeypatch.setattr("reconciler.cli.run.time", Clock())
    files = {"reconciler.yaml": (SETTINGS + "".join(PROFILE.replace("NAME", name) for name in NAMES)).encode()}
    for name, replicas in zip(NAMES, offered.replicas, strict=True):
        manifest = WORKLOAD.replace("NAME", name).replace("REPLICAS", str(replicas))
        files[f"prod/{name}.yaml"] = manifest.encode()
    repository = tmp_path / "fleet.git"
    create_bare(repository, branch="main", files=files, message="Run models", author=ANN, date_s=int(NOW_S - DAY_S))
    return Command(repository=repository)


EXPECTED = re.compile(
    r"load expected between 09:12 and 09:32 UTC: at most ([0-9.]+) req/s nine times in ten "
    r"\(half of the time ([0-9.]+)-([0-9.]+); one in a hundred above ([0-9.]+)\), from 14 days; times ([0-9.]+) "
    r"for 99 % inside the targets; moved by "
)


def test_replicas_are_for_the_load_that_is_expected_and_every_command_says_so(url: str, command: Command) -> None:
    planned = command(url, "plan")
    assert "Demand of 6 of 6 models is the load expected between 09:12 and 09:32 UTC, from 14 days." in planned
    assert "▲ llm/picked-0 " in planned
    for name in ("picked-0", "finished-0"):
        found = EXPECTED.search(command(url, "explain", f"llm/{name}"))
        assert found is not None, name
        most, low, high, rare, margin = map(float, found.groups())
        assert low < high < most < rare
        assert 0.9 <= margin <= 1.3
    shown = command(url, "explain", "llm/picked-0", "-v")
    below = re.search(r"below 90 % quantile +([0-9.]+) % +of its loads in the last 5 days, forecast from", shown)
    assert below is not None, shown
    assert 75 < float(below[1]) <= 100


def test_what_is_expected_comes_and_is_carried(url: str, offered: Offered, command: Command) -> None:
    assert "created: prod/llm" in command(url, "run")
    changed = len(EXPECTED.findall(command.opened))
    assert changed >= 4
    assert "the load expected between 09:12 and 09:32 UTC is half of the time " in command.opened  # below the chart
    first, last = (int((NOW_S + minutes * 60 - START_S) // SCRAPED_S) for minutes in (10, 30))
    will_be = offered.per_s[:, first:last].max(axis=1)
    carried = [float(each) for each in re.findall(r"variant capacity ([0-9.]+) req/s", command.opened)]
    assert len(carried) == changed
    names = re.findall(r"▲ `([a-z0-9-]+)`", command.opened)
    needed = sum(float(will_be[NAMES.index(name)]) for name in names)
    assert 0.98 * needed < sum(carried) < 1.3 * needed


def test_a_prometheus_that_keeps_two_days_leaves_the_load_of_now_to_decide(
    offered: Offered, command: Command, tmp_path_factory: pytest.TempPathFactory
) -> None:
    history = written(offered, kept_s=2 * DAY_S)
    with prometheus_over(history, tmp_path_factory.mktemp("short"), days=15) as short:
        shown = command(short, "explain", "llm/picked-0", "-v")
    assert "load and 20 % headroom" in shown
    assert re.search(r"forecast +\? +\d+% of the last 14 days are not known", shown), shown
