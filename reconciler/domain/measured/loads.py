"""Load as observed: arrivals and token lengths of a model, and how each of its variants does under it."""

from dataclasses import dataclass, field
from enum import StrEnum

from reconciler.domain.measured.answers import NoAnswer


class ArrivalSource(StrEnum):
    """Who counted a model's arrivals, as every output names it."""

    CONFIGURED = "configured query arrivalRate"
    ENDPOINT_PICKER = "endpoint picker"
    REPLICAS = "completions and queue growth"


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """A model's arrivals and mean token lengths over the last `window_s` seconds.

    `input_spread` is the variance of the prompts' lengths over their squared mean, None where no histogram tells it.
    Where nothing arrived, lengths are those of what came before; 0 when nobody knows of any. `alternatives` are those
    of the query for what was finished that told of it, as its series number them.
    """

    arrival_rate_per_s: float
    output_tokens: float
    input_tokens: float | None
    window_s: float
    arrivals_from: ArrivalSource
    input_spread: float | None = None
    alternatives: tuple[str, ...] = ()

    @property
    def has_lengths(self) -> bool:
        """Whether a request has a length, so that what a replica carries of them can be told."""
        return self.output_tokens > 0

    @property
    def is_by_replicas(self) -> bool:
        """Whether a replica that does not report is load that nobody saw."""
        return self.arrivals_from is ArrivalSource.REPLICAS


@dataclass(frozen=True, slots=True, kw_only=True)
class PastArrivals:
    """A model's arrivals before now, as whoever counted its load counted them then.

    Element i is the rate over the `window_s` before `start_s + i * step_s`; NaN is not known, which is not zero.
    `output_tokens` and `input_tokens` are of a request then, likewise; empty where nobody asked. `reason` says why a
    part is missing, where that is known.
    """

    start_s: float
    step_s: float
    window_s: float
    rates_per_s: tuple[float, ...]
    output_tokens: tuple[float, ...] = ()
    input_tokens: tuple[float, ...] = ()
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class UsualLoad:
    """What a model's replicas finished over a day, and in the same hour a week ago; its moments as in `PastArrivals`.

    Lengths are of a request: NaN where none was finished.
    """

    start_s: float
    step_s: float
    rates_per_s: tuple[float, ...]
    output_tokens: tuple[float, ...]
    input_tokens: tuple[float, ...]


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

    def mean_s(self, name: str) -> float | None:
        """The mean of a latency by its name: itl, ttft or wait."""
        return {"itl": self.itl_s, "ttft": self.ttft_s, "wait": self.wait_s}.get(name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """What Prometheus says of one variant: its replicas' metrics, attributed to it.

    `absence` says why it must not be trusted.
    """

    performance: Performance
    arrival_rate_per_s: float | None = None
    num_running: float | None = None
    num_waiting: float | None = None
    replicas_reporting: int = 0
    age_s: float | None = field(default=None, compare=False)
    """How long ago its newest sample was taken."""
    absence: NoAnswer | None = None
