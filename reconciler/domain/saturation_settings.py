"""What upstream's ConfigMaps say of saturation and of scaling to zero, and which entries hold for whom."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from reconciler.domain.identity import Place
from reconciler.domain.thresholds import ThresholdLayer

DEFAULT_RETENTION_S = 600.0


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
class SaturationEntry:
    """One entry of upstream's saturation ConfigMap, which stands in `namespace`.

    `model_id` empty: the entry `default`; `model_namespace` empty: the model in any namespace. `analyzer` is
    `percent` or `tokens`, for all of the ConfigMap; only its `default` says so. None is not written.
    """

    namespace: str
    config_map: str
    key: str
    layer: ThresholdLayer
    place: Place
    model_id: str = ""
    model_namespace: str = ""
    analyzer: str = ""
    analyzers: tuple[AnalyzerSettings, ...] = ()
    is_limited: bool | None = None
    rescales: bool | None = None
    scales_to_zero: bool | None = None
    limiters: tuple[LimiterSettings, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ZeroEntry:
    """One entry of `wva-model-scale-to-zero-config`: whether a model without requests goes to zero, and when.

    `model_id` empty: the entry `default`. `is_enabled` None is not written; `retention_s` is the time without
    requests, None when it is not written (10 minutes then).
    """

    namespace: str
    key: str
    place: Place
    model_id: str = ""
    model_namespace: str = ""
    is_enabled: bool | None = None
    retention_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class UpstreamNamespace:
    """What upstream's marks on a Namespace say.

    `is_opted_in`: labelled `wva.llmd.ai/config-enabled`, its own ConfigMaps hold instead of the global ones.
    `is_excluded`: annotated `wva.llmd.ai/exclude`, upstream leaves it alone.
    """

    cluster: str
    name: str
    place: Place
    is_opted_in: bool = False
    is_excluded: bool = False
