"""An engine with a roofline, played from event to event and read as Prometheus would read it.

A step reads the weights and the context of all who decode, and computes their tokens beside chunks of prompts, first
come first served. Memory and compute overlap (the longer one counts) or add up. What real engines add may be set: a
prefix cache, speculation, experts, bursts.
"""

import heapq
import math
import random
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

Series = dict[str, tuple[float, ...]]
_LONGEST = 8.0
"""No request is longer than so many of its mean length."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RooflineEngine:
    """What an engine is made of; times in seconds.

    A step of so many tokens takes `overhead_s`, and `weights_s` with `context_s` for each token in memory, and
    `token_s` for each token. Of `experts` (0 to 1) of the weights a token reads one in `experts_each`. With `drafted`
    tokens a step computes them too, and yields `accepted` tokens a request.
    """

    overhead_s: float
    weights_s: float
    context_s: float
    token_s: float
    is_sum: bool = False
    token_budget: int = 2048
    max_batch: int = 256
    memory_tokens: float = math.inf
    experts: float = 0.0
    experts_each: float = 1.0
    drafted: int = 0
    accepted: float = 1.0

    def step_s(self, decoding: int, prompt_tokens: float, context: float) -> float:
        """Return how long a step takes."""
        tokens = decoding * (1 + self.drafted) + prompt_tokens
        touched = 1 - (1 - 1 / self.experts_each) ** tokens if self.experts else 1.0
        memory_s = self.weights_s * (1 - self.experts + self.experts * touched) + self.context_s * context
        compute_s = self.token_s * tokens
        return self.overhead_s + (memory_s + compute_s if self.is_sum else max(memory_s, compute_s))

    def play(self, work: "Work", rate_per_s: Callable[[float], float], *, hours: float, window_s: float) -> Series:
        """Return window means as `rate(sum) / rate(count)` gives them: NaN for a latency of nobody."""
        run = _Run(self, work, rate_per_s)
        readings = []
        for index in range(round(hours * 3600 / window_s)):
            run.window = _Window()
            run.go_to((index + 1) * window_s)
            readings.append(run.window.read())
        return {name: tuple(reading[name] for reading in readings) for name in readings[0]}

    def measure(self, work: "Work", rate_per_s: float, requests: int) -> Mapping[str, float]:
        """Return the mean ITL and the 95th percentile of TTFT of a long run at a constant rate."""
        run = _Run(self, work, lambda _: rate_per_s)
        length_s = requests / rate_per_s
        run.go_to(length_s / 5)
        run.window = _Window()
        run.go_to(length_s)
        ttfts = sorted(first[0] for first in run.window.first)
        itl_s = run.window.read()["itl"]
        return {"itl": itl_s, "ttft": ttfts[int(len(ttfts) * 0.95)] if ttfts else math.inf}

    def largest_rate(self, work: "Work", *, itl_s: float, ttft_s: float, about_per_s: float, requests: int) -> float:
        """Return the rate up to which a long run keeps a mean ITL and the 95th percentile of TTFT, within 2 %."""

        def keeps(rate_per_s: float) -> bool:
            found = self.measure(work, rate_per_s, requests)
            return found["itl"] <= itl_s and found["ttft"] <= ttft_s

        low, high = about_per_s, about_per_s
        while not keeps(low):
            low, high = low / 1.5, low
        while high == low or keeps(high):
            low, high = high, high * 1.5
        while high > 1.02 * low:
            middle = math.sqrt(low * high)
            low, high = (middle, high) if keeps(middle) else (low, middle)
        return low


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """Mean lengths of requests (lognormal, of that variation), of whose prompts the cache holds `hits`.

    It holds that share of each prompt with `is_shared` (one system prompt), else nine tenths of some and nothing of
    others (conversations).

    With `burst` arrivals come that many times as often for a quarter of the time, 15 seconds in the mean.
    """

    input_tokens: float
    output_tokens: float
    variation: float = 0.8
    hits: float = 0.0
    is_shared: bool = False
    burst: float = 1.0
    seed: int = 1

    @property
    def spread(self) -> float:
        """The variance of the lengths over their squared mean."""
        return self.variation**2


@dataclass(slots=True)
class _Window:
    running_s: float = 0.0
    waiting_s: float = 0.0
    length_s: float = 0.0
    gaps_s: float = 0.0
    gaps: float = 0.0
    finished: int = 0
    memory_s: float = 0.0
    first: list[tuple[float, float, int, int, int]] = field(default_factory=list)

    def read(self) -> dict[str, float]:
        columns = list(zip(*self.first, strict=True)) or [()] * 5
        ttft_s, wait_s, prompts, outputs, held = (sum(each) / len(each) if each else math.nan for each in columns)
        length_s = self.length_s or math.nan
        return {
            "running": self.running_s / length_s,
            "waiting": self.waiting_s / length_s,
            "itl": self.gaps_s / self.gaps if self.gaps else math.nan,
            "ttft": ttft_s,
            "wait": wait_s,
            "completions": self.finished / length_s,
            "input_tokens": prompts,
            "output_tokens": outputs,
            "prefix_hit_rate": held / prompts if prompts else math.nan,
            "kv_cache_usage": self.memory_s / length_s,
        }


@dataclass(slots=True)
class _Prompt:
    arrived_s: float
    wait_s: float
    tokens: int
    held: int
    left: int
    output: int


class _Run:
    def __init__(self, engine: RooflineEngine, work: Work, rate_per_s: Callable[[float], float]) -> None:
        self._engine, self._work, self._rate_per_s = engine, work, rate_per_s
        self._draw = random.Random(work.seed)  # noqa: S311 - the same arrivals in every run
        self._now_s, self._step, self._context = 0.0, 0.0, 0.0
        self._queue: deque[_Prompt] = deque()
        self._prefilling: deque[_Prompt] = deque()
        self._decoding: list[tuple[float, float]] = []
        self._is_burst, self._phase_s, self._arrival_s = False, 0.0, 0.0
        sigma = math.sqrt(math.log1p(work.variation**2))
        self._log = (-sigma * sigma / 2, sigma)
        self.window = _Window()
        self._arrive()

    def go_to(self, until_s: float) -> None:
        while self._now_s < until_s:
            while self._arrival_s <= self._now_s:
                self._request()
                self._arrive()
            self._iterate(until_s)

    def _arrive(self) -> None:
        factor = 1.0
        if self._work.burst > 1:
            while self._arrival_s >= self._phase_s:
                self._is_burst = not self._is_burst
                self._phase_s += self._draw.expovariate(1 / 15 if self._is_burst else 1 / 45)
            factor = self._work.burst if self._is_burst else (4 - self._work.burst) / 3
        gap_s = self._draw.expovariate(max(self._rate_per_s(self._arrival_s) * factor, 1e-9))
        if self._work.burst > 1 and self._arrival_s + gap_s > self._phase_s:
            self._arrival_s = self._phase_s  # nothing came in this phase any more: draw again in the next
            self._arrive()
            return
        self._arrival_s += gap_s

    def _request(self) -> None:
        tokens, output = (self._length(each) for each in (self._work.input_tokens, self._work.output_tokens))
        share = self._work.hits if self._work.is_shared else 0.9 * (self._draw.random() < self._work.hits / 0.9)
        held = round(share * tokens)
        self._queue.append(_Prompt(self._arrival_s, 0.0, tokens, held, tokens - held, output))

    def _length(self, mean: float) -> int:
        return max(round(mean * min(math.exp(self._draw.gauss(*self._log)), _LONGEST)), 1)

    def _iterate(self, until_s: float) -> None:
        engine, decoding = self._engine, len(self._decoding)
        steps, computed = 1, 0.0
        if self._prefilling or self._queue:
            computed = self._take_prompts(engine.token_budget - decoding * (1 + engine.drafted))
        grows = decoding * engine.accepted
        took_s = engine.step_s(decoding, computed, self._context)
        if decoding and not computed:
            # nothing changes until somebody ends or comes
            end_s = until_s if self._queue else min(self._arrival_s, until_s)
            steps = max(min(int(self._decoding[0][0] - self._step), math.ceil((end_s - self._now_s) / took_s)), 1)
            took_s = steps * engine.step_s(decoding, 0.0, self._context + grows * steps / 2)
        elif not decoding and not computed:
            steps, took_s = 0, max(min(self._arrival_s, until_s) - self._now_s, 1e-9)
        window = self.window
        if decoding:
            self._step += steps
            window.gaps_s += decoding * took_s
            window.gaps += decoding * steps
            self._context += grows * steps
        window.running_s += (decoding + len(self._prefilling)) * took_s
        window.waiting_s += len(self._queue) * took_s
        window.memory_s += self._context / engine.memory_tokens * took_s
        window.length_s += took_s
        self._now_s += took_s
        self._finish()

    def _take_prompts(self, budget: float) -> float:
        computed = 0.0
        for prompt in self._prefilling:
            chunk = int(max(min(prompt.left, budget - computed), 0))
            prompt.left -= chunk
            computed += chunk
        while self._queue and computed < budget and self._has_room(self._queue[0]):
            prompt = self._queue.popleft()
            prompt.wait_s = self._now_s - prompt.arrived_s
            self._context += prompt.tokens
            self._prefilling.append(prompt)
            chunk = int(min(prompt.left, budget - computed))
            prompt.left -= chunk
            computed += chunk
        return computed

    def _has_room(self, prompt: _Prompt) -> bool:
        running = len(self._decoding) + len(self._prefilling)
        fits = self._context + prompt.tokens <= self._engine.memory_tokens or not running
        return running < self._engine.max_batch and fits

    def _finish(self) -> None:
        while self._decoding and self._decoding[0][0] <= self._step:
            _, held = heapq.heappop(self._decoding)
            self._context -= held
            self.window.finished += 1
        while self._prefilling and self._prefilling[0].left <= 0:
            prompt = self._prefilling.popleft()
            ttft_s = self._now_s - prompt.arrived_s
            self.window.first.append((ttft_s, prompt.wait_s, prompt.tokens, prompt.output, prompt.held))
            steps = math.ceil((prompt.output - 1) / self._engine.accepted)
            held = prompt.tokens + steps * self._engine.accepted
            heapq.heappush(self._decoding, (self._step + steps, held))
        if not self._decoding and not self._prefilling:
            self._context = 0.0
