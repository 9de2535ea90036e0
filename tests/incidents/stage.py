"""The stage of an incident: a calm model on replicas sized well, whose series a row changes before it is played."""

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from tests.servers.prometheus import History

STEP_S = 30.0
SPAN_S = 4800.0
"""What Prometheus remembers of a model: its `payback` of an hour, the window before it, and a rest."""
DAY_S = 86_400.0
COUNT = int(SPAN_S / STEP_S) + 1
NAMESPACE, MODEL = "llm", "org/chat"
ALPHA_S, BETA_S, MAX_BATCH = 0.007, 0.00004, 64
OUTPUT_TOKENS, INPUT_TOKENS = 180.0, 512.0
MOST_PER_S = MAX_BATCH / (OUTPUT_TOKENS * (ALPHA_S + BETA_S * MAX_BATCH))
"""What one replica finishes at most."""
BUSY_PER_S = 27.0
"""What each of the replicas does that are sized well: one less would be too few."""
MOST_WAITING = 20.0
"""Requests that wait in one replica before clients give up."""
WAVES = 0.02
"""How far the load as a whole goes up and down, beside the chance of single requests."""

Floats: TypeAlias = NDArray[np.float64]
"""One value each scrape, the newest last."""


def constant(value: float) -> Floats:
    """The same all the time."""
    return np.full(COUNT, float(value))


ONCE = constant(1.0)


def since(minutes: float, until: float = 0.0) -> slice:
    """The scrapes of the last minutes, up to `until` minutes ago."""
    return slice(max(COUNT - round(minutes * 60 / STEP_S), 0), COUNT - round(until * 60 / STEP_S))


@dataclass(slots=True, kw_only=True)
class Pod:
    """What one vLLM replica exports; `finished` are the requests finished since the scrape before.

    `restarted` are scrapes at which its counters begin anew; `raw` replaces the samples of a metric.
    """

    name: str
    labels: dict[str, str]
    finished: Floats
    running: Floats
    itl_s: Floats
    waiting: Floats = field(default_factory=lambda: constant(0.0))
    output_tokens: Floats = field(default_factory=lambda: constant(OUTPUT_TOKENS))
    input_tokens: Floats = field(default_factory=lambda: constant(INPUT_TOKENS))
    ttft_s: Floats = field(default_factory=lambda: constant(0.06))
    wait_s: Floats = field(default_factory=lambda: constant(0.001))
    kv_blocks: int = 2800
    kv_cache_usage: Floats | None = None
    is_scraped: NDArray[np.bool_] = field(default_factory=lambda: np.ones(COUNT, dtype=bool))
    restarted: list[int] = field(default_factory=list)
    raw: dict[str, Floats] = field(default_factory=dict)

    def born(self, minutes: float) -> None:
        """It was not there before that many minutes ago; its counters begin at zero."""
        first = since(minutes).start
        self.is_scraped[:first] = False
        self.restarted.append(first)
        self.running[first : first + 2] = [0.0, 20.0]

    def gone(self, minutes: float) -> None:
        """It has not been there for that many minutes."""
        self.is_scraped[since(minutes)] = False

    def frozen(self, minutes: float) -> None:
        """Nothing that it exports has changed for that many minutes."""
        first = since(minutes).start
        for name in ("running", "waiting"):
            getattr(self, name)[first:] = getattr(self, name)[first]
        self.usage()[first:] = self.usage()[first]
        self.finished[first:] = 0.0

    def usage(self) -> Floats:
        """How full its KV cache is, by what runs unless a row says otherwise."""
        if self.kv_cache_usage is None:
            held = self.input_tokens + self.output_tokens / 2
            self.kv_cache_usage = np.minimum(self.running * held / (16 * self.kv_blocks), 1.0)
        return self.kv_cache_usage

    def series(self) -> Iterator[tuple[str, str, str, dict[str, str], Floats]]:
        """Kind, metric, suffix, labels and values of all that it exports."""
        yield "counter", "vllm:request_success", "_total", {"finished_reason": "stop"}, self._counted(ONCE)
        yield "gauge", "vllm:num_requests_running", "", {}, self.running
        yield "gauge", "vllm:num_requests_waiting", "", {}, self.waiting
        yield "gauge", "vllm:kv_cache_usage_perc", "", {}, self.usage()
        size = {"block_size": "16", "num_gpu_blocks": str(self.kv_blocks)}
        yield "gauge", "vllm:cache_config_info", "", size, constant(1.0)
        histograms: dict[str, tuple[Floats, Floats]] = {
            "request_generation_tokens": (self.output_tokens, ONCE),
            "request_prompt_tokens": (self.input_tokens, ONCE),
            "request_queue_time_seconds": (self.wait_s, ONCE),
            "time_to_first_token_seconds": (self.ttft_s, ONCE),
            "inter_token_latency_seconds": (self.itl_s, self.output_tokens),
        }
        for name, (mean, each) in histograms.items():
            yield "histogram", f"vllm:{name}", "_sum", {}, self._counted(mean * each)
            yield "histogram", f"vllm:{name}", "_count", {}, self._counted(each)

    def _counted(self, factor: Floats) -> Floats:
        counted = np.cumsum(self.finished * factor)
        for first in sorted(self.restarted):
            counted[first:] -= counted[first - 1] if first else 0.0
        return np.asarray(counted)


