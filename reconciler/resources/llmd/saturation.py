"""Upstream's ConfigMaps about saturation and scaling to zero: their entries, and which hold for a model."""

from collections.abc import Iterable, Iterator, Mapping, Set
from typing import Annotated, Generic, Literal, TypeAlias, TypeVar

from pydantic import Field

from reconciler.domain.identity import Finding, ModelKey, Place, Severity, Source, SourceKind
from reconciler.domain.records import dataclass, replace
from reconciler.domain.settings import (
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
Fields_co = TypeVar("Fields_co", bound=EntryFields, covariant=True)


@dataclass(frozen=True, slots=True)
class ConfigMapEntry(Generic[Fields_co]):
    """An entry that can be read: `model_id` empty is the entry `default`, `model_namespace` empty any namespace."""

    text: EmbeddedYaml
    fields: Fields_co
    model_id: str = ""
    model_namespace: str = ""

    @property
    def namespace(self) -> str:
        """Of its ConfigMap."""
        return self.text.source.namespace

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
                first = first_keys.setdefault((found.model_id, found.model_namespace), key)
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
    """The older way to write the fields of an analyzer; others are its own."""

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


class SaturationFields(EntryFields):
    """An entry of upstream's saturation ConfigMap."""

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


class ZeroFields(EntryFields):
    """An entry of `wva-model-scale-to-zero-config`."""

    enable_scale_to_zero: Annotated[bool | None, Field(alias="enable_scale_to_zero")] = None
    retention_period: Annotated[str | None, Field(alias="retention_period")] = None

    @property
    def retention_s(self) -> float | None:
        """The time without requests; None when it is not written or no duration above zero."""
        try:
            seconds = parse_duration(self.retention_period or "")
        except ValueError:
            return None
        return seconds if seconds > 0 else None


SaturationEntry: TypeAlias = ConfigMapEntry[SaturationFields]
ZeroEntry: TypeAlias = ConfigMapEntry[ZeroFields]


@dataclass(frozen=True, slots=True, kw_only=True)
class UpstreamSettings:
    """One ConfigMap of the upstream autoscaler with the entries of it that can be used."""

    cluster: str
    namespace: str
    name: str
    place: Place
    saturation: tuple[SaturationEntry, ...] = ()
    zero: tuple[ZeroEntry, ...] = ()


def entries_for(
    entries: Iterable[ConfigMapEntry[Fields]], opted_in: Set[tuple[str, str]], model: ModelKey
) -> tuple[ConfigMapEntry[Fields], ...]:
    """Those of a cluster's entries that hold for a model, highest first: its own, its own anywhere, `default`.

    The ConfigMap of a namespace that is opted in (`opted_in` has its cluster and name) replaces the global one whole.
    """
    entries = tuple(entries)
    held = tuple(each for each in entries if each.namespace == model.namespace)
    if (model.cluster, model.namespace) not in opted_in or not held:
        held = tuple(each for each in entries if (model.cluster, each.namespace) not in opted_in)
    names = (model.model_id, model.namespace), (model.model_id, ""), ("", "")
    return tuple(entry for name in names for entry in held if (entry.model_id, entry.model_namespace) == name)


def saturation_for(
    entries: Iterable[SaturationEntry], opted_in: Set[tuple[str, str]], model: ModelKey
) -> SaturationRules:
    """Lay the entries that hold for a model over one another, field by field, as upstream does.

    A `false` cannot take back a `true` below it, since upstream does not distinguish it from what is not written.
    """
    entries = tuple(entries)
    held = entries_for(entries, opted_in, model)
    overall = (each for each in entries if (model.cluster, each.namespace) not in opted_in and not each.model_id)
    selecting = next(overall, None)
    toggles = [each.fields.scale_to_zero.enabled for each in held if each.fields.scale_to_zero]
    return SaturationRules(
        layers=tuple(_as_layer(entry) for entry in held),
        analyzer=_analyzer_of(selecting) if selecting else "",
        analyzers=next((_as_analyzers(entry) for entry in held if entry.fields.analyzers), ()),
        is_limited=any(entry.fields.enable_limiter for entry in held),
        rescales=any(entry.fields.enable_rescale for entry in held if not entry.model_id),
        scales_to_zero=next((each for each in toggles if each is not None), None),
        limiters=_as_limiters(selecting) if selecting else (),
    )


def zero_for(entries: Iterable[ZeroEntry], opted_in: Set[tuple[str, str]], model: ModelKey) -> ZeroRules:
    """Lay the entries that hold for a model over one another, field by field, as upstream does."""
    held = entries_for(entries, opted_in, model)
    deciding = next((entry for entry in held if entry.fields.enable_scale_to_zero is not None), None)
    periods = (each.fields.retention_s for each in held)
    return ZeroRules(
        is_enabled=deciding.fields.enable_scale_to_zero if deciding else None,
        retention_s=next((each for each in periods if each is not None), DEFAULT_RETENTION_S),
        place=deciding.place if deciding else None,
    )


def read_saturation(source: KubernetesObject, texts: Mapping[str, object]) -> Iterator[Piece]:
    """The valid entries of one ConfigMap, and what is wrong with the others."""
    entries: list[SaturationEntry] = []
    for entry in read_entries(source, texts, SaturationFields):
        if isinstance(entry, Finding):
            yield entry
            continue
        findings = tuple(_find_contradictions(entry))
        yield from findings
        if not findings:
            entries.append(entry)
    yield UpstreamSettings(
        cluster=source.cluster,
        namespace=source.namespace,
        name=source.name,
        place=source.place,
        saturation=tuple(entries),
    )


def _find_contradictions(entry: SaturationEntry) -> Iterator[Finding]:
    """What no field says alone; where the other value is not written it is left to the layer that has it."""
    fields = entry.fields
    spare, most = fields.kv_spare_trigger, fields.kv_cache_threshold
    if spare and most and spare > most:
        yield entry.reject(("kvSpareTrigger",), f"expected at most kvCacheThreshold ({most:g}), got {spare:g}")
    yield from _find_inverted(entry, (), fields.scale_up_threshold, fields.scale_down_boundary)
    for index, analyzer in enumerate(_as_analyzers(entry)):
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
    entry: SaturationEntry, path: tuple[str | int, ...], up: float | None, down: float | None
) -> Iterator[Finding]:
    if up and down and down >= up:
        yield entry.reject((*path, "scaleDownBoundary"), f"expected less than scaleUpThreshold ({up:g}), got {down:g}")


