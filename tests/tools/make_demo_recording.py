"""Makes the recordings of the demo and its families: their fleets in a real Prometheus, observed by the real client.

    python -m tests.tools.make_demo_recording [FOLDER]

The same code gives the same answers: counters are whole numbers of a fixed schedule, nothing is drawn, and each pod
is scraped at its own fixed second, off the edges of every window.
"""

import hashlib
import json
import sys
import tempfile
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise
from pathlib import Path

from reconciler.cli import sample as demo
from reconciler.config.environment import Environment, Flags
from reconciler.domain.answers import Answer, AnswerStatus, HeldBody, Query
from reconciler.domain.recording import Recording
from reconciler.domain.settings import ClusterSettings, PrometheusSettings
from reconciler.pipeline.observe import observe
from reconciler.pipeline.recording import write_recording
from reconciler.pipeline.session import open_session
from tests.servers.examples import EXAMPLES, history_of_example
from tests.servers.prometheus import ABSENT, History, prometheus_over

CHECKED_IN = Path(demo.__file__).parent / "demo_data" / demo.RECORDING
NOW_S = 1_768_485_900.0
"""2026-01-15 14:05 UTC."""
HOUR_S = 3600.0
STEP_S, COARSE_STEP_S = 15.0, 60.0
"""How often a pod is scraped in the last two hours, and before them, where no window is shorter than minutes."""
CLIMB_S = 2700.0
"""So long the load climbs in the last hour; for its last quarter it stays, so that no window sees it move."""
DAY = (95, 100, 100, 95, 90, 85, 80, 70, 60, 50, 45, 40, 35, 35, 35, 40, 45, 55, 70, 80, 90, 95, 95, 95, 100)
"""The load at the edges of the 24 hours before, in percent of where the last hour begins."""
BEFORE_S = (len(DAY) - 1) * HOUR_S
KV_CACHE = {"block_size": "16", "num_gpu_blocks": "7200"}
"""Of every replica: memory for 115,200 tokens."""
SAFE = "bcdfghjklmnpqrstvwxz2456789"
"""What Kubernetes spells generated names with."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """How fast a replica runs: an iteration takes alpha + beta times the batch."""

    alpha_s: float
    beta_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """The replicas of one variant and what they do.

    `per_s` are requests a second of one replica now, `start` the part of it an hour ago, at the end of a day. Batch and
    gap between tokens follow from the profile by Little's law. `silent_s`: since when no replica reports. `kv_usage`
    (0-1) of the cache is full, and `waiting` requests have no place in the batch, at the present load.
    """

    namespace: str
    name: str
    model: str
    replicas: int
    per_s: float
    profile: Profile
    input_tokens: int
    output_tokens: int
    wait_s: float = 0.002
    prefill_s: float = 0.06
    start: float = 0.9
    silent_s: float = 0.0
    is_labelled: bool = True
    kv_usage: float = 0.4
    waiting: int = 0

    @property
    def itl_s(self) -> float:
        """The gap between tokens that carries this rate: alpha / (1 - rate * tokens * beta)."""
        return self.profile.alpha_s / (1 - self.per_s * self.output_tokens * self.profile.beta_s)

    @property
    def running(self) -> float:
        """Requests in a replica's batch."""
        return self.per_s * self.output_tokens * self.itl_s

    def intensity(self, elapsed_s: float) -> float:
        """The part of the present load that long after the beginning."""
        return _stretch_at(self.start, elapsed_s).intensity(elapsed_s)

    def requests(self, elapsed_s: float) -> float:
        """Requests that one replica finished since the beginning."""
        return self.per_s * _stretch_at(self.start, elapsed_s).done(elapsed_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """A part of the day in which the load follows a line, from one part of the present load to another.

    `done_before` is what one replica of one request a second finished until it begins.
    """

    from_s: float
    to_s: float
    before: float
    after: float
    done_before: float

    def intensity(self, elapsed_s: float) -> float:
        """The part of the present load then."""
        return self.before + (self.after - self.before) * (elapsed_s - self.from_s) / (self.to_s - self.from_s)

    def done(self, elapsed_s: float) -> float:
        """What such a replica finished until then."""
        return self.done_before + (self.before + self.intensity(elapsed_s)) / 2 * (elapsed_s - self.from_s)


@cache
def _course(start: float) -> tuple[Stretch, ...]:
    """The day and the last hour of a fleet."""
    day = tuple((hour * HOUR_S, start * percent / 100) for hour, percent in enumerate(DAY))
    edges = (*day, (BEFORE_S + CLIMB_S, 1.0), (BEFORE_S + HOUR_S, 1.0))
    stretches: list[Stretch] = []
    done = 0.0
    for (from_s, before), (to_s, after) in pairwise(edges):
        stretches.append(Stretch(from_s=from_s, to_s=to_s, before=before, after=after, done_before=done))
        done = stretches[-1].done(to_s)
    return tuple(stretches)


def _stretch_at(start: float, elapsed_s: float) -> Stretch:
    return _course(start)[bisect_left(_course(start), elapsed_s, key=lambda each: each.to_s)]


LLAMA_H100 = Profile(alpha_s=0.006958, beta_s=0.000042)
LLAMA_A100 = Profile(alpha_s=0.01169, beta_s=0.000071)
LLAMA_L40S = Profile(alpha_s=0.022619, beta_s=0.000181)
GRANITE_A100 = Profile(alpha_s=0.02058, beta_s=0.00041)
QWEN_L4 = Profile(alpha_s=0.048, beta_s=0.0009)
MIXTRAL_2XH100 = Profile(alpha_s=0.0142, beta_s=0.00011)
NEMO_A100 = Profile(alpha_s=0.0163, beta_s=0.000118)
STARCODER_L40S = Profile(alpha_s=0.0281, beta_s=0.00031)

FLEETS = (
    Fleet(
        namespace="chat", name="llama-8b", model="llama-3.1-8b", replicas=3, per_s=44.7, profile=LLAMA_H100,
        input_tokens=740, output_tokens=320, start=0.6,
    ),
    Fleet(
        namespace="chat", name="llama-8b-a100", model="llama-3.1-8b", replicas=4, per_s=14.95, profile=LLAMA_A100,
        input_tokens=740, output_tokens=320, start=0.6,
    ),
    Fleet(
        namespace="chat", name="granite-13b", model="granite-13b", replicas=7, per_s=1.63, profile=GRANITE_A100,
        input_tokens=1180, output_tokens=350,
    ),
    Fleet(
        namespace="chat", name="nemo-12b", model="mistral-nemo-12b", replicas=2, per_s=8.5, profile=NEMO_A100,
        input_tokens=860, output_tokens=280, prefill_s=0.11, kv_usage=0.6,
    ),
    Fleet(
        namespace="code", name="starcoder2-15b", model="starcoder2-15b", replicas=2, per_s=2.1, profile=STARCODER_L40S,
        input_tokens=1900, output_tokens=240, wait_s=1.8, kv_usage=0.91, waiting=3,
    ),
    Fleet(
        namespace="code", name="qwen-7b", model="qwen2.5-7b", replicas=4, per_s=0.525, profile=QWEN_L4,
        input_tokens=980, output_tokens=220, start=1.0,
    ),
    Fleet(
        namespace="code", name="llama-8b", model="llama-3.1-8b", replicas=2, per_s=7.9, profile=LLAMA_L40S,
        input_tokens=1420, output_tokens=160, is_labelled=False,
    ),
    Fleet(
        namespace="code", name="granite-13b", model="granite-13b", replicas=2, per_s=1.1, profile=GRANITE_A100,
        input_tokens=1180, output_tokens=350,
    ),
    Fleet(
        namespace="batch", name="llama-8b-nightly", model="llama-3.1-8b", replicas=3, per_s=3.0, profile=LLAMA_L40S,
        input_tokens=2650, output_tokens=500, wait_s=0.4, prefill_s=0.6,
    ),
    Fleet(
        namespace="batch", name="qwen-7b", model="qwen2.5-7b", replicas=2, per_s=0.3, profile=QWEN_L4,
        input_tokens=900, output_tokens=120, silent_s=660.0, is_labelled=False,
    ),
    Fleet(
        namespace="batch", name="mixtral-8x7b", model="mixtral-8x7b", replicas=2, per_s=6.0, profile=MIXTRAL_2XH100,
        input_tokens=6100, output_tokens=400, prefill_s=0.28,
    ),
)  # fmt: skip


def make_recording(directory: Path, family: str = "") -> Recording:
    """What the client observes of a sample repository and its fleet; files live in the empty `directory`."""
    demo.create_sample(directory / demo.REPOSITORY, family)
    history = history_of_example(family, NOW_S) if family else History(end_s=NOW_S, step_s=STEP_S)
    for fleet in FLEETS if not family else ():
        write_fleet(history, fleet)
    (directory / "prometheus").mkdir()
    with (
        prometheus_over(history, directory / "prometheus") as url,
        open_session(Flags(repo=str(directory / demo.REPOSITORY)), Environment(), writes=True) as session,
    ):

        def ask(cluster: ClusterSettings, queries: Sequence[Query]) -> tuple[Answer, ...]:
            answers = session.doors.ask(replace(cluster, prometheus=PrometheusSettings(url=url)), queries)
            return tuple(map(_in_order, answers))

        observed = observe(replace(session.doors, ask=ask), session.settings, NOW_S, demo.REPOSITORY_NAME)
    return observed.recording


def _in_order(answer: Answer) -> Answer:
    """The same series sorted: Prometheus answers in no order, and the file should not change with each making."""
    if answer.status is AnswerStatus.FAILED:
        raise RuntimeError(answer.reason)
    document = json.loads(answer.body.read())
    document["data"]["result"].sort(key=lambda entry: sorted(entry["metric"].items()))
    return replace(answer, body=HeldBody(content=json.dumps(document, separators=(",", ":")).encode()))


def write_fleet(history: History, fleet: Fleet) -> None:
    """Every series of one variant: of its ReplicaSet, its pods, and the engine in each."""
    replicaset = f"{fleet.name}-{_letters(fleet.namespace, fleet.name, count=10)}"
    owned = {"namespace": fleet.namespace, "job": "kube-state-metrics"}
    pods = [f"{replicaset}-{_letters(replicaset, str(index), count=5)}" for index in range(fleet.replicas)]
    labels = {**owned, "replicaset": replicaset, "owner_kind": "Deployment", "owner_name": fleet.name}
    _gauge(history, "kube_replicaset_owner", labels, 0.0, lambda _: 1.0)
    deployment = {**owned, "deployment": fleet.name}
    for metric in ("kube_deployment_status_replicas_ready", "kube_deployment_spec_replicas"):
        _gauge(history, metric, deployment, 0.0, lambda _: float(fleet.replicas))
    for pod in pods:
        owner = {**owned, "pod": pod, "owner_kind": "ReplicaSet", "owner_name": replicaset}
        _gauge(history, "kube_pod_owner", owner, 0.0, lambda _: 1.0)
        variant = {"label_llm_d_ai_variant": fleet.name} if fleet.is_labelled else {}
        _gauge(
            history, "kube_pod_labels", {**owned, "pod": pod, "label_app": fleet.name, **variant}, 0.0, lambda _: 1.0
        )
        _write_engine(history, fleet, pod)


def _write_engine(history: History, fleet: Fleet, pod: str) -> None:
    """What one vLLM replica exports of what is asked for."""
    labels = {"namespace": fleet.namespace, "pod": pod, "job": "vllm", "engine": "0", "model_name": fleet.model}
    silent_s, requests = fleet.silent_s, fleet.requests

    def count(elapsed_s: float) -> float:
        return float(int(requests(elapsed_s)))

    success = "vllm:request_success"
    _counter(history, success, {**labels, "finished_reason": "stop"}, silent_s, count)
    _counter(history, success, {**labels, "finished_reason": "abort"}, silent_s, lambda _: 0.0)
    _gauge(
        history, "vllm:num_requests_running", labels, silent_s, lambda at: round(fleet.running * fleet.intensity(at))
    )
    _gauge(
        history, "vllm:num_requests_waiting", labels, silent_s, lambda at: round(fleet.waiting * fleet.intensity(at))
    )
    _gauge(history, "vllm:kv_cache_usage_perc", labels, silent_s, lambda at: fleet.kv_usage * fleet.intensity(at))
    config = {name: value for name, value in labels.items() if name != "model_name"}
    _gauge(history, "vllm:cache_config_info", {**config, **KV_CACHE}, silent_s, lambda _: 1.0)
    for histogram, mean, per_request in (
        ("vllm:request_prompt_tokens", fleet.input_tokens, 1),
        ("vllm:request_generation_tokens", fleet.output_tokens, 1),
        ("vllm:request_queue_time_seconds", fleet.wait_s, 1),
        ("vllm:time_to_first_token_seconds", fleet.wait_s + fleet.prefill_s, 1),
        ("vllm:inter_token_latency_seconds", fleet.itl_s, fleet.output_tokens - 1),
    ):
        _histogram(history, histogram, labels, silent_s, count, float(mean), per_request)


def _histogram(
    history: History,
    metric: str,
    labels: Mapping[str, str],
    silent_s: float,
    count: Callable[[float], float],
    mean: float,
    per_request: int,
) -> None:
    """Its `_count` and `_sum`; no buckets, since none is asked for."""
    counted = [(at_s, value * per_request) for at_s, value in _points(labels, silent_s, count)]
    history.series("histogram", metric, labels, counted, "_count")
    history.series("histogram", metric, labels, [(at_s, round(value * mean, 3)) for at_s, value in counted], "_sum")


def _counter(
    history: History, metric: str, labels: Mapping[str, str], silent_s: float, value: Callable[[float], float]
) -> None:
    history.series("counter", metric, labels, list(_points(labels, silent_s, value)), "_total")


def _gauge(
    history: History, metric: str, labels: Mapping[str, str], silent_s: float, value: Callable[[float], float]
) -> None:
    history.series("gauge", metric, labels, list(_points(labels, silent_s, value)), "")


def _points(
    labels: Mapping[str, str], silent_s: float, value: Callable[[float], float]
) -> Iterator[tuple[float, float]]:
    """One sample every step, at the pod's own second of it, until it fell silent."""
    offset_s = 1.0 + int(_digest(labels.get("pod", "")), 16) % int(STEP_S - 1)
    coarse = int((BEFORE_S - HOUR_S) / COARSE_STEP_S)
    steps = [step * COARSE_STEP_S for step in range(coarse)]
    steps += [BEFORE_S - HOUR_S + step * STEP_S for step in range(int((2 * HOUR_S - silent_s) / STEP_S))]
    for elapsed_s in (each_s + offset_s for each_s in steps):
        yield NOW_S - BEFORE_S - HOUR_S + elapsed_s, float(value(elapsed_s))


def _letters(*words: str, count: int) -> str:
    """A generated-looking suffix that is always the same."""
    number = int(_digest("/".join(words)), 16)
    return "".join(SAFE[number // len(SAFE) ** place % len(SAFE)] for place in range(count))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def main(arguments: Sequence[str]) -> int:
    """Write the recordings into the given folder, or in place of those that come with the package."""
    if ABSENT:
        sys.stderr.write(f"error: {ABSENT}\n")
        return 1
    for family in ("", *demo.families()):
        target = EXAMPLES / f"{family}.zip" if family else CHECKED_IN
        if arguments:
            target = Path(arguments[0]) / target.name
        with tempfile.TemporaryDirectory() as directory:
            write_recording(make_recording(Path(directory), family), target)
        sys.stdout.write(f"{target}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
