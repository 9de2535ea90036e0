"""What replicas report of themselves, what waits before any replica has it, and how many there are to be."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from reconciler.domain.identity import ResourceKey

LARGEST_COUNT = 2.0**53
"""Largest whole number that float64 counts exactly: sums of tokens stay finite and exact below it."""
MOST_KV_TOKENS = 1e12
"""No KV cache holds that many tokens: a larger number is a broken one."""

USUAL_CHURN = 0.05
"""Of many replicas: one of them is always being started again."""


def is_usual_churn(missing: int, asked: int) -> bool:
    """Whether no more replicas are away than always are of so many that are asked for; among few none ever is."""
    return missing <= USUAL_CHURN * asked


class Role(StrEnum):
    """The share of the work that a variant's replicas do."""

    BOTH = "both"
    PREFILL = "prefill"
    DECODE = "decode"


def role_of(label: str | None) -> Role:
    """Return the role that a pod label `llm-d.ai/role` means: anything unknown is `both`."""
    return {"prefill": Role.PREFILL, "decode": Role.DECODE}.get(label or "", Role.BOTH)


def kv_cache_tokens(total: float | None, num_blocks: float | None, block_tokens: float | None) -> float | None:
    """Tokens that a KV cache holds, told as such or in blocks; None when it is not told, or is nothing sensible."""
    if total is None and num_blocks is not None and block_tokens is not None:
        total = num_blocks * block_tokens
    return total if total is not None and 0 < total < MOST_KV_TOKENS else None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaMetrics:
    """What one instance of an engine reports; a data-parallel rank is an instance of its pod.

    `kv_cache_usage` (0-1) and `num_waiting` are maxima of a minute, the token lengths means of five, `num_running` is
    what its whole pod has now. None is not known, and `reasons` says per field why.
    """

    pod: str
    variant: ResourceKey
    instance: str = ""
    kv_cache_usage: float | None = None
    num_waiting: float | None = None
    num_running: float | None = None
    input_tokens: float | None = None
    output_tokens: float | None = None
    num_blocks: float | None = None
    block_tokens: float | None = None
    total_kv_tokens: float | None = None
    prefix_hit_rate: float | None = None
    reasons: Mapping[str, str] = field(default_factory=dict)

    @property
    def kv_tokens(self) -> float | None:
        """Tokens that the KV cache holds; None when the engine does not say, or says nothing sensible."""
        return kv_cache_tokens(self.total_kv_tokens, self.num_blocks, self.block_tokens)

    @property
    def label(self) -> str:
        """The pod, with its instance where it has several."""
        return f"{self.pod}/{self.instance}" if self.instance else self.pod


@dataclass(frozen=True, slots=True, kw_only=True)
class UpstreamQueue:
    """Requests of a model that wait before any replica has them (endpoint picker, flow control); None: not known."""

    num_waiting: float | None = None
    waiting_bytes: float | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveReplicas:
    """How many replicas a scale target asks for in its cluster: `counts` at `start_s` and every `step_s` from there.

    Times are Unix seconds. NaN is not known: nobody told it lately, or two told it differently.
    """

    start_s: float
    step_s: float
    counts: tuple[float, ...]

    @property
    def newest(self) -> float | None:
        """The last count; None when it is not known."""
        return None if not self.counts or math.isnan(self.counts[-1]) else self.counts[-1]

    def at(self, at_s: float) -> float | None:
        """The count of the last moment that is not after `at_s`; None where that is not known."""
        index = math.floor((at_s - self.start_s) / self.step_s)
        count = self.counts[index] if 0 <= index < len(self.counts) else math.nan
        return None if math.isnan(count) else count

    def since(self, at_s: float) -> tuple[float, ...]:
        """All counts from the last moment that is not after `at_s`; none when there is no such moment."""
        first = math.floor((at_s - self.start_s) / self.step_s)
        return self.counts[first:] if first >= 0 else ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """One replica's numbers: element i of every series was true at `start_s + i * step_s`; NaN is not known.

    `series` maps a quantity's canonical name (`kv_cache_usage`, `itl`) to its values, all of one length. `instance`
    is the data-parallel rank where a pod has several: each has its own trace.
    """

    pod: str
    variant: ResourceKey
    start_s: float
    step_s: float
    series: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    instance: str = ""