def _find_misplaced(entry: SaturationEntry, path: tuple[str | int, ...], limiter: _Limiter) -> Iterator[Finding]:
    """Fields of a limiter that its type does not have, or lacks."""
    if limiter.type == "quota":
        for name, value, expected in (
            ("name", limiter.name, "a name"),
            ("scope", limiter.scope, '"cluster" or "namespace"'),
        ):
            if not value:
                yield entry.reject((*path, name), f"expected {expected} with type: quota, found nothing")
        return
    for name, given in (
        ("scope", limiter.scope),
        ("quotas", limiter.quotas),
        ("namespaceQuotas", limiter.namespace_quotas),
        ("exclude", limiter.exclude),
    ):
        if given:
            yield entry.reject((*path, name), "expected only with type: quota")


def _find_repeated(entry: SaturationEntry) -> Iterator[Finding]:
    seen: dict[str, int] = {}
    for index, limiter in enumerate(entry.fields.limiters or ()):
        first = seen.setdefault(limiter.name or "", index)
        if limiter.name and first != index:
            message = f"{quote(limiter.name)} is already the name of limiters[{first}]: names must be unique"
            yield entry.reject(("limiters", index, "name"), message)


def _analyzer_of(entry: SaturationEntry) -> str:
    """The analyzer that an entry selects for its whole ConfigMap; only `default` does."""
    uses_tokens = bool(entry.fields.analyzers) or entry.fields.analyzer_name == _TOKENS
    return "" if entry.model_id else "tokens" if uses_tokens else "percent"


def _as_layer(entry: SaturationEntry) -> ThresholdLayer:
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


def _as_analyzers(entry: SaturationEntry) -> tuple[AnalyzerSettings, ...]:
    pairs = [(each, each.parameters or _Parameters()) for each in entry.fields.analyzers or ()]
    return tuple(
        AnalyzerSettings(
            name=own.type or own.name or "",
            is_enabled=(older.enabled if own.enabled is None else own.enabled) is not False,
            score=own.score or older.score or 1.0,
            scale_up=own.scale_up_threshold or older.scale_up_threshold or None,
            scale_down=own.scale_down_boundary or older.scale_down_boundary or None,
        )
        for own, older in pairs
    )


def _as_limiters(entry: SaturationEntry) -> tuple[LimiterSettings, ...]:
    return tuple(
        LimiterSettings(
            name=limiter.name or "",
            kind="quota" if limiter.type == "quota" else "gpu-inventory",
            scope=limiter.scope or "",
            quotas=limiter.quotas or {},
            namespace_quotas=limiter.namespace_quotas or {},
            excluded=frozenset(limiter.exclude or ()),
        )
        for limiter in entry.fields.limiters or ()
    )


ZERO_CONFIG_MAP = "wva-model-scale-to-zero-config"


def read_zero(source: KubernetesObject, texts: Mapping[str, object]) -> Iterator[Piece]:
    """The valid entries of the ConfigMap, and what is wrong with the others."""
    entries: list[ZeroEntry] = []
    for entry in read_entries(source, texts, ZeroFields):
        if isinstance(entry, Finding):
            yield entry
            continue
        written = entry.fields.retention_period
        if written and entry.fields.retention_s is None:
            # Unlike another mistake this one leaves the rest of the entry in force.
            message = f"expected a duration above zero like 10m, got {quote(written)}: this period is left out"
            yield Finding(place=entry.text.locate(("retention_period",)), severity=Severity.WARNING, message=message)
        entries.append(entry)
    yield UpstreamSettings(
        cluster=source.cluster, namespace=source.namespace, name=source.name, place=source.place, zero=tuple(entries)
    )


@dataclass(frozen=True, slots=True)
class UpstreamInForce:
    """The entries that hold, by cluster, and where their ConfigMaps contradict each other."""

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
                f"ConfigMap {this} differs from {other} at {first.place}, "
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


def _say(config_map: UpstreamSettings) -> list[object]:
    """What it says, without its name and place."""
    nowhere = Source(kind=SourceKind.CONFIG_MAP)
    said: list[object] = []
    for each in config_map.saturation:
        fields = each.fields
        toggles = fields.enable_limiter, fields.enable_rescale, fields.scale_to_zero and fields.scale_to_zero.enabled
        rules = _analyzer_of(each), _as_analyzers(each), _as_limiters(each), replace(_as_layer(each), source=nowhere)
        said.append((each.text.key, each.model_id, each.model_namespace, toggles, rules))
    for entry in config_map.zero:
        rest = entry.fields.enable_scale_to_zero, entry.fields.retention_s
        said.append((entry.text.key, entry.model_id, entry.model_namespace, rest))
    return said
