"""Gauges of our own: what a run tells Prometheus of the fleet and of itself."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from reconciler.domain.identity import ResourceKey
from reconciler.domain.plan import Decision, Plan
from reconciler.domain.reported.outcomes import MergedOutcome

Labels = Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnGauge:
    """One metric with its series; `words` say what it is."""

    name: str
    words: str
    series: tuple[tuple[Labels, float], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenPullRequest:
    """A pull request of ours that is open when a run ends; `opened_s` None where the forge does not say."""

    group: str
    number: int
    opened_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ForecastRatio:
    """What came by what was forecast of a variant when its last change was merged; `quantity` says of what.

    `capacity` is by what its replicas are expected to carry now, `demand` by arrivals that are measured; `itl`, `ttft`
    and `wait` are measured means.
    """

    decision: Decision
    quantity: str
    ratio: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Savings:
    """What merges save in an hour now, and have saved so far; below 0 they cost more."""

    per_hour: float
    so_far: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOutcome:
    """What there is to tell of a run that ended at `ended_s` (Unix seconds) with `exit_code`.

    A run that failed has no `plan`. `live` are replicas that scale targets ask for in their cluster, `bounded` variants
    whose numbers in Git are bounds of an autoscaler. `merges` of the last hour; `acts` and `traffic` are seconds by act
    and (requests, failures) by host. `judged` are merges whose promise can be judged now; `savings` None: no merges.
    """

    ended_s: float
    exit_code: int
    run_interval_s: float
    version: str
    plan: Plan | None = None
    live: Mapping[ResourceKey, float] = field(default_factory=dict)
    bounded: frozenset[ResourceKey] = frozenset()
    is_paused: bool = False
    pull_requests: tuple[OpenPullRequest, ...] = ()
    merges: int = 0
    judged: tuple[MergedOutcome, ...] = ()
    forecasts: tuple[ForecastRatio, ...] = ()
    savings: Savings | None = None
    acts: Mapping[str, float] = field(default_factory=dict)
    traffic: Mapping[str, tuple[int, int]] = field(default_factory=dict)

    @property
    def is_success(self) -> bool:
        """Whether all of it was done: what an author must mend fails a command, and no run."""
        return self.plan is not None and self.exit_code in (0, 2, 3)
