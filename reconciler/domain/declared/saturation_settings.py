"""What upstream's ConfigMaps say of saturation and of scaling to zero, and which entries hold for whom."""

from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, field
from typing import TypeVar

from reconciler.domain.identity import ModelKey, Place
from reconciler.domain.provenance import Source

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
    """A Namespace labelled `wva.llmd.ai/config-enabled`: its own ConfigMaps hold instead of the global ones."""

    cluster: str
    name: str
    place: Place


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


Entry = TypeVar("Entry", SaturationEntry, ZeroEntry)


def entries_for(entries: Iterable[Entry], opted_in: Set[tuple[str, str]], model: ModelKey) -> tuple[Entry, ...]:
    """Those of a cluster's entries that hold for a model, highest first: its own, its own anywhere, `default`.

    The ConfigMap of a namespace that is opted in (`opted_in` has its cluster and name) replaces the global one whole.
    """
    entries = tuple(entries)
    held = _in_force(entries, opted_in, model.cluster, model.namespace)
    names = (model.model_id, model.namespace), (model.model_id, ""), ("", "")
    return tuple(entry for name in names for entry in held if (entry.model_id, entry.model_namespace) == name)


def saturation_for(
    entries: Iterable[SaturationEntry], opted_in: Set[tuple[str, str]], model: ModelKey
) -> SaturationRules:
    """Lay the entries that hold for a model over one another, field by field, as upstream does.

    A `false` cannot take back a `true` below it, since upstream does not tell it from what is not written.
    """
    entries = tuple(entries)
    held = entries_for(entries, opted_in, model)
    default = tuple(entry for entry in held if not entry.model_id)
    overall = [each for each in entries if (model.cluster, each.namespace) not in opted_in and not each.model_id]
    return SaturationRules(
        layers=tuple(entry.layer for entry in held),
        analyzer=next((entry.analyzer for entry in overall), ""),
        analyzers=next((entry.analyzers for entry in held if entry.analyzers), ()),
        is_limited=any(entry.is_limited for entry in held),
        rescales=any(entry.rescales for entry in default),
        scales_to_zero=next((entry.scales_to_zero for entry in held if entry.scales_to_zero is not None), None),
        limiters=next((entry.limiters for entry in overall), ()),
    )


def zero_for(entries: Iterable[ZeroEntry], opted_in: Set[tuple[str, str]], model: ModelKey) -> ZeroRules:
    """Lay the entries that hold for a model over one another, field by field, as upstream does."""
    held = entries_for(entries, opted_in, model)
    deciding = next((entry for entry in held if entry.is_enabled is not None), None)
    return ZeroRules(
        is_enabled=deciding.is_enabled if deciding else None,
        retention_s=next((each.retention_s for each in held if each.retention_s is not None), DEFAULT_RETENTION_S),
        place=deciding.place if deciding else None,
    )


def _in_force(
    entries: tuple[Entry, ...], opted_in: Set[tuple[str, str]], cluster: str, namespace: str
) -> tuple[Entry, ...]:
    if (cluster, namespace) in opted_in:
        own = tuple(entry for entry in entries if entry.namespace == namespace)
        if own:
            return own
    return tuple(entry for entry in entries if (cluster, entry.namespace) not in opted_in)
