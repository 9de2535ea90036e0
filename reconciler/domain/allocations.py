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

    All latencies are means; where a service class asks for a percentile, it is derived from them.
    """

    itl_s: float | None = None
    wait_s: float | None = None
    ttft_s: float | None = None
    utilization: float | None = None
