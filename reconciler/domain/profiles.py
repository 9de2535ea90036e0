"""Performance profiles and service classes."""

from collections.abc import Mapping

from reconciler.domain.identity import Finding, Place, ResourceKey
from reconciler.domain.records import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class SloTarget:
    """A bound in seconds on a percentile (0-100) of a latency, or on its mean when `percentile` is None."""

    limit_s: float
    percentile: float | None = None

    @property
    def statistic(self) -> str:
        """`p95` or `mean`."""
        return "mean" if self.percentile is None else f"p{self.percentile:g}"


ATTAINMENT = 0.99
"""The share of requests that must keep their targets, where a class says none."""


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
    attainment: float = ATTAINMENT
    """The share of requests that must keep the targets, where a forecast decides how much is asked for."""
    place: Place | None = None


DECODE_ONLY, PREFILL_DECODE, SERIAL_PREFILL = "decode_only", "prefill_decode", "serial_prefill"
"""The queueing laws that a profile may be one of."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Learning:
    """How a profile was learned: the day (ISO), from how many samples, how well it fits them and what they covered.

    `reach` is the largest batch up to which the iteration time is sure; None: the largest that was seen.

    `error` is the median of |observed / fitted - 1| of the iteration time. `batch`, `input_tokens` and `output_tokens`
    are the smallest and largest values that were seen: nothing outside of them is known. `cached` is the share of
    prompts (0-1) that the prefix cache held, what is carried is divided by `margin`.
    """

    on: str
    samples: int
    error: float
    batch: tuple[float, float]
    input_tokens: tuple[float, float]
    output_tokens: tuple[float, float]
    reach: int | None = None
    cached: float = 0.0
    margin: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class PerformanceProfile:
    """Iteration time alpha + beta * batch; prefill gamma + delta * input tokens * batch, where it is given.

    With `prompt_s` prompts are computed one after the other instead: each of their tokens adds that much to the
    iteration it is in, `token_budget` tokens at most. Of what an iteration takes without them the share `overlap` (0-1)
    is free for computing tokens, which hide behind the memory that it reads.

    With speculation a step computes `step_tokens` tokens of a request and makes `tokens_per_step`.

    `max_batch_size` holds at `at_tokens` tokens a request when that is given, else at any length.
    `accelerators_per_replica` None: read it from the scale target's containers. `learning` None: it is configured.
    """

    accelerator: str
    alpha_s: float
    beta_s: float
    max_batch_size: int
    gamma_s: float | None = None
    delta_s: float | None = None
    prompt_s: float | None = None
    token_budget: int | None = None
    overlap: float = 0.0
    tokens_per_step: float = 1.0
    step_tokens: float = 1.0
    at_tokens: int | None = None
    accelerators_per_replica: int | None = None
    place: Place | None = None
    learning: Learning | None = None

    @property
    def times_s(self) -> Mapping[str, float | None]:
        """What its law takes, by the names of the configuration; None where the law has none."""
        return {
            "alpha": self.alpha_s,
            "beta": self.beta_s,
            "gamma": self.gamma_s,
            "delta": self.delta_s,
            "prefillPerToken": self.prompt_s,
        }

    @property
    def reach(self) -> int:
        """The largest batch that it is sure of: all that somebody gave, of a learned one what history tells."""
        if self.learning is None or self.learning.reach is None:
            return self.max_batch_size
        return self.learning.reach

    @property
    def law(self) -> str:
        """The queueing law these parameters belong to."""
        if self.prompt_s is not None:
            return SERIAL_PREFILL
        return DECODE_ONLY if self.gamma_s is None and self.delta_s is None else PREFILL_DECODE


@dataclass(frozen=True, slots=True, kw_only=True)
class FittedModel:
    """A model on an accelerator, learned from what its `variants` reported: `profile`, else the `reason` for none.

    `prefill_error` is the median of |observed / fitted - 1| of the time to first token without waiting, None without
    a prefill law. Unless `is_full_batch_seen` the profile's batch is only the largest that was seen. `notes` say what
    a reader must know of the profile. `given` is what somebody wrote in its place, to compare with.
    """

    model_id: str
    accelerator: str
    variants: tuple[ResourceKey, ...]
    profile: PerformanceProfile | None = None
    reason: str = ""
    samples: int = 0
    prefill_error: float | None = None
    is_full_batch_seen: bool = False
    notes: tuple[str, ...] = ()
    given: PerformanceProfile | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class UnusedVariant:
    """A variant that nothing was learned from, and why."""

    variant: ResourceKey
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Fitting:
    """Everything that was learned at `now_s` (Unix seconds) from the `since_s` before it, a sample each `step_s`.

    `models` and `unused` are sorted. `failures` has one sentence for each cluster whose Prometheus failed, `warnings`
    are Prometheus' own words.
    """

    now_s: float
    since_s: float
    step_s: float
    repository: str
    branch: str
    commit: str
    models: tuple[FittedModel, ...] = ()
    unused: tuple[UnusedVariant, ...] = ()
    findings: tuple[Finding, ...] = ()
    failures: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def learned(self) -> Mapping[str, tuple[PerformanceProfile, ...]]:
        """The profiles by model id, as a configuration holds them."""
        found: dict[str, tuple[PerformanceProfile, ...]] = {}
        for model in self.models:
            if model.profile is not None:
                found[model.model_id] = (*found.get(model.model_id, ()), model.profile)
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptProfiles:
    """The file of learned profiles after a fit: its path from the repository's root, and its whole text.

    `is_changed` is whether it was written; `is_extended` whether the configuration of the base commit reads it.
    """

    path: str
    text: str
    is_changed: bool
    is_extended: bool
