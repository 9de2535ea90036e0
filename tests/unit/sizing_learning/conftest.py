"""A replica that obeys the law exactly, played event by event and read as Prometheus would read it."""

import functools
import heapq
import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import pytest

from reconciler.domain.identity import ResourceKey
from reconciler.domain.observed import Trace
from reconciler.domain.profiles import PerformanceProfile
from tests.histories import arrays

WINDOW_S = 60.0
VARIANT = ResourceKey(cluster="prod", namespace="llm", kind="Deployment", name="llama")
Series = dict[str, tuple[float, ...]]


def itl_s(truth: PerformanceProfile, batch: float) -> float:
    return truth.alpha_s + truth.beta_s * batch


def prefill_s(truth: PerformanceProfile, input_tokens: float, batch: float) -> float:
    return (truth.gamma_s or 0.0) + (truth.delta_s or 0.0) * input_tokens * batch


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """Offered load as a share of capacity, swinging between two values once every `period` windows; mean lengths."""

    least: float
    most: float
    input_tokens: float
    output_tokens: float
    windows: int = 600
    period: int = 300
    seed: int = 1

    def rate_per_s(self, truth: PerformanceProfile, time_s: float) -> float:
        batch = truth.max_batch_size
        service_s = prefill_s(truth, self.input_tokens, batch) + (self.output_tokens - 1) * itl_s(truth, batch)
        swing = (1 - math.cos(2 * math.pi * time_s / (self.period * WINDOW_S))) / 2
        return (self.least + (self.most - self.least) * swing) * batch / service_s


@dataclass(slots=True)
class Window:
    """What a window adds up: areas under curves, gaps between tokens, and what first tokens of requests took."""

    running_s: float = 0.0
    waiting_s: float = 0.0
    gaps_s: float = 0.0
    gaps: float = 0.0
    first: list[tuple[float, float, int, int]] = field(default_factory=list)

    def read(self) -> dict[str, float]:
        """Return window means as `rate(sum) / rate(count)` gives them: NaN for a latency of nobody."""
        columns = list(zip(*self.first, strict=True)) or [()] * 4
        ttft_s, wait_s, prompts, outputs = (sum(each) / len(each) if each else math.nan for each in columns)
        return {
            "running": self.running_s / WINDOW_S,
            "waiting": self.waiting_s / WINDOW_S,
            "itl": self.gaps_s / self.gaps if self.gaps else math.nan,
            "ttft": ttft_s,
            "wait": wait_s,
            "input_tokens": prompts,
            "output_tokens": outputs,
        }


class Engine:
    """Continuous batching: whoever finds a place is prefilled, then gets a token each iteration of all who decode.

    An iteration takes alpha + beta * n, so between two events everybody decoding moves on at the same speed:
    `turned` counts iterations since the start, and a request is done when it has turned so often.
    """

    def __init__(self, truth: PerformanceProfile, load: Workload) -> None:
        self.truth, self.load = truth, load
        self.draw = random.Random(load.seed)  # noqa: S311 - the same arrivals in every run
        self.now_s, self.turned = 0.0, 0.0
        self.queue: list[tuple[float, int, int]] = []
        self.head = 0
        self.prefilling: list[tuple[float, float, float, int, int]] = []
        self.decoding: list[float] = []
        self.arrival_s = self._next_arrival_s()

    def play(self) -> Series:
        readings = []
        for index in range(self.load.windows):
            window = Window()
            while self.now_s < (index + 1) * WINDOW_S:
                self._step(window, (index + 1) * WINDOW_S)
            readings.append(window.read())
        return {name: tuple(reading[name] for reading in readings) for name in readings[0]}

    def _step(self, window: Window, until_s: float) -> None:
        running = len(self.prefilling) + len(self.decoding)
        step_s = itl_s(self.truth, running)
        done_s = self.now_s + (self.decoding[0] - self.turned) * step_s if self.decoding else math.inf
        first_s = self.prefilling[0][0] if self.prefilling else math.inf
        event_s = min(self.arrival_s, first_s, done_s, until_s)
        self._pass(window, event_s - self.now_s, step_s)
        self.now_s = event_s
        if event_s == self.arrival_s:
            self.queue.append((event_s, self._length(self.load.input_tokens), self._length(self.load.output_tokens)))
            self.arrival_s = self._next_arrival_s()
        elif event_s == first_s:
            _, arrived_s, wait_s, prompt, output = heapq.heappop(self.prefilling)
            window.first.append((event_s - arrived_s, wait_s, prompt, output))
            heapq.heappush(self.decoding, self.turned + output - 1)
        elif event_s == done_s:
            self.turned = heapq.heappop(self.decoding)
        self._admit()

    def _pass(self, window: Window, passed_s: float, step_s: float) -> None:
        decoding = len(self.decoding)
        window.running_s += (decoding + len(self.prefilling)) * passed_s
        window.waiting_s += (len(self.queue) - self.head) * passed_s
        window.gaps_s += decoding * passed_s
        window.gaps += decoding * passed_s / step_s
        self.turned += passed_s / step_s

    def _admit(self) -> None:
        while self.head < len(self.queue) and len(self.prefilling) + len(self.decoding) < self.truth.max_batch_size:
            arrived_s, prompt, output = self.queue[self.head]
            self.head += 1
            batch = len(self.prefilling) + len(self.decoding) + 1
            wait_s = self.now_s - arrived_s
            first_s = self.now_s + prefill_s(self.truth, prompt, batch)
            heapq.heappush(self.prefilling, (first_s, arrived_s, wait_s, prompt, output))

    def _next_arrival_s(self) -> float:
        return self.now_s + self.draw.expovariate(max(self.load.rate_per_s(self.truth, self.now_s), 1e-9))

    def _length(self, mean: float) -> int:
        return max(round(mean * self.draw.uniform(0.5, 1.5)), 1)


@functools.cache
def _play(truth: PerformanceProfile, load: Workload) -> Series:
    return Engine(truth, load).play()


@pytest.fixture(scope="session")
def play() -> Callable[..., Series]:
    """Plays a replica that obeys the law of a profile, under a `Workload`: its series, minute by minute."""
    return lambda truth, **load: _play(truth, Workload(**load))


@pytest.fixture(scope="session")
def disturb() -> Callable[..., Series]:
    """Multiplies every number of some series (all, unless named) by one around 1, of a standard deviation."""

    def disturbed(series: Series, noise: float = 0.1, seed: int = 7, names: Sequence[str] = ()) -> Series:
        draw = random.Random(seed)  # noqa: S311 - the same noise in every run
        return {
            name: tuple(max(value * draw.gauss(1.0, noise), 0.0) for value in values)
            if name in (names or series)
            else values
            for name, values in series.items()
        }

    return disturbed


@pytest.fixture(scope="session")
def trace_of() -> Callable[..., Trace]:
    """Makes a trace of series, of the pod and the clock given."""

    def trace(series: Series, pod: str = "llama-0", start_s: float = 0.0, step_s: float = WINDOW_S) -> Trace:
        return Trace(pod=pod, variant=VARIANT, start_s=start_s, step_s=step_s, series=arrays(series))

    return trace