@dataclass(slots=True)
class Stage:
    """One model, `replicas` of it, and whoever else tells of it; `arrivals` are those of all, between two scrapes."""

    seed: str
    replicas: int
    has_gateway: bool = True
    has_kube_state_metrics: bool = True
    per_s: float = BUSY_PER_S
    pods: list[Pod] = field(default_factory=list)
    arrivals: Floats = field(default_factory=lambda: constant(0.0))
    others: list[tuple[str, str, str, dict[str, str], Floats]] = field(default_factory=list)
    copies: list[dict[str, str]] = field(default_factory=lambda: [{}])
    """Labels of each further scrape of every pod: two jobs, two replicas of Prometheus."""
    remembers: slice = field(default_factory=lambda: slice(0, COUNT))
    """The scrapes that Prometheus still has."""
    days_before: tuple[float, ...] = ()
    """Days ago on which the same hour was like this one before anything happened."""
    shift_s: float = 0.0
    """How far the clock is ahead that samples are stamped with."""

    def __post_init__(self) -> None:
        self.load(constant(self.per_s * self.replicas))

    def load(self, rates_per_s: Floats, pods: int | None = None, most_waiting: float = MOST_WAITING) -> None:
        """Let the model have these arrivals, spread over so many pods, in each of which so many may wait."""
        draw = random.Random(self.seed)  # noqa: S311 - the same series in every run
        level, waves = 0.0, []
        for _ in range(COUNT):
            level = 0.8 * level + draw.gauss(0.0, 0.6 * WAVES)
            waves.append(1 + level)
        rates = rates_per_s * np.array(waves)
        count = self.replicas if pods is None else pods
        self.pods = [self._pod(index, rates / count, draw, most_waiting) for index in range(count)]
        self.arrivals = np.maximum(
            np.rint(rates * STEP_S + np.sqrt(rates * STEP_S) * [draw.gauss(0, 1) for _ in range(COUNT)]), 0.0
        )

    def pod(self, index: int, rate_per_s: float) -> Pod:
        """A further pod with this load."""
        draw = random.Random(f"{self.seed} {index}")  # noqa: S311 - the same series in every run
        return self._pod(index, constant(rate_per_s), draw)

    def gauge(self, metric: str, values: Floats | float, **labels: str) -> None:
        """A series beside those of the pods."""
        values = constant(values) if isinstance(values, float | int) else values
        self.others.append(("gauge", metric, "", {"namespace": NAMESPACE, **labels}, values))

    def counter(self, metric: str, counts: Floats, **labels: str) -> None:
        """A counter beside those of the pods, of what was counted between scrapes."""
        name = metric.removesuffix("_total")
        self.others.append(("counter", name, "_total", {"namespace": NAMESPACE, **labels}, np.cumsum(counts)))

    def history(self, end_s: float) -> History:
        """All of it as Prometheus scraped it."""
        history = History(end_s=end_s, step_s=STEP_S)
        times_s = [end_s + self.shift_s - (COUNT - 1 - index) * STEP_S for index in range(COUNT)]
        for kind, metric, suffix, labels, values in self._series():
            points = [
                (time_s, value) for time_s, value in zip(times_s, values.tolist(), strict=True) if value != MISSED
            ][self.remembers]
            if points:
                history.series(kind, metric, labels, points, suffix)
        for day in self.days_before:
            self._add_calm(history, [time_s - day * DAY_S for time_s in times_s])
        return history

    def _add_calm(self, history: History, times_s: Sequence[float]) -> None:
        """The pods of a calm hour at other times."""
        for pod in Stage(self.seed, self.replicas or 1).pods:
            for kind, metric, suffix, labels, values in pod.series():
                points = list(zip(times_s, values.tolist(), strict=True))
                history.series(kind, metric, {**pod.labels, **labels}, points, suffix)

    def _series(self) -> Iterator[tuple[str, str, str, dict[str, str], Floats]]:
        for pod in self.pods:
            for kind, metric, suffix, labels, values in pod.series():
                told = np.where(pod.is_scraped, pod.raw.get(f"{metric}{suffix}", values), MISSED)
                for copy in self.copies:
                    yield kind, metric, suffix, {**pod.labels, **labels, **copy}, told
        yield from self.others
        if self.has_gateway:
            picked = {"namespace": NAMESPACE, "model_name": MODEL, "target_model_name": MODEL, "pod": "epp-0"}
            yield "counter", "inference_objective_request", "_total", picked, np.cumsum(self.arrivals)
        if self.has_kube_state_metrics:
            named = {"namespace": NAMESPACE, "deployment": "chat"}
            yield "gauge", "kube_deployment_spec_replicas", "", named, constant(self.replicas)
            yield "gauge", "kube_deployment_status_replicas_ready", "", named, constant(self.replicas)

    def _pod(self, index: int, rates_per_s: Floats, draw: random.Random, most_waiting: float = MOST_WAITING) -> Pod:
        rates = np.minimum(rates_per_s, MOST_PER_S)
        counts = rates * STEP_S
        finished = np.maximum(np.rint(counts + np.sqrt(counts) * [draw.gauss(0.0, 1.0) for _ in range(COUNT)]), 0.0)
        busy_s = rates * OUTPUT_TOKENS
        running = np.where(rates < MOST_PER_S, busy_s * ALPHA_S / (1 - busy_s * BETA_S), MAX_BATCH)
        running = np.rint(running * [max(draw.gauss(1.0, 0.05), 0.0) for _ in range(COUNT)])
        left_over = np.minimum(np.cumsum((rates_per_s - rates) * STEP_S), most_waiting)
        itl_s = ALPHA_S + BETA_S * running
        name = f"chat-5d4c8b7f9-bcd{'fghjklmnpqrstvwxz'[index % 17]}{index // 17 + 2}"
        labels = {"namespace": NAMESPACE, "pod": name, "model_name": MODEL, "job": "vllm"}
        return Pod(
            name=name,
            labels=labels,
            finished=finished,
            running=np.minimum(running, MAX_BATCH),
            itl_s=itl_s,
            waiting=np.rint(left_over),
            wait_s=0.001 + left_over / MOST_PER_S,
            ttft_s=0.06 + left_over / MOST_PER_S,
        )


MISSED = -1e308
"""Stands for a scrape that did not happen."""


def labelled(pods: Sequence[Pod], labels: Mapping[str, str]) -> None:
    """Give all pods these labels."""
    for pod in pods:
        pod.labels.update(labels)
