"""Upstream's ConfigMaps about saturation and scaling to zero: their entries, and which hold for a model."""

from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, replace
from typing import Annotated, Generic, Literal, TypeVar

from pydantic import Field

from reconciler.domain.identity import Finding, ModelKey, Place, Severity, Source, SourceKind
from reconciler.domain.saturation_rules import (
    DEFAULT_RETENTION_S,
    AnalyzerSettings,
    LimiterSettings,
    SaturationRules,
    ThresholdLayer,
    ZeroRules,
)
from reconciler.errors import InputError
from reconciler.manifests.wording import quote
from reconciler.resources.kubernetes.fields import EmbeddedYaml, parse_duration, parse_embedded
from reconciler.resources.objects import KubernetesObject, Piece
from reconciler.resources.validation import LooseShape, Shape, validate
from reconciler.resources.variants import UpstreamNamespace

_DEFAULT = "default"
_LEFT_OUT = "this entry is left out"


class EntryFields(Shape):
    """What names the model of an entry; older versions have it in the key, as `{modelID}#{namespace}`."""

    model_id: Annotated[str | None, Field(alias="model_id")] = None
    namespace: Annotated[str | None, Field(alias="namespace")] = None


Fields = TypeVar("Fields", bound=EntryFields)


@dataclass(frozen=True, slots=True)
class ConfigMapEntry(Generic[Fields]):
    """An entry that can be read; `model_id` empty holds for every model, `namespace` empty in any namespace."""

    text: EmbeddedYaml
    fields: Fields
    model_id: str = ""
    namespace: str = ""

    @property
    def place(self) -> Place:
        """The entry's key."""
        return self.text.source.locate(("data", self.text.key))

    def reject(self, path: tuple[str | int, ...], message: str) -> Finding:
        """A warning about one of its fields, because of which it is left out."""
        return _reject(self.text.locate(path), message)


def read_entries(
    source: KubernetesObject, texts: Mapping[str, object], model: type[Fields]
) -> Iterator[ConfigMapEntry[Fields] | Finding]:
    """Every entry that can be read, in the order of the keys, and what is wrong with the others.

    Of two for one model the first key has it, as upstream.
    """
    first_keys: dict[tuple[str, str], str] = {}
    for key in sorted(texts):
        for found in _read_entry(source, key, texts[key], model):
            if isinstance(found, ConfigMapEntry):
                first = first_keys.setdefault((found.model_id, found.namespace), key)
                if first != key:
                    yield _reject(found.place, f"{quote(first)} is for the same model")
                    continue
            yield found


def _read_entry(
    source: KubernetesObject, key: str, value: object, model: type[Fields]
) -> Iterator[ConfigMapEntry[Fields] | Finding]:
    try:
        text = parse_embedded(source, key, value, "one mapping in YAML")
    except InputError as error:
        yield _reject(Place(path=error.path, line=error.line, field=error.field), error.message)
        return
    validated = validate(
        model, text.document.value, locate=text.locate, unknown=Severity.WARNING, severity=Severity.WARNING
    )
    for finding in validated.findings:
        # Without a value something other than an unknown field is wrong, and all that is wrong is worth telling.
        yield finding if validated.value is not None else _reject(finding.place, finding.message)
    if validated.value is not None:
        yield from _name_model(ConfigMapEntry(text, validated.value))


def _name_model(entry: ConfigMapEntry[Fields]) -> Iterator[ConfigMapEntry[Fields] | Finding]:
    key, fields = entry.text.key, entry.fields
    if key == _DEFAULT:
        yield entry
        return
    model_id, _, namespace = key.rpartition("#")
    model_id, namespace = (fields.model_id, fields.namespace or "") if fields.model_id else (model_id, namespace)
    if model_id:
        yield ConfigMapEntry(entry.text, fields, model_id, namespace)
    else:
        yield entry.reject((), f"expected model_id, or the key {_DEFAULT}, found neither")


def _reject(place: Place, message: str) -> Finding:
    return Finding(place=place, severity=Severity.WARNING, message=f"{message}: {_LEFT_OUT}")


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


@dataclass(frozen=True, slots=True, kw_only=True)
class UpstreamSettings:
    """One ConfigMap of the upstream autoscaler with the entries of it that can be used."""

    cluster: str
    namespace: str
    name: str
    place: Place
    saturation: tuple[SaturationEntry, ...] = ()
    zero: tuple[ZeroEntry, ...] = ()


