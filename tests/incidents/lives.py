"""What a healthy fleet lives through, request by request: drawn, served at once, and exported by its replicas."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.random import Generator, default_rng  # noqa: TID251 - the same series in every run, drawn from a name
from numpy.typing import NDArray

from tests.incidents.stage import ALPHA_S, BETA_S, MODEL, NAMESPACE, Floats
from tests.servers.prometheus import History

DRAWN_S = 10.0
"""Within so short a time the rate and the lengths are constant."""
TO_FIRST_TOKEN_S = 0.02
ALWAYS = (-math.inf, math.inf)
PODS = "fghjklmnpq"
Hours = tuple[float, float]
"""From and to so many hours before now, both below zero; later is now."""
OfTime = Callable[[float], float]
"""A value at so many hours before now."""


def steadily(value: float) -> OfTime:
    """The same all the time."""
    return lambda _hours: value


def daily(least: float, most: float, hour: float) -> OfTime:
    """Up and down with the sun; now it is `hour` hours after the quietest moment."""
    return lambda hours: least + (most - least) * (1 - math.cos(2 * math.pi * (hours + hour) / 24)) / 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Life:
    """A model for so many `hours`; means of lengths by the hour, each request's spread as log-normal with `cv`.

    `pods` are the times in which each serves; `copies` labels of each further scrape of every pod.
    """

    rate_per_s: OfTime
    pods: tuple[Hours, ...]
    hours: float = 3.0
    output_tokens: OfTime = field(default_factory=lambda: steadily(1800.0))
    input_tokens: OfTime = field(default_factory=lambda: steadily(1024.0))
    cv: float = 1.0
    prompt_s: float = 1e-5
    kv_blocks: int = 12_000
    step_s: float = 60.0
    copies: tuple[dict[str, str], ...] = ({},)

    def history(self, end_s: float, seed: str, *, has_gateway: bool, replicas: int) -> History:
        """All of it as Prometheus scraped it; `replicas` are those that Git asks for."""
        history, draw = History(end_s=end_s, step_s=self.step_s), default_rng(list(seed.encode()))
        requests = self._requests(draw)
        alive = np.array([(first <= requests.hours) & (requests.hours < last) for first, last in self.pods])
        served_by = (alive * draw.uniform(size=alive.shape)).argmax(axis=0)
        for index, (first, last) in enumerate(self.pods):
            scraped = np.arange(-self.hours * 3600 + 1.7 * index % self.step_s, 0.01, self.step_s)
            scraped = scraped[(scraped >= first * 3600) & (scraped <= last * 3600)]
            pod = f"chat-5d4c8b7f9-bcd{PODS[index % len(PODS)]}{index // len(PODS) + 2}"
            labels = {"namespace": NAMESPACE, "pod": pod, "model_name": MODEL, "job": "vllm"}
            for kind, metric, suffix, more, values in requests.chosen(served_by == index).exported(scraped, self):
                points = list(zip((end_s + scraped).tolist(), values.tolist(), strict=True))
                for copy in self.copies:
                    history.series(kind, metric, {**labels, **more, **copy}, points, suffix)
        times = np.arange(-self.hours * 3600, 0.01, self.step_s)
        for kind, metric, suffix, more, values in _others(times, requests, replicas, has_gateway=has_gateway):
            points = list(zip((end_s + times).tolist(), values.tolist(), strict=True))
            history.series(kind, metric, {"namespace": NAMESPACE, **more}, points, suffix)
        return history

    def _requests(self, draw: Generator) -> "Requests":
        moments = np.arange(-self.hours, 0.0, DRAWN_S / 3600)
        rates_per_s, *means = (
            np.array([each(hours) for hours in moments])
            for each in (self.rate_per_s, self.output_tokens, self.input_tokens)
        )
        counts = draw.poisson(rates_per_s * DRAWN_S)
        arrived_s = np.sort(np.repeat(moments * 3600, counts) + draw.uniform(0.0, DRAWN_S, counts.sum()))
        outputs, inputs = (
            np.maximum(np.rint(np.repeat(mean, counts) * self._spread(draw, arrived_s.size)), 1.0) for mean in means
        )
        count = sum(first <= 0 < last for first, last in self.pods)
        busy_s = np.repeat(rates_per_s, counts) / count * float(np.mean(outputs))
        itl_s = ALPHA_S / np.maximum(1 - busy_s * BETA_S, 0.2)
        first_s = arrived_s + TO_FIRST_TOKEN_S + inputs * self.prompt_s
        return Requests(arrived_s=arrived_s, first_s=first_s, itl_s=itl_s, outputs=outputs, inputs=inputs)

    def _spread(self, draw: Generator, count: int) -> Floats:
        variance = math.log(1 + self.cv**2)
        return np.asarray(np.exp(draw.normal(-variance / 2, math.sqrt(variance), count)))


Exported = tuple[str, str, str, dict[str, str], Floats]
"""Kind, metric, suffix, labels and values of a series."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Requests:
    """Requests in the order of their arrival, seconds before now."""

    arrived_s: Floats
    first_s: Floats
    itl_s: Floats
    outputs: Floats
    inputs: Floats

    @property
    def hours(self) -> Floats:
        """When they arrived."""
        return self.arrived_s / 3600

    @property
    def ended_s(self) -> Floats:
        """When their last token was made."""
        return self.first_s + (self.outputs - 1) * self.itl_s

    def chosen(self, which: NDArray[np.bool_]) -> "Requests":
        """Some of them."""
        names = ("arrived_s", "first_s", "itl_s", "outputs", "inputs")
        return Requests(**{name: getattr(self, name)[which] for name in names})

    def exported(self, at_s: Floats, life: Life) -> Iterator[Exported]:
        """What the replica that served them exports, at these times."""
        once, held = np.ones(self.outputs.size), np.ceil((self.inputs + self.outputs / 2) / 16)
        finished = _until(at_s, self.ended_s, once)
        in_use = _until(at_s, self.arrived_s, held) - _until(at_s, self.ended_s, held)
        yield "counter", "vllm:request_success", "_total", {"finished_reason": "stop"}, finished
        yield "gauge", "vllm:num_requests_running", "", {}, _until(at_s, self.arrived_s, once) - finished
        yield "gauge", "vllm:num_requests_waiting", "", {}, 0 * at_s
        yield "gauge", "vllm:kv_cache_usage_perc", "", {}, np.clip(in_use / life.kv_blocks, 0.0, 1.0).round(6)
        size = {"block_size": "16", "num_gpu_blocks": str(life.kv_blocks)}
        yield "gauge", "vllm:cache_config_info", "", size, np.ones(at_s.size)
        gaps, decoding = self.outputs - 1, self.outputs > 1
        told = (
            ("request_generation_tokens", self.ended_s, self.outputs),
            ("request_prompt_tokens", self.ended_s, self.inputs),
            ("request_queue_time_seconds", self.first_s, 0.001 * once),
            ("time_to_first_token_seconds", self.first_s, self.first_s - self.arrived_s),
        )
        for name, times_s, values in told:
            yield "histogram", f"vllm:{name}", "_sum", {}, _until(at_s, times_s, values)
            yield "histogram", f"vllm:{name}", "_count", {}, _until(at_s, times_s, once)
        if decoding.any():
            made = (self.first_s[decoding], self.ended_s[decoding])
            for suffix, values in (("_sum", gaps * self.itl_s), ("_count", gaps)):
                yield (
                    "histogram",
                    "vllm:inter_token_latency_seconds",
                    suffix,
                    {},
                    _evenly(at_s, *made, values[decoding]),
                )


