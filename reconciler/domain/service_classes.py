"""Service classes: a priority and SLO targets."""

from dataclasses import dataclass

from reconciler.domain.identity import Place


@dataclass(frozen=True, slots=True, kw_only=True)
class SloTarget:
    """A bound in seconds on a percentile (0-100) of a latency, or on its mean when `percentile` is None."""

    limit_s: float
    percentile: float | None = None

    @property
    def statistic(self) -> str:
        """`p95` or `mean`."""
        return "mean" if self.percentile is None else f"p{self.percentile:g}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceClass:
    """What a class of requests was promised; a higher `priority` goes first.

    `ttft` is arrival to first token; a law without prefill can only limit the waiting in it. `wait` limits waiting
    alone (`slo-ttw`). `listed_ttft_s` is upstream's `slo-ttft`, which changed its meaning with the law: the 95th
    percentile of the wait where prefill is not modelled, the mean time to first token where it is.
    `unserved_cost_per_request` is a price instead of a promise: what costs more than it saves is not planned.
    """

    name: str
    priority: int = 0
    ttft: SloTarget | None = None
    wait: SloTarget | None = None
    itl: SloTarget | None = None
    listed_ttft_s: float | None = None
    throughput_tokens_per_s: float | None = None
    unserved_cost_per_request: float | None = None
    place: Place | None = None
