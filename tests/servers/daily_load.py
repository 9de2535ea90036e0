"""Replicas of vLLM under a load that comes and goes with the hours, and that run by a law which can be learned."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from tests.servers.prometheus import History

DAY_S = 86400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Law:
    """How fast one replica runs; requests are all alike."""

    alpha_s: float = 0.0082
    beta_s: float = 0.00011
    gamma_s: float = 0.021
    delta_s: float = 5.5e-7
    full_batch: int = 64
    input_tokens: float = 512.0
    output_tokens: float = 180.0

    def itl_s(self, batch: float) -> float:
        """An iteration of that batch."""
        return self.alpha_s + self.beta_s * batch

    def prefill_s(self, batch: float) -> float:
        """What a request waits for its first token that finds `batch` others running."""
        return self.gamma_s + self.delta_s * self.input_tokens * min(batch + 1, self.full_batch)


LAW = Law()


@dataclass(frozen=True, slots=True, kw_only=True)
class DailyLoad:
    """Requests that are there at once: from `least` to `most` and back three times a day.

    At the end of a history `least` are there, and with a `phase` of 0.5 `most`.
    """

    least: float = 2.0
    most: float = 74.0
    phase: float = 0.0

    def at(self, at_s: float) -> float:
        """How many are there so many seconds after the end."""
        middle, half = (self.most + self.least) / 2, (self.most - self.least) / 2
        return middle - half * math.cos(2 * math.pi * (at_s / (DAY_S / 3) + self.phase))


@dataclass(slots=True)
class _Counters:
    requests: float = 0.0
    tokens: float = 0.0
    itl_s: float = 0.0
    wait_s: float = 0.0
    ttft_s: float = 0.0

    def run(self, law: Law, batch: float, wait_s: float, scrape_s: float) -> None:
        """Let one scrape interval pass with that batch."""
        tokens = scrape_s * batch / law.itl_s(batch)
        requests = tokens / law.output_tokens
        self.tokens += tokens
        self.requests += requests
        self.itl_s += tokens * law.itl_s(batch)
        self.wait_s += requests * wait_s
        self.ttft_s += requests * (wait_s + law.prefill_s(batch))


def replica_under(
    history: History, labels: Mapping[str, str], load: DailyLoad, *, since_s: float = DAY_S, kv_tokens: int = 0
) -> None:
    """One replica: the batch follows what is there, up to the full one; the rest waits.

    With `kv_tokens` it also says how many tokens its KV cache holds, and how full it is.
    """
    law, counted = LAW, _Counters()
    points: dict[str, list[tuple[float, float]]] = {}
    for index in range(int(since_s / history.step_s) + 1):
        at_s = history.end_s - since_s + index * history.step_s
        there = load.at(at_s - history.end_s)
        batch, waiting = min(there, law.full_batch), max(there - law.full_batch, 0.0)
        values = {
            "num_requests_running": batch,
            "num_requests_waiting": waiting,
            "request_success_total": counted.requests,
            "request_generation_tokens_sum": counted.requests * law.output_tokens,
            "request_generation_tokens_count": counted.requests,
            "request_prompt_tokens_sum": counted.requests * law.input_tokens,
            "request_prompt_tokens_count": counted.requests,
            "request_queue_time_seconds_sum": counted.wait_s,
            "request_queue_time_seconds_count": counted.requests,
            "time_to_first_token_seconds_sum": counted.ttft_s,
            "time_to_first_token_seconds_count": counted.requests,
            "inter_token_latency_seconds_sum": counted.itl_s,
            "inter_token_latency_seconds_count": counted.tokens,
        }
        if kv_tokens:
            values["kv_cache_usage_perc"] = batch * (law.input_tokens + law.output_tokens / 2) / kv_tokens
        for name, value in values.items():
            points.setdefault(name, []).append((at_s, value))
        counted.run(law, batch, waiting * law.itl_s(batch), history.step_s)
    for name, series in points.items():
        metric, _, suffix = name.rpartition("_")
        if suffix in ("sum", "count"):
            history.series("histogram", f"vllm:{metric}", labels, series, f"_{suffix}")
        elif suffix == "total":
            history.series("counter", f"vllm:{metric}", {**labels, "finished_reason": "stop"}, series, "_total")
        else:
            history.series("gauge", f"vllm:{name}", labels, series, "")
    if kv_tokens:
        blocks = {"num_gpu_blocks": str(kv_tokens // 16), "block_size": "16"}
        history.gauge("vllm:cache_config_info", {**labels, **blocks}, 1.0, since_s=since_s)
