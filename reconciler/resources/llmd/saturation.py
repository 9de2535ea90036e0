"""Entries of upstream's saturation ConfigMap: thresholds, analyzers and limiters, a small YAML document each.

Upstream leaves an invalid entry out and goes on, so every complaint is a warning. It reads a number that is 0 as not
written.
"""

from collections.abc import Iterator, Mapping
from typing import Annotated, Literal

from pydantic import Field

from reconciler.domain.declared.saturation_settings import AnalyzerSettings, LimiterSettings, ThresholdLayer
from reconciler.domain.identity import Finding
from reconciler.domain.provenance import Source, SourceKind
from reconciler.manifests.wording import quote
from reconciler.resources.llmd.entries import (
    ConfigMapEntry,
    EntryFields,
    SaturationEntry,
    UpstreamSettings,
    read_entries,
)
from reconciler.resources.objects import KubernetesObject, Piece
from reconciler.resources.validation import LooseShape, Shape

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
