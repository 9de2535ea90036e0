"""Autoscalers tuned on seven days in a real Prometheus, from `init` to the merged change; and twenty that are held.

What is held has a history that is faked, a metric that is misread, or an autoscaler that somebody changes by hand.
"""

import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest

from reconciler.decision.scaler_settings import declared_setting
from reconciler.domain.records import replace
from reconciler.domain.scalers import MetricKind, ResolvedMetric, Signal
from reconciler.domain.settings import Identity
from reconciler.git.repository import create_bare
from reconciler.manifests.documents import parse_documents
from reconciler.resources.declaration import merge
from reconciler.resources.reading import read_file
from reconciler.simulation import fleet as simulation
from reconciler.simulation.autoscalers.hpa import Controller, Tolerance, proposal_of_value
from reconciler.simulation.autoscalers.port import Autoscaler, Seen
from reconciler.tuning.trial import autoscaler_of
from tests.servers.fleet import run_here
from tests.servers.git_workshop import Workshop, empty_workshop, run_git
from tests.servers.prometheus import ABSENT, History, prometheus_over, vllm_replica

pytestmark = [pytest.mark.integration, pytest.mark.skipif(bool(ABSENT), reason=ABSENT)]

DAY_S, STEP_S = 86_400.0, 60.0
START_S = 1_767_571_200.0
"""Monday, 5 January 2026."""
DAYS = 7
NOW_S = START_S + DAYS * DAY_S + 10 * 3600.0
FINE_S = 1500.0
LASTS_S = 240.0
"""So long a gauge that does not change goes without a sample; after 300 s it would be gone."""
ANN = Identity(name="Ann", email="ann@example.com")
REQUEST_S = 180 * 0.0235
"""How long a request runs, so many are running for each that arrives in a second."""
CARRIED_PER_S = 31.0
"""What a replica carries inside the targets of its class, nearly."""
SETTINGS = """\
apiVersion: reconciler.io/v1alpha1
kind: Configuration
runInterval: 1d
clusters: [{name: prod, paths: {include: ["prod/**"]}}]
accelerators: [{name: H100, costPerHour: 6.88}]
policies: []
serviceClasses: [{name: standard, itl: 60ms, attainment: "98%"}]
defaults: {serviceClass: standard, actuationDelay: {sync: 1m, start: 4m}}
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
      metric: {name: METRIC}
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
      query: QUERY
      threshold: "TARGET"
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


SERVING = """\
apiVersion: workload.serving.volcano.sh/v1alpha1
kind: ModelServing
metadata: {name: NAME, namespace: llm}
spec:
  template:
    roles:
    - name: server
      workerReplicas: 0
      entryTemplate:
        spec:
          nodeSelector: {nvidia.com/gpu.product: NVIDIA-H100-80GB-HBM3}
          containers:
          - name: vllm
            image: vllm/vllm-openai
            args: [--model, NAME]
            resources: {limits: {nvidia.com/gpu: "1"}}
---
apiVersion: workload.serving.volcano.sh/v1alpha1
kind: AutoscalingPolicy
metadata: {name: NAME, namespace: llm}
spec:
  metrics:
  - {name: load, targetValue: 30}
  homogeneousTarget:
    minReplicas: 1
    maxReplicas: 40
    target:
      targetRef: {kind: ModelServing, name: NAME}
      metricSources:
        load: {pod: {name: "vllm:num_requests_running"}}
