"""Allocations: what runs now, what is wanted, and one feasible choice."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Allocation:
    """Replicas on an accelerator; `accelerator` is empty when it is unknown."""

    accelerator: str
    replicas: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Performance:
    """What a law expects, or Prometheus observed, of a variant at a load; None is not known.

    `itl_s`, `wait_s` and `ttft_s` are means; `itl_percentile_s` and `ttft_percentile_s` are at the percentiles that the
    service class asks for (waiting alone under a law that knows no prefill), None where it asks for means.
    """

    itl_s: float | None = None
    wait_s: float | None = None
    ttft_s: float | None = None
    utilization: float | None = None
    itl_percentile_s: float | None = None
    ttft_percentile_s: float | None = None
