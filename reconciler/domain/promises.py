"""Promise: what a pull request said that a change would do, kept so that what came can be held against it."""

from dataclasses import dataclass

from reconciler.domain.inventory import Allocation


@dataclass(frozen=True, slots=True, kw_only=True)
class PromisedLatency:
    """A target that was to be kept; `name` is itl, wait or ttft, times are in seconds, None was not known.

    `expected_s` is the forecast in the target's own `statistic`, `mean_s` the forecast mean, which is what is measured;
    `measured_s` the mean that was measured before the change.
    """

    name: str
    statistic: str
    target_s: float
    expected_s: float | None = None
    mean_s: float | None = None
    measured_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Promise:
    """What was forecast of one changed variant; `resource` is str(ResourceKey), None was not known.

    `demand` is the share of the model's demand that the variant was to serve and `capacity` what it was to carry, in
    `unit`. The load is what was measured of the whole model then, without headroom. `reverts` numbers the pull request
    that the change takes back.
    """

    resource: str
    unit: str
    demand: float | None = None
    capacity: float | None = None
    cost_per_hour: float | None = None
    arrival_rate_per_s: float | None = None
    input_tokens: float | None = None
    output_tokens: float | None = None
    latencies: tuple[PromisedLatency, ...] = ()
    reverts: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokenPromise:
    """A merged pull request of ours that broke what it promised of a variant, which had `before` and got `after`.

    `least` is how many replicas the variant keeps for it, where it stays on its accelerator. `reverted_by` numbers the
    pull request that took the change back (None: nobody did yet): then it is remembered, so that it does not return.
    """

    number: int
    before: Allocation
    after: Allocation
    least: int
    words: str
    reverted_by: int | None = None

    @property
    def is_move(self) -> bool:
        """Whether it moved the variant to another accelerator."""
        return self.before.accelerator != self.after.accelerator
