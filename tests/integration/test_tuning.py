"""Autoscalers tuned on ten days in a real Prometheus: an HPA by the adapter's rules, KEDA, KServe; and what is held."""

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from reconciler.domain.scalers import MetricKind
from reconciler.domain.settings import Identity
from reconciler.git.repository import create_bare
from reconciler.simulation.autoscalers.hpa import Controller, Tolerance, proposal_of_value
from tests.servers.fleet import run_here
from tests.servers.git_workshop import run_git
from tests.servers.prometheus import ABSENT, History, prometheus_over, vllm_replica

pytestmark = [pytest.mark.integration, pytest.mark.skipif(bool(ABSENT), reason=ABSENT)]

DAY_S, STEP_S = 86_400.0, 60.0
START_S = 1_767_571_200.0
"""Monday, 5 January 2026."""
DAYS = 7
NOW_S = START_S + DAYS * DAY_S + 10 * 3600.0
FINE_S = 1500.0
ANN = Identity(name="Ann", email="ann@example.com")
HELD = {
    "by-hand": "its autoscaler is not reproduced: the simulated number was within one replica of it in ",
    "renamed": "its query has no series: was the metric renamed?",
    "unrecorded": "no kube-state-metrics reports the replicas that HorizontalPodAutoscaler llm/unrecorded asks for",
}
"""Somebody scales by hand, too; the metric has another name; nothing says what the autoscaler asked for."""
NAMES = ("adapter", "keda", "kserve", *HELD)
TARGETS = {"adapter": 30.0, "keda": 6.0, "kserve": 30.0, "by-hand": 30.0, "renamed": 30.0, "unrecorded": 30.0}
SETTINGS = """\
apiVersion: reconciler.io/v1alpha1
kind: Configuration
runInterval: 1d
clusters: [{name: prod, paths: {include: ["prod/**"]}}]
accelerators: [{name: H100, costPerHour: 6.88}]
policies: []
serviceClasses: [{name: standard, itl: 60ms, attainment: "98%"}]
workloads:
- {match: {namespace: llm}, managed: true, accelerator: H100}
defaults: {serviceClass: standard, whenAutoscaled: tune, actuationDelay: {sync: 1m, start: 4m}}
models:
"""
PROFILE = "- {id: NAME, profiles: [{accelerator: H100, alpha: 20ms, beta: 0.1ms, maxBatchSize: 256}]}\n"
DEPLOYMENT = """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: NAME, namespace: llm}
spec:
  selector: {matchLabels: {app: NAME}}
  template:
    metadata: {labels: {app: NAME}}
    spec:
      nodeSelector: {nvidia.com/gpu.product: NVIDIA-H100-80GB-HBM3}
      containers:
      - name: vllm
        image: vllm/vllm-openai
        args: [--model, NAME]
        resources: {limits: {nvidia.com/gpu: "1"}}
"""
HPA = """\
---
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: NAME, namespace: llm}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: NAME}
  minReplicas: 1
  maxReplicas: 40
  metrics:
  - type: Pods
    pods:
      metric: {name: vllm_num_requests_running}
      target: {type: AverageValue, averageValue: "30"}
"""
SCALED_OBJECT = """\
---
apiVersion: keda.sh/v1alpha1
kind: ScaledObject
metadata: {name: NAME, namespace: llm}
spec:
  scaleTargetRef: {name: NAME}
  minReplicaCount: 1
  maxReplicaCount: 40
  triggers:
  - type: prometheus
    metadata:
      serverAddress: http://elsewhere.example
      query: sum(rate(vllm:request_success_total{model_name="NAME"}[2m]))
      threshold: "6"
"""
SERVICE = """\
apiVersion: serving.kserve.io/v1beta1
kind: InferenceService
metadata:
  name: NAME
  namespace: llm
  annotations: {serving.kserve.io/deploymentMode: Standard, serving.kserve.io/autoscalerClass: keda}
spec:
  predictor:
    nodeSelector: {nvidia.com/gpu.product: NVIDIA-H100-80GB-HBM3}
    minReplicas: 1
    maxReplicas: 40
    containers:
    - name: kserve-container
      image: vllm/vllm-openai
      args: [--model, NAME]
      resources: {limits: {nvidia.com/gpu: "1"}}
    autoScaling:
      metrics:
      - type: External
        external:
          metric:
            backend: prometheus
            serverAddress: http://elsewhere.example
            query: sum(vllm:num_requests_running{model_name="NAME"})
          target: {type: AverageValue, averageValue: "30"}
"""
ADAPTER = """\
apiVersion: v1
kind: ConfigMap
metadata: {name: adapter-config, namespace: monitoring}
data:
  config.yaml: |
    rules:
    - seriesQuery: 'vllm:num_requests_running{namespace!="",pod!=""}'
      resources: {overrides: {namespace: {resource: namespace}, pod: {resource: pod}}}
      name: {matches: "^vllm:num_requests_running$", as: vllm_num_requests_running}
      metricsQuery: sum(<<.Series>>{<<.LabelMatchers>>}) by (<<.GroupBy>>)
"""


