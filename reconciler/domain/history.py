"""History: what one replica reported over time, on a grid that all of a run's series share."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from reconciler.domain.identity import ResourceKey


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
