"""An engine with chunked prefill, played iteration by iteration and read as Prometheus would read it.

An iteration computes a token for everybody who decodes, then chunks of prompts in the order of their arrival until its
token budget is used up. It takes alpha + beta * decoding + prompt_s * prompt tokens.

    truth = ChunkedEngine(alpha_s=0.01, beta_s=1e-4, prompt_s=5e-5, token_budget=2048, max_batch=128)
    series = truth.play(lambda time_s: 4.0, Requests(input_tokens=2000, output_tokens=200), hours=6)
"""

import heapq
import math
import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

WINDOW_S = 60.0
LONG_RUN = 12_000
"""Requests: with a quarter of them the rate that is carried differs by 5 % from one run to another."""
Series = dict[str, tuple[float, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Requests:
    """Mean lengths, and how they are spread: `even` (half to one and a half of the mean) or `exponential`."""

    input_tokens: float
    output_tokens: float
    shape: str = "even"
    seed: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkedEngine:
    """What an engine is made of."""

    alpha_s: float
    beta_s: float
    prompt_s: float
    token_budget: int
    max_batch: int

    def play(self, rate_per_s: Callable[[float], float], requests: Requests, hours: float) -> Series:
        """Return window means as `rate(sum) / rate(count)` gives them: NaN for a latency of nobody."""
        run = _Run(self, rate_per_s, requests)
        readings = []
        for index in range(round(hours * 3600 / WINDOW_S)):
            run.go_to((index + 1) * WINDOW_S)
            readings.append(run.window.read())
            run.window = _Window()
        return {name: tuple(reading[name] for reading in readings) for name in readings[0]}

    def keeps(self, rate_per_s: float, requests: Requests, *, itl_s: float, ttft_s: float, percentile: float) -> bool:
        """Whether a long run at a constant rate stays inside a mean inter-token latency and a percentile of TTFT."""
        run = _Run(self, lambda _: rate_per_s, requests)
        length_s = max(LONG_RUN / rate_per_s, 3000 * (self.alpha_s + self.beta_s * self.max_batch))
        run.go_to(length_s / 4)
        run.window = _Window()
        run.go_to(length_s * 1.25)
        ttfts = sorted(ttft for ttft, _, _, _ in run.window.first)
        if not ttfts:
            return False
        reading = run.window.read()
        return ttfts[int(len(ttfts) * percentile / 100)] <= ttft_s and not reading["itl"] > itl_s


@dataclass(slots=True)
class _Window:
    running_s: float = 0.0
    waiting_s: float = 0.0
    length_s: float = 0.0
    gaps_s: float = 0.0
    gaps: float = 0.0
    first: list[tuple[float, float, int, int]] = field(default_factory=list)

    def read(self) -> dict[str, float]:
        columns = list(zip(*self.first, strict=True)) or [()] * 4
        ttft_s, wait_s, prompts, outputs = (sum(each) / len(each) if each else math.nan for each in columns)
        return {
            "running": self.running_s / self.length_s,
            "waiting": self.waiting_s / self.length_s,
            "itl": self.gaps_s / self.gaps if self.gaps else math.nan,
            "ttft": ttft_s,
            "wait": wait_s,
            "completions": len(self.first) / self.length_s,
            "input_tokens": prompts,
            "output_tokens": outputs,
        }


@dataclass(slots=True)
class _Prompt:
    arrived_s: float
    wait_s: float
    tokens: int
    left: int
    output: int


class _Run:
    def __init__(self, engine: ChunkedEngine, rate_per_s: Callable[[float], float], requests: Requests) -> None:
        self._engine, self._rate_per_s, self._requests = engine, rate_per_s, requests
        self._draw = random.Random(requests.seed)  # noqa: S311 - the same arrivals in every run
        self._now_s, self._iteration = 0.0, 0
        self._queue: deque[_Prompt] = deque()
        self._prefilling: deque[_Prompt] = deque()
        self._decoding: list[int] = []
        self._arrival_s = 0.0
        self.window = _Window()
        self._arrive()

    def go_to(self, until_s: float) -> None:
        while self._now_s < until_s:
            while self._arrival_s <= self._now_s:
                tokens, output = map(self._length, (self._requests.input_tokens, self._requests.output_tokens))
                self._queue.append(_Prompt(self._arrival_s, 0.0, tokens, tokens, output))
                self._arrive()
            self._iterate(until_s)

    def _arrive(self) -> None:
        self._arrival_s += self._draw.expovariate(max(self._rate_per_s(self._arrival_s), 1e-9))

    def _length(self, mean: float) -> int:
        share = self._draw.expovariate(1.0) if self._requests.shape == "exponential" else self._draw.uniform(0.5, 1.5)
        return max(round(mean * share), 1)

    def _iterate(self, until_s: float) -> None:
        decoding = len(self._decoding)
        computed = self._take_prompts(self._engine.token_budget - decoding)
        if decoding or computed:
            took_s = self._engine.alpha_s + self._engine.beta_s * decoding + self._engine.prompt_s * computed
            self._iteration += 1
            self.window.gaps_s += decoding * took_s
            self.window.gaps += decoding
        else:
            took_s = max(min(self._arrival_s, until_s) - self._now_s, 1e-9)
        self.window.running_s += (decoding + len(self._prefilling)) * took_s
        self.window.waiting_s += len(self._queue) * took_s
        self.window.length_s += took_s
        self._now_s += took_s
        self._finish()

    def _take_prompts(self, budget: int) -> int:
        """Compute chunks in order, and begin new prompts while there is room for their tokens and a place."""
        computed = 0
        for prompt in self._prefilling:
            computed += self._take(prompt, budget - computed)
        while (
            self._queue and computed < budget and len(self._decoding) + len(self._prefilling) < self._engine.max_batch
        ):
            prompt = self._queue.popleft()
            prompt.wait_s = self._now_s - prompt.arrived_s
            self._prefilling.append(prompt)
            computed += self._take(prompt, budget - computed)
        return computed

    def _take(self, prompt: _Prompt, room: int) -> int:
        chunk = max(min(prompt.left, room), 0)
        prompt.left -= chunk
        return chunk

    def _finish(self) -> None:
        while self._decoding and self._decoding[0] <= self._iteration:
            heapq.heappop(self._decoding)
        while self._prefilling and not self._prefilling[0].left:
            prompt = self._prefilling.popleft()
            ttft_s = self._now_s - prompt.arrived_s
            self.window.first.append((ttft_s, prompt.wait_s, prompt.tokens, prompt.output))
            if prompt.output > 1:
                heapq.heappush(self._decoding, self._iteration + prompt.output - 1)