SATURATION_CONFIG_MAPS = ("wva-saturation-scaling-config", "saturation-scaling-config", "capacity-scaling-config")
"""The names that upstream has given it, the newest first."""

_TOKENS = "saturation"
_LARGEST_QUOTA = 1_048_576

_Fraction = Annotated[float, Field(ge=0, le=1, description="a number from 0 to 1")]
_Amount = Annotated[float, Field(ge=0, le=1e9, description="a number of at least 0")]
_Quotas = dict[
    str, Annotated[int, Field(ge=-1, le=_LARGEST_QUOTA, description="a whole number of devices, or -1 for no limit")]
]


class _Parameters(LooseShape):
    """The older way to write what now stands beside it; others are an analyzer's own."""

    enabled: bool | None = None
    score: _Amount | None = None
    scale_up_threshold: _Fraction | None = None
    scale_down_boundary: _Fraction | None = None


class _Analyzer(Shape):
    type: str | None = None
    name: str | None = None
    enabled: bool | None = None
    score: _Amount | None = None
    scale_up_threshold: _Fraction | None = None
    scale_down_boundary: _Fraction | None = None
    parameters: _Parameters | None = None


class _Limiter(Shape):
    name: str | None = None
    type: Literal["gpu-inventory", "inventory", "quota"] = "gpu-inventory"
    scope: Literal["cluster", "namespace"] | None = None
    quotas: _Quotas | None = None
    namespace_quotas: dict[str, _Quotas] | None = None
    exclude: list[str] | None = None


class _ScaleToZero(Shape):
    enabled: bool | None = None


class _EntryFields(EntryFields):
    kv_cache_threshold: _Fraction | None = None
    queue_length_threshold: _Amount | None = None
    kv_spare_trigger: _Fraction | None = None
    queue_spare_trigger: _Amount | None = None
    scale_up_threshold: _Fraction | None = None
    scale_down_boundary: _Fraction | None = None
    priority: _Amount | None = None
    enable_limiter: bool | None = None
    enable_rescale: bool | None = None
    analyzer_name: str | None = None
    analyzers: list[_Analyzer] | None = None
    scale_to_zero: _ScaleToZero | None = None
    limiters: list[_Limiter] | None = None


def read_saturation(source: KubernetesObject, texts: Mapping[str, object]) -> Iterator[Piece]:
    """The valid entries of one ConfigMap, and what is wrong with the others."""
    entries: list[SaturationEntry] = []
    for entry in read_entries(source, texts, _EntryFields):
        if isinstance(entry, Finding):
            yield entry
            continue
        findings = tuple(_find_contradictions(entry))
        yield from findings
        if not findings:
            entries.append(_as_saturation(entry))
    yield UpstreamSettings(
        cluster=source.cluster,
        namespace=source.namespace,
        name=source.name,
        place=source.place,
        saturation=tuple(entries),
    )


def _find_contradictions(entry: ConfigMapEntry[_EntryFields]) -> Iterator[Finding]:
    """What no field says alone; where the other value is not written it is left to the layer that has it."""
    fields = entry.fields
    spare, most = fields.kv_spare_trigger, fields.kv_cache_threshold
    if spare and most and spare > most:
        yield entry.reject(("kvSpareTrigger",), f"expected at most kvCacheThreshold ({most:g}), got {spare:g}")
    yield from _find_inverted(entry, (), fields.scale_up_threshold, fields.scale_down_boundary)
    for index, analyzer in enumerate(map(_as_analyzer, fields.analyzers or ())):
        path = ("analyzers", index)
        if not analyzer.name:
            yield entry.reject(path, "expected a name or a type, found nothing")
        elif analyzer.scale_up or analyzer.scale_down:
            up, down = analyzer.scale_up or fields.scale_up_threshold, analyzer.scale_down or fields.scale_down_boundary
            yield from _find_inverted(entry, path, up, down)
    for index, limiter in enumerate(fields.limiters or ()):
        yield from _find_misplaced(entry, ("limiters", index), limiter)
    yield from _find_repeated(entry)


def _find_inverted(
    entry: ConfigMapEntry[_EntryFields], path: tuple[str | int, ...], up: float | None, down: float | None
) -> Iterator[Finding]:
    if up and down and down >= up:
        yield entry.reject((*path, "scaleDownBoundary"), f"expected less than scaleUpThreshold ({up:g}), got {down:g}")


