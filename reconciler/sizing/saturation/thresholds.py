"""Thresholds: built-in values, layers above them, and where each effective one comes from."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields

from reconciler.domain.provenance import Displaced, Figure, Source, Sourced, SourceKind
from reconciler.domain.saturation_rules import ThresholdLayer

PERCENT_UNITS = {
    "kv_cache_usage": "fraction",
    "num_waiting": "requests",
    "kv_spare": "fraction",
    "waiting_spare": "requests",
}
TOKEN_UNITS = {
    "kv_cache_usage": "fraction",
    "num_waiting": "requests",
    "scale_up": "fraction",
    "scale_down": "fraction",
}
# wva.md 8.
BUILT_IN = ThresholdLayer(
    source=Source(kind=SourceKind.BUILT_IN),
    kv_cache_usage=0.80,
    num_waiting=5.0,
    kv_spare=0.10,
    waiting_spare=3.0,
    scale_up=0.85,
    scale_down=0.70,
    priority=1.0,
)
_FRACTIONS = frozenset({"kv_cache_usage", "kv_spare", "scale_up", "scale_down"})
_ABOVE_ZERO = frozenset({"kv_cache_usage", "scale_up", "scale_down"})
_NAMES = tuple(each.name for each in fields(ThresholdLayer) if each.name != "source")


@dataclass(frozen=True, slots=True, kw_only=True)
class Thresholds:
    """When a replica is saturated, and when a model has too little or too much, each with its source.

    A replica is saturated from `kv_cache_usage` (0-1) or `num_waiting` (requests) on. `percent` asks for more below
    a mean spare of `kv_spare` (0-1) or `waiting_spare` (requests); `tokens` above the utilization `scale_up`, and
    for less below `scale_down` (both 0-1). `priority` weighs a model when devices are scarce.
    """

    kv_cache_usage: Sourced[float]
    num_waiting: Sourced[float]
    kv_spare: Sourced[float]
    waiting_spare: Sourced[float]
    scale_up: Sourced[float]
    scale_down: Sourced[float]
    priority: Sourced[float]


@dataclass(frozen=True, slots=True, kw_only=True)
class LayeredThresholds:
    """The effective thresholds, and in words which layers were left out."""

    thresholds: Thresholds
    findings: tuple[str, ...] = ()


def layer_thresholds(layers: Iterable[ThresholdLayer] = ()) -> LayeredThresholds:
    """Return the thresholds that hold under `layers`, highest first, over the built-in ones.

    A layer with a value out of range is left out as a whole; a pair of `scale_down` and `scale_up` that is inverted
    once joined falls back to the built-in pair.
    """
    findings: list[str] = []
    sound = []
    for layer in layers:
        fault = _fault(layer)
        if fault:
            findings.append(f"{layer.source}: {fault}: these thresholds are left out")
        else:
            sound.append(layer)
    effective = {name: _effective(name, [*sound, BUILT_IN]) for name in _NAMES}
    _settle(effective, findings)
    return LayeredThresholds(thresholds=Thresholds(**effective), findings=tuple(findings))


def _effective(name: str, layers: list[ThresholdLayer]) -> Sourced[float]:
    said = [
        Displaced(value=float(value), source=layer.source)
        for layer in layers
        if (value := getattr(layer, name)) is not None
    ]
    return Sourced(value=said[0].value, source=said[0].source, displaced=tuple(said[1:]))


def _settle(effective: dict[str, Sourced[float]], findings: list[str]) -> None:
    """Layers that are sound alone can contradict each other: such a pair is the built-in one."""
    for low, high, is_strict in (("scale_down", "scale_up", True), ("kv_spare", "kv_cache_usage", False)):
        below, above = effective[low].value, effective[high].value
        if below > above or (is_strict and below == above):
            findings.append(f"{low} {below:g} is not below {high} {above:g}: both are the built-in ones")
            effective[low], effective[high] = _effective(low, [BUILT_IN]), _effective(high, [BUILT_IN])


def _fault(layer: ThresholdLayer) -> str:
    for name in _NAMES:
        value: float | None = getattr(layer, name)
        if value is None:
            continue
        low, high = (0.0, 1.0) if name in _FRACTIONS else (0.0, math.inf)
        if not (math.isfinite(value) and low <= value <= high) or (value == 0 and name in _ABOVE_ZERO):
            least = "more than 0" if name in _ABOVE_ZERO else "at least 0"
            return f"{name} is {value:g}, expected {least}{' and at most 1' if name in _FRACTIONS else ''}"
    if layer.kv_spare is not None and layer.kv_cache_usage is not None and layer.kv_spare > layer.kv_cache_usage:
        return f"kv_spare {layer.kv_spare:g} is above kv_cache_usage {layer.kv_cache_usage:g}"
    return ""


def threshold_figures(thresholds: Thresholds, units: Mapping[str, str]) -> tuple[Figure, ...]:
    """Return the thresholds of these names, each with its unit and source."""
    return tuple(_threshold(name, unit, getattr(thresholds, name)) for name, unit in units.items())


def _threshold(name: str, unit: str, sourced: Sourced[float]) -> Figure:
    return Figure(subject="threshold", name=name, value=sourced.value, unit=unit, source=sourced.source)