"""


RUNNING = 'sum(vllm:num_requests_running{model_name="NAME"})'
ARRIVALS = 'sum(rate(vllm:request_success_total{model_name="NAME"}[2m]))'


def hpa(metric: str = "vllm_num_requests_running") -> str:
    """An HPA by a metric of the custom metrics API."""
    return DEPLOYMENT + HPA.replace("METRIC", metric)


def keda(query: str = RUNNING, target: str = "30") -> str:
    """A ScaledObject by a query of its own."""
    return DEPLOYMENT + SCALED_OBJECT.replace("QUERY", query).replace("TARGET", target)


Change = Callable[[np.ndarray, np.ndarray], np.ndarray]
"""Another history, from times (Unix seconds) and what it would be."""


def same(_: np.ndarray, values: np.ndarray) -> np.ndarray:
    """What it would be."""
    return values


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """An autoscaler by its manifest, with the running requests and its replicas that Prometheus has; why it is held."""

    held: str = ""
    manifest: str = field(default_factory=hpa)
    running: Change = same
    replicas: Change = same
    renamed: str = "vllm:num_requests_running"
    pods: int = 1
    is_recorded: bool = True
    bounds: tuple[int, int] = (1, 40)


OFF = r"its autoscaler is not reproduced: the simulated number was within one replica of it in \d+%"
SHORT = r"its autoscaler is not reproduced: it was between its bounds for 0.0 h"
MIDDAY_S = START_S + DAYS / 2 * DAY_S
TUNED = {
    "adapter": Case(),
    "keda": Case(manifest=keda(ARRIVALS, "6")),
    "kserve": Case(manifest=SERVICE),
}
BY_HAND = {
    "more-by-the-hour": Case(held=OFF, replicas=lambda at, each: np.where(at % 7200.0 < 3600.0, each + 5, each)),
    "set-and-left": Case(held=OFF, replicas=lambda at, each: np.where(at > MIDDAY_S, 9.0, each)),
    "another-target": Case(held=OFF, replicas=lambda at, each: np.where(at > MIDDAY_S, np.ceil(0.6 * each), each)),
    "by-schedule": Case(
        held=OFF, replicas=lambda at, each: np.where(at % DAY_S < 6 * 3600.0, np.maximum(each, 9.0), each)
    ),
    "another-maximum": Case(held=OFF, replicas=lambda _, each: np.minimum(each, 6.0)),
    "another-minimum": Case(held=OFF, replicas=lambda _, each: np.maximum(each, 10.0)),
}
FAKED = {
    "never-moved": Case(
        held="its autoscaler is not reproduced: it changed its number 0 times", replicas=lambda _, each: 0 * each + 8.0
    ),
    "backwards": Case(held=OFF, replicas=lambda _, each: each[::-1]),
    "frozen": Case(held=OFF, running=lambda _, each: 0 * each + each[0]),
    "zero": Case(held=OFF, running=lambda _, each: 0 * each),
    "negative": Case(held=SHORT, running=lambda _, each: -each),
    "scraped-twice": Case(held=OFF, pods=2),
}
MISREAD = {
    "in-two-minutes": Case(held=OFF, manifest=keda(ARRIVALS.replace("rate", "increase"), "6")),
    "all-models": Case(held=OFF, manifest=keda("sum(vllm:num_requests_running)")),
    "another-model": Case(held=OFF, manifest=keda('sum(vllm:num_requests_running{model_name="frozen"})')),
    "in-a-mean": Case(held=OFF, manifest=keda('avg(vllm:num_requests_running{model_name="NAME"}) / 3')),
    "renamed": Case(held="its query has no series: was the metric renamed", renamed="vllm:num_requests_active"),
    "several-series": Case(
        held="its query has several series, which KEDA refuses",
        manifest=keda(RUNNING.removeprefix("sum(")[:-1]),
        pods=2,
    ),
    "a-total": Case(
        held="vllm_num_requests_running has a target of type Value, which is a total",
        manifest=hpa().replace("type: AverageValue, averageValue", "type: Value, value"),
    ),
    "not-whole": Case(held="its own query is not asked: .* is not closed", manifest=keda(RUNNING[:-1])),
    "no-rule": Case(held="the query behind metric vllm_requests is not known", manifest=hpa("vllm_requests")),
    "unrecorded": Case(
        held="no kube-state-metrics reports the replicas that HorizontalPodAutoscaler", is_recorded=False
    ),
}
HELD = BY_HAND | FAKED | MISREAD
BOUNDED = {
    "floored": Case(bounds=(6, 40)),
    "capped": Case(manifest=keda(ARRIVALS, "6"), bounds=(1, 5)),
}
KTHENA = {
    "scraped": Case(manifest=SERVING),
    "by-hand": Case(manifest=SERVING, replicas=lambda at, each: np.where(at > MIDDAY_S, 9.0, each)),
}
SHARED = {name: Case(manifest=keda(ARRIVALS, "6"), bounds=(1, 5)) for name in ("one", "two")}
CASES = TUNED | {"honest": Case()} | HELD | BOUNDED | KTHENA | SHARED
NAMES = tuple(CASES)


def loads() -> np.ndarray:
    """Requests a second by model and minute, in steps of ten minutes: a day's cycle, and noise."""
    steps = int((DAYS * DAY_S + 10 * 3600.0) / STEP_S)
    hours = np.arange(steps // 10) / 6.0
    cycle = 60.0 + 45.0 * np.sin((hours - 8.0) / 24.0 * 2 * np.pi)
    generator = np.random.default_rng(7)  # noqa: TID251 - a test
    return np.repeat(cycle * (1.0 + generator.normal(0.0, 0.07, (len(NAMES), hours.size))), 10, axis=1)


def autoscaled(totals: np.ndarray, targets: np.ndarray) -> np.ndarray:
    """What HPAs without a behavior ask for, shape (models, minutes), that sync twice a minute."""
    least, most = np.array([each.bounds for each in CASES.values()], dtype=np.float64).T
    controller, current = Controller(least=least, most=most, sync_s=30.0), np.ones((1, len(totals)))
    found = np.empty(totals.shape)
    for step in range(2 * totals.shape[1]):
        value = 1000.0 * totals[np.newaxis, :, step // 2]
        raw = proposal_of_value(MetricKind.EXTERNAL_AVERAGE, value, 1000.0 * targets, current, current, Tolerance())
        current = controller.settle(raw, current)
        found[:, step // 2] = current[0]
    return found


def followed(totals: np.ndarray, target: float) -> np.ndarray:
    """What Kthena asks for by a metric that it scrapes, with the behavior of its webhook; pods are ready at once."""
    recent, past, found, current = list[float](), list[float](), np.empty(totals.shape), 1.0
    for step in range(4 * totals.size):
        share = totals[step // 4] / target
        wanted = current if abs(share - 1.0) <= 0.1 else min(max(np.ceil(share), 1.0), 40.0)
        least = min([current, *past[-4:]])
        after = max([wanted, *recent[-20:]]) if wanted < current else min(wanted, least + max(4.0, least))
        after = min(after, current) if wanted < current else max(after, current)
        recent, past = [*recent[-20:], wanted], [*past[-4:], after]
        current = found[step // 4] = after
    return found


def groups(history: History, name: str, times_s: np.ndarray, replicas: np.ndarray) -> None:
    """The pods of a ModelServing as kube-state-metrics has them: those that go are marked as long as they are seen."""
    for index in range(int(replicas.max())):
        labels = {"namespace": "llm", "pod": f"{name}-{index}-server-0-0"}
        there = replicas > index
        went = np.convolve(there, np.ones(7), "full")[: there.size].astype(bool) & ~there
        for metric, more in (("kube_pod_info", {}), ("kube_pod_status_ready", {"condition": "true"})):
            history.series("gauge", metric, labels | more, [(at, 1.0) for at in times_s[there].tolist()], "")
        gone = [(at, at) for at in times_s[went].tolist()]
        if gone:
            history.series("gauge", "kube_pod_deletion_timestamp", labels, gone, "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Clock:
    """Stands for module `time` in a command."""

    def time(self) -> float:
        """Unix seconds."""
        return NOW_S


def steady(times_s: np.ndarray, values: np.ndarray) -> list[tuple[float, float]]:
    """A gauge with a sample where it changes, and every four minutes."""
    is_told = (np.diff(values, prepend=np.nan) != 0) | (times_s % LASTS_S < STEP_S)
    return list(zip(times_s[is_told].tolist(), values[is_told].tolist(), strict=True))


def written() -> History:
    """Seven days of counters and gauges of one pod each, and the present of all replicas."""
    history, per_s = History(end_s=NOW_S, step_s=60.0), loads()
    times_s = START_S + STEP_S * (np.arange(per_s.shape[1]) + 1)
    past = times_s < NOW_S - FINE_S
    by_rate = np.array([[ARRIVALS.replace("NAME", name) in case.manifest.replace("NAME", name)]
                        for name, case in CASES.items()])  # fmt: skip
    honest = autoscaled(np.where(by_rate, per_s, per_s * REQUEST_S), np.where(by_rate[:, 0], 6.0, 30.0))
    for row, (name, case) in enumerate(CASES.items()):
        is_kthena = "ModelServing" in case.manifest
        if is_kthena:
            honest[row] = followed(per_s[row] * REQUEST_S, 30.0)
        running, replicas = case.running(times_s, per_s[row] * REQUEST_S), case.replicas(times_s, honest[row])
        pods = f"{name}-predictor" if name == "kserve" else name
        first = f"{name}-0-server-1-0" if is_kthena else f"{pods}-5d4c8b7f98-bcdf4"
        labels = {"namespace": "llm", "pod": first, "model_name": name}
        count = np.cumsum(per_s[row] * STEP_S)
        finished = list(zip(times_s[past].tolist(), count[past].tolist(), strict=True))
        history.series("counter", "vllm:request_success", {**labels, "finished_reason": "stop"}, finished, "_total")
        for number in range(case.pods):
            scraped = {**labels, "pod": first if is_kthena else first[:-1] + "45"[number]}
            history.series("gauge", case.renamed, scraped, steady(times_s[past], running[past]), "")
        is_keda = "ScaledObject" in case.manifest or name == "kserve"
        scaled = {"namespace": "llm", "horizontalpodautoscaler": f"keda-hpa-{pods}" if is_keda else name}
        if is_kthena:
            groups(history, name, times_s, replicas)
        for count_of in ("desired", "current") if case.is_recorded and not is_kthena else ():
            metric = f"kube_horizontalpodautoscaler_status_{count_of}_replicas"
            history.series("gauge", metric, scaled, steady(times_s, replicas), "")
        serving = int(honest[row, -1])
        for index in range(serving):
            pod = f"{pods}-5d4c8b7f98-{'bcdfghjklmnpqrstvwxz'[index % 20]}{index // 20 + 2}xyz"
            pod = f"{name}-{index}-server-0-0" if is_kthena else pod
            vllm_replica(
                history,
                {"namespace": "llm", "pod": pod, "model_name": name},
                per_s=float(per_s[row, -1]) / serving,
                running=float(per_s[row, -1]) * REQUEST_S / serving,
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


@pytest.fixture(autouse=True)
def now(monkeypatch: pytest.MonkeyPatch) -> None:
    for command in ("init", "plan", "run"):
        monkeypatch.setattr(f"reconciler.cli.{command}.time", Clock())


def manifest_of(name: str, case: Case) -> str:
    """Its manifest, with its name and bounds."""
    text = case.manifest.replace("NAME", name)
    for field_name, number in zip(("min", "max"), case.bounds, strict=True):
        text = re.sub(f"({field_name}Replica(?:s|Count)): [0-9]+", rf"\g<1>: {number}", text)
    return text


def files(cases: dict[str, Case], more: str = "") -> dict[str, bytes]:
    """A repository of some of them, in which nothing is managed yet."""
    found = {"reconciler.yaml": SETTINGS + "".join(PROFILE.replace("NAME", name) for name in cases) + more}
    found |= {f"prod/{name}.yaml": manifest_of(name, case) for name, case in cases.items()}
    found["prod/adapter-config.yaml"] = ADAPTER
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


def adopted(workshop: Workshop, url: str) -> None:
    """A person lets `init` find what there is to manage, reads it, and pushes it."""
    for path, body in files(TUNED).items():
        workshop.write(path, body)
    workshop.commit()
    outcome = run_here(["init", "--adopt", "--repo", str(workshop.clone), "--prometheus", url])
    assert outcome.code == 0, outcome.err
    workshop.commit()


def test_three_autoscalers_from_init_to_the_merged_change_and_back(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    workshop = empty_workshop(tmp_path)
    monkeypatch.setenv("GIT_COMMITTER_DATE", f"{int(NOW_S - DAYS * DAY_S)} +0000")
    adopted(workshop, url)
    monkeypatch.delenv("GIT_COMMITTER_DATE")
    fleet = Fleet(repository=workshop.remote, url=url)
    assert fleet.file("reconciler.yaml").count("whenAutoscaled: tune") == 3

    ran = fleet("run")
    assert "Tuning these 3 autoscalers would save " in ran
    text = fleet.pull_request.read_text(encoding="utf-8")
    assert "Tune the autoscaler of adapter and 2 more" in text
    assert len(re.findall(r"on your last \d days: −\d+ % cost, attainment .+; on the \d days it was not", text)) == 3
    assert "Replicas on one day" in text
    assert "| `target` of `vllm_num_requests_running` | 30 |" in text
    for never in ("Proven", "at least", "? → ?", " 0.00 USD/h"):
        assert never not in text, never
    assert "would get more than it carries" not in text  # the lower bound is not what serves

    fleet.merge(3600.0)
    written = {
        "adapter": (r'averageValue: "(\d+)"', 30),
        "keda": (r'threshold: "(\d+)"', 6),
        "kserve": (r'averageValue: "(\d+)"', 30),
    }
    for name, (pattern, before) in written.items():
        (target,) = re.findall(pattern, fleet.file(f"prod/{name}.yaml"))
        assert int(target) > before, name  # what ran was a third full
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


MANAGED = (
    "workloads: [{match: {namespace: llm}, managed: true, accelerator: H100, whenAutoscaled: tune}]\n"
    "overrides: [{match: {namespace: llm}, whenAutoscaled: tune}]\n"
)


def managed(repository: Path, url: str, cases: dict[str, Case], pools: bytes = b"") -> Fleet:
    """A repository of some of them that are tuned, as it was at the beginning of their history."""
    date_s, found = int(NOW_S - DAYS * DAY_S), files(cases, MANAGED)
    found["reconciler.yaml"] = found["reconciler.yaml"].replace(b"{name: prod, ", b"{name: prod, " + pools)
    create_bare(repository, branch="main", files=found, message="Run", author=ANN, date_s=date_s)
    return Fleet(repository=repository, url=url)


def test_bounds_that_cost_or_bind_move_with_the_rest_and_back(url: str, tmp_path: Path) -> None:
    fleet = managed(tmp_path / "fleet.git", url, BOUNDED)
    ran = fleet("run")
    text = fleet.pull_request.read_text(encoding="utf-8")
    assert "Tuning these 2 autoscalers would save " in ran
    assert re.search(r"\| `minimum` \| 6 \| \*\*2\*\* \|", text), text
    (most,) = re.findall(r"\| `maximum` \| 5 \| \*\*([0-9]+)\*\* \|", text)
    fleet.merge(3600.0)
    assert "minReplicas: 2\n  maxReplicas: 40\n" in fleet.file("prod/floored.yaml")
    assert f"minReplicaCount: 1\n  maxReplicaCount: {most}\n" in fleet.file("prod/capped.yaml")

    # The fleet still runs what the old bounds gave it: what was promised is not what ran.
    fleet.merged(2 * DAY_S)
    back = fleet("run")
    assert len(re.findall(r"goes back to what it had before pull request #1 tuned it: simulated with", back)) >= 1, back
    text = (fleet.repository / "reconciler" / "pulls" / "2.md").read_text(encoding="utf-8")
    assert re.search(r"\| `minimum` \| 2 \| \*\*6\*\* \|", text), text


def test_a_pool_that_is_too_small_leaves_a_maximum_as_it_is_and_says_so(url: str, tmp_path: Path) -> None:
    small = b"pools: [{name: h100, device: H100, devices: 5}], "
    fleet = managed(tmp_path / "fleet.git", url, {"capped": BOUNDED["capped"]}, small)
    fleet("run")
    text = fleet.pull_request.read_text(encoding="utf-8")
    assert "takes a maximum of 6, but pool prod/h100 has room for 5" in text
    assert "| `maximum` |" not in text


class Asked:
    """An autoscaler, and what it asked for at each step."""

    reproduces = "another one"

    def __init__(self, scaler: Autoscaler) -> None:
        self.scaler, self.replicas = scaler, list[float]()

    def decide(self, seen: Seen) -> np.ndarray:
        """As the port says."""
        wanted = self.scaler.decide(seen)
        self.replicas.append(float(wanted[0, 0]))
        return wanted


def asked_on_a_day(manifest: str, per_s: np.ndarray, most: float | None = None) -> np.ndarray:
    """The replicas that the ScaledObject of a manifest asks for, minute by minute, while its fleet serves a load."""
    owners = merge([read_file("prod", "a.yaml", parse_documents("a.yaml", manifest.encode()))]).owners
    (declared,) = (each.scaler for each in owners if each.scaler is not None)
    setting = declared_setting(declared, ResolvedMetric(promql="", signal=Signal.ARRIVALS, source=""))
    assert setting is not None
    share = replace(setting.metrics[0], target=float(setting.metrics[0].target) / CARRIED_PER_S)
    setting = replace(setting, metrics=(share,), most=setting.most if most is None else most)
    scaler = Asked(autoscaler_of(setting, ["load"], STEP_S))
    fleet = simulation.Fleet(
        start_s=0.0,
        step_s=STEP_S,
        offered_per_s=per_s[np.newaxis],
        model_of=np.zeros(1, dtype=np.int64),
        capacity_per_s=np.array([CARRIED_PER_S]),
        weight=np.ones(1),
        start_steps=np.full((1, per_s.size), 4),
    )
    simulation.simulate(fleet, scaler, np.ones((1, 1)), np.zeros(per_s.size, dtype=np.int64))
    return np.array(scaler.replicas)


def test_two_that_share_a_pool_never_ask_for_more_than_it_has(url: str, tmp_path: Path) -> None:
    """Each alone may have six of the eleven; on a day with half as much again nothing waits for a device."""
    pool = b"pools: [{name: h100, device: H100, devices: 11}], "
    fleet = managed(tmp_path / "fleet.git", url, SHARED, pool)
    fleet("run")
    text = fleet.pull_request.read_text(encoding="utf-8")
    assert re.findall(r"\| `maximum` \| 5 \| \*\*(\d+)\*\* \|", text) == ["6"], text
    limit = (
        r"proposed: the largest .* takes a maximum of 6, but pool prod/h100 has room for 5 beside what others may take"
    )
    assert len(re.findall(limit, text)) == 1, text
    fleet.merge(3600.0)
    surge = 1.5 * loads()[:, -round(DAY_S / STEP_S) :]
    days = [(fleet.file(f"prod/{name}.yaml"), surge[NAMES.index(name)]) for name in SHARED]
    assert np.max(np.sum([asked_on_a_day(*day) for day in days], axis=0)) == 11
    alone = np.sum([asked_on_a_day(*day, most=6) for day in days], axis=0)
    assert np.max(alone) == 12, "with what each was given alone one waits"


def test_a_policy_of_kthena_is_tuned_by_the_groups_of_pods_that_were_there(url: str, tmp_path: Path) -> None:
    """Its controller publishes no number of its own; one that somebody sets by hand is another than it asks for."""
    fleet = managed(tmp_path / "fleet.git", url, KTHENA)
    ran = fleet("run")
    assert re.search(rf"llm/by-hand +{OFF}", ran), ran
    text = fleet.pull_request.read_text(encoding="utf-8")
    assert re.search(r"on your last \d days: −\d+ % cost", text), text
    fleet.merge(3600.0)
    manifest = fleet.file("prod/scraped.yaml")
    (target,) = re.findall(r"targetValue: (\d+)", manifest)
    assert int(target) > 30  # what ran was a third full
    assert '      stabilizationWindow: "' in manifest
    assert "a setting was changed by #1 1h ago" in fleet("plan")


@pytest.fixture(scope="module")
def planned(url: str, tmp_path_factory: pytest.TempPathFactory) -> str:
    """What a plan says of all cases, and of one whose history is its own."""
    fleet = managed(tmp_path_factory.mktemp("cases") / "fleet.git", url, {"honest": CASES["honest"], **HELD})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("reconciler.cli.plan.time", Clock())
        return fleet("plan")


@pytest.mark.parametrize("name", HELD)
def test_what_is_not_what_ran_is_held(planned: str, name: str) -> None:
    assert re.search(rf"^ +llm/{name} +{HELD[name].held}", planned, re.MULTILINE), planned


def test_of_all_cases_the_honest_one_is_tuned(planned: str) -> None:
    assert len(HELD) >= 20
    assert "Tuning this autoscaler would save" in planned
    assert re.findall(r"^   llm/(\S+): .*target of", planned, re.MULTILINE) == ["honest"], planned