def _find_misplaced(
    entry: ConfigMapEntry[_EntryFields], path: tuple[str | int, ...], limiter: _Limiter
) -> Iterator[Finding]:
    """Fields of a limiter that its type does not have, or lacks."""
    if limiter.type == "quota":
        for name, value, expected in (
            ("name", limiter.name, "a name"),
            ("scope", limiter.scope, '"cluster" or "namespace"'),
        ):
            if not value:
                yield entry.reject((*path, name), f"expected {expected} beside type: quota, found nothing")
        return
    for name, given in (
        ("scope", limiter.scope),
        ("quotas", limiter.quotas),
        ("namespaceQuotas", limiter.namespace_quotas),
        ("exclude", limiter.exclude),
    ):
        if given:
            yield entry.reject((*path, name), "expected only beside type: quota")


def _find_repeated(entry: ConfigMapEntry[_EntryFields]) -> Iterator[Finding]:
    seen: dict[str, int] = {}
    for index, limiter in enumerate(entry.fields.limiters or ()):
        first = seen.setdefault(limiter.name or "", index)
        if limiter.name and first != index:
            message = f"{quote(limiter.name)} is already the name of limiters[{first}]: names must be unique"
            yield entry.reject(("limiters", index, "name"), message)


def _as_saturation(entry: ConfigMapEntry[_EntryFields]) -> SaturationEntry:
    fields, source = entry.fields, entry.text.source
    uses_tokens = bool(fields.analyzers) or fields.analyzer_name == _TOKENS
    return SaturationEntry(
        namespace=source.namespace,
        config_map=source.name,
        key=entry.text.key,
        layer=_as_layer(entry),
        place=entry.place,
        model_id=entry.model_id,
        model_namespace=entry.namespace,
        analyzer="" if entry.model_id else "tokens" if uses_tokens else "percent",
        analyzers=tuple(map(_as_analyzer, fields.analyzers or ())),
        is_limited=fields.enable_limiter,
        rescales=fields.enable_rescale,
        scales_to_zero=fields.scale_to_zero.enabled if fields.scale_to_zero else None,
        limiters=tuple(map(_as_limiter, fields.limiters or ())),
    )


def _as_layer(entry: ConfigMapEntry[_EntryFields]) -> ThresholdLayer:
    fields = entry.fields
    return ThresholdLayer(
        source=Source(kind=SourceKind.CONFIG_MAP, place=entry.place, detail=f"ConfigMap {entry.text.source.name}"),
        kv_cache_usage=fields.kv_cache_threshold or None,
        num_waiting=fields.queue_length_threshold or None,
        kv_spare=fields.kv_spare_trigger or None,
        waiting_spare=fields.queue_spare_trigger or None,
        scale_up=fields.scale_up_threshold or None,
        scale_down=fields.scale_down_boundary or None,
        priority=fields.priority or None,
    )


def _as_analyzer(analyzer: _Analyzer) -> AnalyzerSettings:
    parameters = analyzer.parameters or _Parameters()
    enabled = parameters.enabled if analyzer.enabled is None else analyzer.enabled
    return AnalyzerSettings(
        name=analyzer.type or analyzer.name or "",
        is_enabled=enabled is not False,
        score=analyzer.score or parameters.score or 1.0,
        scale_up=analyzer.scale_up_threshold or parameters.scale_up_threshold or None,
        scale_down=analyzer.scale_down_boundary or parameters.scale_down_boundary or None,
    )


def _as_limiter(limiter: _Limiter) -> LimiterSettings:
    return LimiterSettings(
        name=limiter.name or "",
        kind="quota" if limiter.type == "quota" else "gpu-inventory",
        scope=limiter.scope or "",
        quotas=limiter.quotas or {},
        namespace_quotas=limiter.namespace_quotas or {},
        excluded=frozenset(limiter.exclude or ()),
    )


ZERO_CONFIG_MAP = "wva-model-scale-to-zero-config"


class _ZeroFields(EntryFields):
    enable_scale_to_zero: Annotated[bool | None, Field(alias="enable_scale_to_zero")] = None
    retention_period: Annotated[str | None, Field(alias="retention_period")] = None