def _others(at_s: Floats, requests: Requests, replicas: int, *, has_gateway: bool) -> Iterator[Exported]:
    """What a gateway and kube-state-metrics tell."""
    if has_gateway:
        names = {"model_name": MODEL, "target_model_name": MODEL, "pod": "epp-0"}
        arrived = _until(at_s, requests.arrived_s, np.ones(requests.arrived_s.size))
        yield "counter", "inference_objective_request", "_total", names, arrived
    for metric in ("kube_deployment_spec_replicas", "kube_deployment_status_replicas_ready"):
        yield "gauge", metric, "", {"deployment": "chat"}, np.full(at_s.size, float(replicas))


def _until(at_s: Floats, times_s: Floats, values: Floats) -> Floats:
    """The sum of what came up to each time."""
    order = np.argsort(times_s)
    sums = np.concatenate([[0.0], np.cumsum(values[order])])
    return np.asarray(sums[np.searchsorted(times_s[order], at_s, side="right")])


def _evenly(at_s: Floats, firsts_s: Floats, lasts_s: Floats, values: Floats) -> Floats:
    """The sum up to each time of what comes evenly between a first and a last time."""
    slopes = values / np.maximum(lasts_s - firsts_s, 1e-9)
    times_s = np.concatenate([firsts_s, lasts_s])
    order = np.argsort(times_s)
    slope = np.cumsum(np.concatenate([slopes, -slopes])[order])
    sums = np.concatenate([[0.0], np.cumsum(slope[:-1] * np.diff(times_s[order]))])
    return np.asarray(np.maximum.accumulate(np.interp(at_s, times_s[order], sums)).round(6))
