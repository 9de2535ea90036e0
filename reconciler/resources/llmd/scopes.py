"""Which of several ConfigMaps of one purpose upstream would read: one for all, and one for each namespace opted in."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from reconciler.domain.identity import Finding, Place, Severity
from reconciler.resources.llmd.entries import SaturationEntry, UpstreamSettings, ZeroEntry
from reconciler.resources.llmd.saturation import SATURATION_CONFIG_MAPS
from reconciler.resources.variants import UpstreamNamespace

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
            findings.append(_report(first, config_map))
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


def _report(kept: UpstreamSettings, other: UpstreamSettings) -> Finding:
    message = (
        f"ConfigMap {other.namespace}/{other.name} says otherwise than {kept.namespace}/{kept.name} at {kept.place}, "
        "which is used: keep one, or label the namespace of the other wva.llmd.ai/config-enabled"
    )
    return Finding(place=replace(other.place, field="metadata.name"), severity=Severity.WARNING, message=message)