def read_zero(source: KubernetesObject, texts: Mapping[str, object]) -> Iterator[Piece]:
    """The valid entries of the ConfigMap, and what is wrong with the others."""
    entries: list[ZeroEntry] = []
    for entry in read_entries(source, texts, _ZeroFields):
        if isinstance(entry, Finding):
            yield entry
            continue
        written = entry.fields.retention_period
        retention_s = _parse_period(written) if written else None
        if written and retention_s is None:
            # Unlike another mistake this one leaves the rest of the entry in force.
            message = f"expected a duration above zero like 10m, got {quote(written)}: this period is left out"
            yield Finding(place=entry.text.locate(("retention_period",)), severity=Severity.WARNING, message=message)
        entries.append(
            ZeroEntry(
                namespace=entry.text.source.namespace,
                key=entry.text.key,
                place=entry.place,
                model_id=entry.model_id,
                model_namespace=entry.namespace,
                is_enabled=entry.fields.enable_scale_to_zero,
                retention_s=retention_s,
            )
        )
    yield UpstreamSettings(
        cluster=source.cluster, namespace=source.namespace, name=source.name, place=source.place, zero=tuple(entries)
    )


def _parse_period(text: str) -> float | None:
    try:
        seconds = parse_duration(text)
    except ValueError:
        return None
    return seconds if seconds > 0 else None


_NOWHERE = Place(path="")


@dataclass(frozen=True, slots=True)
class UpstreamInForce:
    """The entries that hold, by cluster, and what is wrong with the ConfigMaps beside each other."""

    saturation: dict[str, tuple[SaturationEntry, ...]]
    zero: dict[str, tuple[ZeroEntry, ...]]
    findings: tuple[Finding, ...]


def choose_in_force(
    config_maps: Iterable[UpstreamSettings], namespaces: Iterable[UpstreamNamespace]
) -> UpstreamInForce:
    """Keep one ConfigMap of each purpose for each namespace that is opted in, and one for all the others.

    Where upstream itself runs is not known, so every other namespace may hold the global one. Of several the one with
    the newest name is kept, then the first by its path; another that says otherwise is a warning.
    """
    opted_in = {(each.cluster, each.name) for each in namespaces}
    kept: dict[tuple[str, str, bool], UpstreamSettings] = {}
    findings: list[Finding] = []
    for config_map in sorted(config_maps, key=_rank):
        is_local = (config_map.cluster, config_map.namespace) in opted_in
        scope = config_map.cluster, config_map.namespace if is_local else "", _is_saturation(config_map)
        first = kept.setdefault(scope, config_map)
        if _say(first) != _say(config_map):
            this, other = f"{config_map.namespace}/{config_map.name}", f"{first.namespace}/{first.name}"
            message = (
                f"ConfigMap {this} says otherwise than {other} at {first.place}, "
                "which is used: keep one, or label the namespace of the other wva.llmd.ai/config-enabled"
            )
            place = replace(config_map.place, field="metadata.name")
            findings.append(Finding(place=place, severity=Severity.WARNING, message=message))
    saturation: dict[str, tuple[SaturationEntry, ...]] = {}
    zero: dict[str, tuple[ZeroEntry, ...]] = {}
    for config_map in kept.values():
        if config_map.saturation:
            saturation[config_map.cluster] = (*saturation.get(config_map.cluster, ()), *config_map.saturation)
        if config_map.zero:
            zero[config_map.cluster] = (*zero.get(config_map.cluster, ()), *config_map.zero)
    return UpstreamInForce(saturation, zero, tuple(findings))


def _is_saturation(config_map: UpstreamSettings) -> bool:
    return config_map.name in SATURATION_CONFIG_MAPS


def _rank(config_map: UpstreamSettings) -> tuple[str, int, Place]:
    age = SATURATION_CONFIG_MAPS.index(config_map.name) if _is_saturation(config_map) else 0
    return config_map.cluster, age, config_map.place


def _say(config_map: UpstreamSettings) -> tuple[object, object]:
    """What it says, wherever it stands and whatever it is called."""
    saturation = [
        replace(
            entry,
            namespace="",
            config_map="",
            place=_NOWHERE,
            layer=replace(entry.layer, source=replace(entry.layer.source, place=_NOWHERE, detail="")),
        )
        for entry in config_map.saturation
    ]
    return saturation, [replace(entry, namespace="", place=_NOWHERE) for entry in config_map.zero]
