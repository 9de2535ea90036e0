"""Entries of upstream's per-model ConfigMaps: a small YAML document per key, for one model or for all.

Upstream leaves an entry that it cannot read out and goes on: every complaint here is a warning, and says so.
"""

from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass
from typing import Annotated, Generic, TypeVar

from pydantic import Field

from reconciler.domain.declared.saturation_settings import (
    DEFAULT_RETENTION_S,
    AnalyzerSettings,
    LimiterSettings,
    SaturationRules,
    ThresholdLayer,
    ZeroRules,
)
from reconciler.domain.identity import Finding, ModelKey, Place, Severity
from reconciler.errors import InputError
from reconciler.manifests.wording import quote
from reconciler.resources.kubernetes.embedded import EmbeddedYaml, parse_embedded
from reconciler.resources.objects import KubernetesObject
from reconciler.resources.validation import Shape, validate

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
