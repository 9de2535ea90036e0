"""Scale targets that only a chart makes: read from the numbers in its values that are told, or marked."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

from reconciler.domain.declared.declarations import BrokenResource, VariantResource
from reconciler.domain.declared.places import WrittenField
from reconciler.domain.declared.workloads import ReplicaOwner, Workload
from reconciler.domain.holds import Hold, HoldKind
from reconciler.domain.variant_settings import HELM_MAX_REPLICAS, HELM_MIN_REPLICAS, HELM_REPLICAS, SettingDefinition
from reconciler.placement.fleet import Fleet
from reconciler.placement.helm import helm_place, is_switched_off
from reconciler.placement.objects import Obstacle
from reconciler.placement.origins import ValueOrigin
from reconciler.placement.places import EffectivePlace, NoPlace, marked_place
from reconciler.snapshot.variants.settings import Layers

Made = Workload | ReplicaOwner | BrokenResource
_COUNT: Final = "replicas"
_LEAST, _MOST = "min-replicas", "max-replicas"
_SETTINGS: Final[Mapping[str, SettingDefinition[str]]] = {
    _COUNT: HELM_REPLICAS,
    _LEAST: HELM_MIN_REPLICAS,
    _MOST: HELM_MAX_REPLICAS,
}
"""What a marker comment calls a number, and the setting that says where it stands."""


def find_charted(fleet: Fleet, variant: VariantResource, layers: Layers) -> Iterator[Made]:
    """The target by its number of replicas, or, with its autoscaler, by the bounds that the chart gives that."""
    chart = _Chart(fleet=fleet, variant=variant, layers=layers)
    words = (_LEAST, _MOST) if chart.is_scaled() else (_COUNT,)
    found = {word: chart.find(word) for word in words}
    places = [each for each in found.values() if isinstance(each, EffectivePlace)]
    obstacle = next((each.obstacle for each in found.values() if isinstance(each, NoPlace)), None)
    if obstacle is None and len(found) > len(places) > 0:
        obstacle = _half_told(next(word for word in words if found[word] is None))
    if obstacle is not None:
        key, place = variant.scale_target, obstacle.place or variant.place
        yield BrokenResource(key=key, place=place, reason=obstacle.reason)
    elif places:
        workload = chart.workload(places)
        yield workload
        if chart.is_scaled():
            yield _autoscaler(workload)


def _half_told(word: str) -> Obstacle:
    reason = f"one bound of its autoscaler is told and the other is not: set {_SETTINGS[word].name}, or mark it"
    return Obstacle(reason=reason)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Chart:
    """What is told of the numbers that make one variant's target."""

    fleet: Fleet
    variant: VariantResource
    layers: Layers

    def setting(self, word: str) -> str:
        """The path in the values that holds a number; empty when none is told."""
        return next((value for value, _ in self.layers.hits(_SETTINGS[word])), "")

    def find(self, word: str) -> EffectivePlace | NoPlace | None:
        """Where a number stands; None when nobody says."""
        key, setting = self.variant.scale_target, self.setting(word)
        if setting:
            return helm_place(self.fleet, key, setting, word=word)
        return marked_place(self.fleet, key, word)

    def is_scaled(self) -> bool:
        """Whether a bound of an autoscaler is told that the values do not switch off."""
        key = self.variant.scale_target
        if any(marked_place(self.fleet, key, word) is not None for word in (_LEAST, _MOST)):
            return True
        told = [setting for setting in map(self.setting, (_LEAST, _MOST)) if setting]
        return bool(told) and not any(is_switched_off(self.fleet, key, setting) for setting in told)

    def workload(self, places: list[EffectivePlace]) -> Workload:
        """The target as far as its numbers tell; the first one says how many replicas there are."""
        fields = tuple(self._field(place, is_ceiling=position > 0) for position, place in enumerate(places))
        return Workload(
            key=self.variant.scale_target,
            document=fields[0].document,
            place=fields[0].place,
            replicas=fields[0].written,
            replicas_place=fields[0].place,
            replica_fields=fields,
            considered=tuple(describe(origin) for place in places for origin in place.considered),
            immovable=Hold(kind=HoldKind.NOT_WRITABLE, words="a chart makes it: change its accelerator there"),
        )

    def _field(self, found: EffectivePlace, *, is_ceiling: bool) -> WrittenField:
        own = WrittenField(
            document=self.variant.document, field=("spec", "replicas"), place=found.place, is_ceiling=is_ceiling
        )
        return moved(own, found.origin)


def _autoscaler(workload: Workload) -> ReplicaOwner:
    key = workload.key
    return ReplicaOwner(
        cluster=key.cluster,
        namespace=key.namespace,
        owner="the autoscaler that its chart makes",
        target_kind=key.kind,
        target_name=key.name,
        place=workload.place,
        least=workload.replicas,
        fields=workload.replica_fields,
    )


def moved(written: WrittenField, origin: ValueOrigin) -> WrittenField:
    """The field that decides a number, which is its own where nothing else sets it."""
    own = written.document
    if origin.address == (own.path, own.document, (*own.prefix, *written.field), None):
        return written
    number = int(origin.value) if isinstance(origin.value, int | str) else None
    return replace(origin.written, is_ceiling=written.is_ceiling, written=number, value=number)


def describe(origin: ValueOrigin) -> str:
    """`patch: prod/kustomization.yaml:8 patches[0].patch: [0].value = 7`."""
    return f"{origin.kind}: {origin} = {origin.value}"
