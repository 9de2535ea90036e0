"""What learning from history came to: a profile or a reason for each model and accelerator, and who was left out."""

from collections.abc import Mapping
from dataclasses import dataclass

from reconciler.domain.findings import Finding
from reconciler.domain.identity import ResourceKey
from reconciler.domain.profiles import PerformanceProfile


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
