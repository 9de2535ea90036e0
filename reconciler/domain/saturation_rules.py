"""What upstream's ConfigMaps say for one model about saturation and scaling to zero."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from reconciler.domain.identity import Place, Source

DEFAULT_RETENTION_S = 600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ThresholdLayer:
    """What one source says of the thresholds; None leaves a threshold to the layers below. See `Thresholds`."""

    source: Source
    kv_cache_usage: float | None = None
    num_waiting: float | None = None
    kv_spare: float | None = None
    waiting_spare: float | None = None
    scale_up: float | None = None
    scale_down: float | None = None
    priority: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AnalyzerSettings:
    """One of the analyzers that vote; None leaves a threshold (0-1) to the entry that lists it."""

    name: str
    is_enabled: bool = True
    score: float = 1.0
    scale_up: float | None = None
    scale_down: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LimiterSettings:
    """A limiter of devices: `kind` is `gpu-inventory` or `quota`, `scope` is `cluster`, `namespace` or empty.

    `quotas` are devices by accelerator, `namespace_quotas` the same by namespace (`default`: each that is not named);
    -1 is unlimited, 0 is none. `excluded` namespaces are not limited.
    """

    name: str
    kind: str
    scope: str = ""
    quotas: Mapping[str, int] = field(default_factory=dict)
    namespace_quotas: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    excluded: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class SaturationRules:
    """What upstream's ConfigMaps say for one model of one namespace, all entries together.

    `layers` are the thresholds, highest first. `analyzer` is `percent` or `tokens`, empty when nothing selects one;
    upstream lets the global ConfigMap alone select it and the limiters. `scales_to_zero` None is not written.
    """

    layers: tuple[ThresholdLayer, ...] = ()
    analyzer: str = ""
    analyzers: tuple[AnalyzerSettings, ...] = ()
    is_limited: bool = False
    rescales: bool = False
    scales_to_zero: bool | None = None
    limiters: tuple[LimiterSettings, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ZeroRules:
    """Whether a model goes to zero `retention_s` after its last request; `is_enabled` None: nothing says."""

    is_enabled: bool | None = None
    retention_s: float = DEFAULT_RETENTION_S
    place: Place | None = None
    """The entry that says so."""
