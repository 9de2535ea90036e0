"""Live replicas in a real Prometheus: what stays away from Git for the sync delay is held, and nothing else."""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from reconciler.domain.settings import Identity
from reconciler.git.repository import create_bare
from tests.servers.fleet import run_here
from tests.servers.prometheus import ABSENT, History, Points, prometheus_over, vllm_replica

pytestmark = [pytest.mark.integration, pytest.mark.skipif(bool(ABSENT), reason=ABSENT)]

END_S = 1_790_000_000.0
HOUR_S = 3600.0
ANN = Identity(name="Ann", email="ann@example.com")
SETTINGS = """\
apiVersion: reconciler.io/v1alpha1
kind: Configuration
clusters: [{name: prod, paths: {include: ["prod/**"]}}]
accelerators: [{name: H100, costPerHour: 6.88}]
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
  scaleTargetRef: {apiVersion: apps/v1, kind: KIND, name: NAME}
  modelID: org/NAME
---
apiVersion: apps/v1
kind: KIND
metadata: {name: NAME, namespace: llm}
spec:
  replicas: 2
  selector: {matchLabels: {app: NAME}}
  template:
    metadata: {labels: {app: NAME}}
    spec: {containers: [{name: vllm, image: vllm, resources: {limits: {nvidia.com/gpu: "1"}}}]}
"""
LINE = 15
"""Where a workload says how many replicas it has."""
KINDS = {
    "away": "Deployment",
    "set-away": "StatefulSet",
    "to-zero": "Deployment",
    "lately": "Deployment",
    "back": "Deployment",
    "equal": "Deployment",
    "stale": "Deployment",
    "contested": "Deployment",
    "restarted": "Deployment",
    "absent": "Deployment",
    "nan": "Deployment",
}
HELD = ("away", "restarted", "set-away", "to-zero")


def counts(*parts: tuple[float, float], until_s: float = 0.0, offset_s: float = 4.0) -> Points:
    """Samples every 30 s: each part is a count and the age (seconds before the end) at which it begins."""
    ages = [offset_s + 30.0 * index for index in range(40)]
    return sorted(
        (END_S - age_s, next(count for count, since_s in reversed(parts) if age_s <= since_s))
        for age_s in ages
        if until_s <= age_s <= parts[0][1]
    )


def written() -> History:
    """Engines that all say the same, and kube-state-metrics that does not; another namespace has the same names."""
    history = History(end_s=END_S)
    for name, kind in KINDS.items():
        of_kind = "{}-{}" if kind == "StatefulSet" else "{}-5d4c8b7f9-bcdf{}"
        for pod in (of_kind.format(name, index) for index in (4, 5)):
            vllm_replica(history, {"namespace": "llm", "pod": pod, "model_name": f"org/{name}"}, per_s=20.0)
    told: dict[str, Sequence[tuple[str, Points]]] = {
        "away": [("ksm-0", counts((5.0, 1200.0)))],
        "to-zero": [("ksm-0", counts((2.0, 1200.0), (0.0, 250.0)))],
        "lately": [("ksm-0", counts((2.0, 1200.0), (5.0, 100.0)))],
        "back": [("ksm-0", counts((5.0, 1200.0), (2.0, 100.0), (5.0, 60.0)))],
        "equal": [("ksm-0", counts((2.0, 1200.0)))],
        "stale": [("ksm-0", counts((5.0, 1200.0), until_s=130.0))],
        "contested": [("ksm-0", counts((5.0, 1200.0))), ("ksm-1", counts((2.0, 1200.0)))],
        "restarted": [("ksm-0", counts((5.0, 1200.0), until_s=90.0)), ("ksm-1", counts((5.0, 60.0)))],
        "nan": [("ksm-0", counts((float("nan"), 1200.0)))],
    }
    for name, series in told.items():
        for instance, points in series:
            labels = {"namespace": "llm", "deployment": name, "instance": instance}
            history.series("gauge", "kube_deployment_spec_replicas", labels, points, "")
    elsewhere = {"namespace": "other", "deployment": "equal", "instance": "ksm-0"}
    history.series("gauge", "kube_deployment_spec_replicas", elsewhere, counts((9.0, 1200.0)), "")
    of_set = {"namespace": "llm", "statefulset": "set-away", "instance": "ksm-0"}
    history.series("gauge", "kube_statefulset_replicas", of_set, counts((1.0, 1200.0)), "")
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
    """Runs a command on all workloads, in a commit of some age (s), and reads its JSON."""
    monkeypatch.setattr("reconciler.cli.plan.time", Clock())

    def run(*arguments: str, age_s: float = HOUR_S, settings: str = "") -> Any:
        manifests = {
            f"prod/{name}.yaml": WORKLOAD.replace("NAME", name).replace("KIND", kind).encode()
            for name, kind in KINDS.items()
        }
        configuration = SETTINGS + "".join(PROFILE.replace("NAME", name) for name in KINDS) + settings
        files = {"reconciler.yaml": configuration.encode(), **manifests}
        repository = tmp_path / "fleet.git"
        create_bare(repository, branch="main", files=files, message="Run models", author=ANN, date_s=int(END_S - age_s))
        outcome = run_here([*arguments, "--repo", str(repository), "--prometheus", url, "-o", "json"])
        assert (outcome.code, outcome.err) == (0, "")
        return json.loads(outcome.out)

    return run


def held_in(plan: Any) -> dict[str, str]:
    decisions = [each for group in plan["groups"] for each in group["decisions"]]
    assert len(decisions) == len(KINDS)
    return {each["variant"]["name"]: each["reason"] for each in decisions if each["outcome"] == "held"}


def test_what_is_away_for_the_sync_delay_is_held_and_nothing_else(command: Command) -> None:
    held = held_in(command("plan"))
    assert tuple(sorted(held)) == HELD
    assert held["away"].startswith(
        f"spec.replicas of Deployment llm/away is 5 in the cluster and 2 in Git (prod/away.yaml:{LINE}), "
        "for longer than the sync delay of 3m (built-in): something that is not in Git sets it"
    )
    assert held["to-zero"].startswith("spec.replicas of Deployment llm/to-zero is 0 in the cluster and 2 in Git")
    assert held["set-away"].startswith("spec.replicas of StatefulSet llm/set-away is 1 in the cluster and 2 in Git")


def test_a_commit_that_may_not_have_arrived_holds_nothing(command: Command) -> None:
    assert held_in(command("plan", age_s=240.0)) == {}


def test_a_longer_delay_waits_longer(command: Command) -> None:
    settings = "overrides: [{match: {name: to-zero}, actuationDelay: {sync: 5m}}]\n"
    assert tuple(sorted(held_in(command("plan", settings=settings)))) == ("away", "restarted", "set-away")


def test_explain_shows_the_query_and_both_numbers(command: Command) -> None:
    content = command("explain", "llm/away")
    figures = {each["name"]: (each["value"], each["queries"]) for each in content["figures"]}
    assert figures["replicas in the cluster"] == (5.0, ["live_replicas"])
    assert figures["replicas in Git"] == (2, [])
    assert "kube_deployment_spec_replicas" in content["queries"]["live_replicas"]
