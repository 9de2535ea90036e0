"""Past arrivals in a real Prometheus: a peak half an hour ago keeps a replica, a constant load keeps none too many."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from reconciler.domain.settings import Identity
from reconciler.git.repository import create_bare
from tests.servers.fleet import run_here
from tests.servers.prometheus import ABSENT, History, prometheus_over, vllm_replica

pytestmark = [pytest.mark.integration, pytest.mark.skipif(bool(ABSENT), reason=ABSENT)]

END_S = 1_790_000_000.0
STEP_S = 15.0
ANN = Identity(name="Ann", email="ann@example.com")
NAMES = ("spiked", "constant", "completed")
SETTINGS = """\
apiVersion: reconciler.io/v1alpha1
kind: Configuration
clusters: [{name: prod, paths: {include: ["prod/**"]}}]
accelerators: [{name: H100, costPerHour: 6.88}]
policies: []
serviceClasses: [{name: standard, itl: 60ms}]
defaults: {serviceClass: standard}
models:
"""
PROFILE = "- {id: org/NAME, profiles: [{accelerator: H100, alpha: 7ms, beta: 0.04ms, maxBatchSize: 64}]}\n"
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
  replicas: 3
  selector: {matchLabels: {app: NAME}}
  template:
    metadata: {labels: {app: NAME}}
    spec: {containers: [{name: vllm, image: vllm, resources: {limits: {nvidia.com/gpu: "1"}}}]}
"""


def written() -> History:
    """Three replicas each that finish 40 requests a second; one model was asked for 80 for ten minutes."""
    history = History(end_s=END_S, step_s=STEP_S)
    for name in NAMES:
        for index in range(3):
            labels = {"namespace": "llm", "pod": f"{name}-5d4c8b7f9-bcdf{index + 4}", "model_name": f"org/{name}"}
            vllm_replica(
                history, labels, per_s=40.0 / 3, running=19.0, itl_s=0.00774, wait_s=0.001, ttft_s=0.01, since_s=4200.0
            )
    for name, peak_per_s in (("spiked", 80.0), ("constant", 40.0)):
        labels = {"namespace": "llm", "model_name": f"org/{name}", "target_model_name": f"org/{name}", "job": "epp"}
        points, total = [], 0.0
        for step in range(int(4200 / STEP_S)):
            age_s = 4200 - step * STEP_S
            points.append((END_S - age_s, total))
            total += STEP_S * (peak_per_s if 1800 <= age_s < 2400 else 40.0)
        history.series("counter", "inference_objective_request", labels, points, "_total")
    return history


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with prometheus_over(written(), tmp_path_factory.mktemp("prometheus")) as base:
        yield base


@dataclass(frozen=True, slots=True, kw_only=True)
class Clock:
    """Stands for module `time` in a command."""

    def time(self) -> float:
        """Unix seconds."""
        return END_S


Command = Callable[..., Any]


@pytest.fixture
def command(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Command:
    """Runs a command on all workloads and reads its JSON."""
    monkeypatch.setattr("reconciler.cli.plan.time", Clock())

    def run(*arguments: str, settings: str = "") -> Any:
        manifests = {f"prod/{name}.yaml": WORKLOAD.replace("NAME", name).encode() for name in NAMES}
        configuration = SETTINGS + "".join(PROFILE.replace("NAME", name) for name in NAMES) + settings
        files = {"reconciler.yaml": configuration.encode(), **manifests}
        repository = tmp_path / "fleet.git"
        create_bare(repository, branch="main", files=files, message="Run models", author=ANN, date_s=int(END_S - 7200))
        outcome = run_here([*arguments, "--repo", str(repository), "--prometheus", url, "-o", "json"])
        assert (outcome.code, outcome.err) == (0, "")
        return json.loads(outcome.out)

    return run


def desired(plan: Any) -> dict[str, int]:
    decisions = [each for group in plan["groups"] for each in group["decisions"]]
    return {each["variant"]["name"]: each["desired"]["replicas"] for each in decisions}


def test_a_peak_within_payback_keeps_a_replica(command: Command) -> None:
    assert desired(command("plan")) == {"completed": 2, "constant": 2, "spiked": 3}


def test_a_peak_before_payback_keeps_none(command: Command) -> None:
    assert desired(command("plan", settings="overrides: [{match: {name: spiked}, payback: 20m}]\n"))["spiked"] == 2


def test_explain_says_what_keeps_it_and_what_was_asked(command: Command) -> None:
    content = command("explain", "llm/spiked")
    steps = {each["stage"]: each for each in content["decision"]["steps"]}
    assert steps["variation"]["reason"].startswith("peak 80 req/s 30m ago in the last 1h; mean 4")
    assert steps["allocation"]["reason"] == "kept: 80 req/s were asked for 30m ago; payback 1h"
    figures = {each["name"]: (each["value"], each["queries"]) for each in content["figures"]}
    assert figures["peak of arrivals"] == (pytest.approx(80.0), ["past_arrivals_endpoint_picker"])
    assert "inference_objective_request_total" in content["queries"]["past_arrivals_endpoint_picker"]


def test_completions_over_time_are_added_up_over_replicas(command: Command) -> None:
    content = command("explain", "llm/completed")
    figures = {each["name"]: (each["value"], each["queries"]) for each in content["figures"]}
    assert figures["peak of arrivals"] == (pytest.approx(40.0, rel=0.01), ["past_completions", "past_queue_growth"])
    assert content["queries"]["past_completions"].startswith("sum by (namespace, model_name, unnamed_pod) (")