def loads() -> np.ndarray:
    """Requests a second by model and minute: a day's cycle, and noise that lasts for minutes."""
    steps = int((DAYS * DAY_S + 10 * 3600.0) / STEP_S)
    hours = np.arange(steps) * STEP_S / 3600.0
    cycle = 60.0 + 45.0 * np.sin((hours - 8.0) / 24.0 * 2 * np.pi)
    generator = np.random.default_rng(7)  # noqa: TID251 - a test
    noise = np.repeat(generator.normal(0.0, 0.07, (len(NAMES), steps // 10 + 1)), 10, axis=1)[:, :steps]
    return np.asarray(cycle * (1.0 + noise))


def autoscaled(totals: np.ndarray) -> np.ndarray:
    """What HPAs without a behavior ask for, shape (models, minutes), that sync twice a minute."""
    controller, current = Controller(least=1.0, most=40.0, sync_s=30.0), np.ones((1, len(NAMES)))
    found, targets = np.empty(totals.shape), 1000.0 * np.array([TARGETS[name] for name in NAMES])
    for step in range(2 * totals.shape[1]):
        value = 1000.0 * totals[np.newaxis, :, step // 2]
        raw = proposal_of_value(MetricKind.EXTERNAL_AVERAGE, value, targets, current, current, Tolerance())
        current = controller.settle(raw, current)
        found[:, step // 2] = current[0]
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Clock:
    """Stands for module `time` in a command."""

    def time(self) -> float:
        """Unix seconds."""
        return NOW_S


def written() -> History:
    """Ten days of counters and gauges of one pod each, and the present of all replicas."""
    history, per_s = History(end_s=NOW_S), loads()
    times_s = START_S + STEP_S * (np.arange(per_s.shape[1]) + 1)
    past = times_s < NOW_S - FINE_S
    running_of = per_s * 180 * 0.0235
    totals = np.where([[name == "keda"] for name in NAMES], per_s, running_of)
    desired_of = autoscaled(totals)
    for row, name in enumerate(NAMES):
        running, desired = running_of[row], desired_of[row]
        if name == "by-hand":
            desired = np.where(times_s % 7200.0 < 3600.0, desired + 5, desired)
        pods = f"{name}-predictor" if name == "kserve" else name
        labels = {"namespace": "llm", "pod": f"{pods}-5d4c8b7f98-bcdf4", "model_name": name}
        count = np.cumsum(per_s[row] * STEP_S)
        finished = list(zip(times_s[past].tolist(), count[past].tolist(), strict=True))
        history.series("counter", "vllm:request_success", {**labels, "finished_reason": "stop"}, finished, "_total")
        gauge = list(zip(times_s[past].tolist(), running[past].tolist(), strict=True))
        metric = "vllm:num_requests_running" if name != "renamed" else "vllm:num_requests_active"
        history.series("gauge", metric, labels, gauge, "")
        hpa = {"adapter": "adapter", "keda": "keda-hpa-keda", "kserve": "keda-hpa-kserve-predictor"}.get(name, name)
        for field in ("desired", "current") if name != "unrecorded" else ():
            points = list(zip(times_s.tolist(), desired.tolist(), strict=True))
            scaled = {"namespace": "llm", "horizontalpodautoscaler": hpa}
            history.series("gauge", f"kube_horizontalpodautoscaler_status_{field}_replicas", scaled, points, "")
        replicas = int(desired[-1])
        for index in range(replicas):
            pod = f"{pods}-5d4c8b7f98-{'bcdfghjklmnpqrstvwxz'[index % 20]}{index // 20 + 2}xyz"
            vllm_replica(
                history,
                {"namespace": "llm", "pod": pod, "model_name": name},
                per_s=float(per_s[row, -1]) / replicas,
                running=float(running[-1]) / replicas,
                itl_s=0.0235,
                wait_s=0.001,
                ttft_s=0.05,
                since_s=FINE_S - 60.0,
            )
    return history


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with prometheus_over(written(), tmp_path_factory.mktemp("prometheus"), days=15) as base:
        yield base


def files() -> dict[str, bytes]:
    """The repository."""
    found = {
        "reconciler.yaml": SETTINGS + "".join(PROFILE.replace("NAME", name) for name in NAMES),
        "prod/adapter-config.yaml": ADAPTER,
        "prod/kserve.yaml": SERVICE.replace("NAME", "kserve"),
        "prod/keda.yaml": (DEPLOYMENT + SCALED_OBJECT).replace("NAME", "keda"),
    }
    found |= {f"prod/{name}.yaml": (DEPLOYMENT + HPA).replace("NAME", name) for name in ("adapter", *HELD)}
    return {path: text.encode() for path, text in found.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """A bare repository on this machine, and commands on it."""

    repository: Path
    url: str

    def __call__(self, command: str) -> str:
        """What a command prints."""
        outcome = run_here([command, "--repo", str(self.repository), "--prometheus", self.url])
        assert outcome.code == 0, outcome.err
        return outcome.out

    @property
    def pull_request(self) -> Path:
        """The first pull request."""
        return self.repository / "reconciler" / "pulls" / "1.md"

    def merge(self, ago_s: float) -> None:
        """Merge it so long ago, as a forge does."""
        text = self.pull_request.read_text(encoding="utf-8")
        head = re.findall(r'^head: "(.+)"$', text, re.MULTILINE)[0]
        run_git(self.repository, "update-ref", "refs/heads/main", f"refs/heads/{head}")
        self.pull_request.write_text(text.replace("state: open", "state: merged", 1), encoding="utf-8")
        self.merged(ago_s)

    def merged(self, ago_s: float) -> None:
        """It was merged so long ago."""
        os.utime(self.pull_request, (NOW_S - ago_s, NOW_S - ago_s))

    def file(self, path: str) -> str:
        """A file of the base branch."""
        return run_git(self.repository, "show", f"main:{path}")


def test_three_autoscalers_are_tuned_to_the_merged_change_and_three_are_held(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for command in ("plan", "run"):
        monkeypatch.setattr(f"reconciler.cli.{command}.time", Clock())
    fleet = Fleet(repository=tmp_path / "fleet.git", url=url)
    create_bare(
        fleet.repository, branch="main", files=files(), message="Run", author=ANN, date_s=int(NOW_S - DAYS * DAY_S)
    )
    ran = fleet("run")
    assert "Tuning these 3 autoscalers would save " in ran
    for name, words in HELD.items():
        assert re.search(rf"^ +llm/{name} +{words}", ran, re.MULTILINE), ran
    text = fleet.pull_request.read_text(encoding="utf-8")
    assert "Tune the autoscaler of adapter and 2 more" in text
    assert len(re.findall(r"on your last \d days: −\d+ % cost, attainment .+; on the \d days it was not", text)) == 3
    assert "Replicas on one day" in text
    assert "would get more than it carries" not in text  # the lower bound is not what serves

    fleet.merge(3600.0)
    written = {
        "adapter": r'averageValue: "(\d+)"',
        "keda": r'threshold: "(\d+)"',
        "kserve": r'averageValue: "(\d+)"',
    }
    for name, pattern in written.items():
        (target,) = re.findall(pattern, fleet.file(f"prod/{name}.yaml"))
        assert int(target) > TARGETS[name], name  # what ran was a third full
    assert "serverAddress: http://elsewhere.example" in fleet.file("prod/keda.yaml")
    settled = fleet("plan")
    assert settled.count("a setting was changed by #1 1h ago: one change a week where nothing is broken") == 1
    assert "3 variants" in settled

    # Two days later the fleet still asks for what the old setting asks for: the promise is scored, and does not hold.
    fleet.merged(2 * DAY_S)
    back = fleet("run")
    assert len(re.findall(r"goes back to what it had before pull request #1 tuned it: simulated with", back)) >= 1, back
    outcome = fleet.pull_request.read_text(encoding="utf-8")
    scored = r"simulated on 1 whole day since the merge: -\d+ % cost, attainment .+ %, but simulated with its present"
    assert re.search(scored.replace(" %, but", r" % \(-\d+ % and [\d.]+ % promised\), but"), outcome), outcome
