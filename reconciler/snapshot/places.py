"""Where every number of a declaration is written, and what keeps it from being ours to change."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

from reconciler.domain.holds import BrokenResource, Hold, HoldKind
from reconciler.domain.identity import Finding, ResourceKey, Severity
from reconciler.domain.places import DocumentRef, FieldPath, WrittenField
from reconciler.domain.settings import ModelSettings, Settings
from reconciler.domain.variant_forms import StatusShape
from reconciler.domain.variant_settings import HELM_MAX_REPLICAS, HELM_MIN_REPLICAS, HELM_REPLICAS, SettingDefinition
from reconciler.domain.workloads import ReplicaOwner, Workload
from reconciler.placement.fleet import Fleet
from reconciler.placement.helm import helm_place, is_switched_off
from reconciler.placement.objects import BuiltObject, Obstacle, ValueOrigin
from reconciler.placement.ownership import has_sets, owners_of, possible_owners
from reconciler.placement.places import (
    EffectivePlace,
    EntryPlaces,
    NoPlace,
    effective_place,
    marked_place,
    overlay_insertion,
)
from reconciler.placement.rollouts import find_budgets, find_delivery, find_sync_holds, why_not_rolled
from reconciler.resources.declaration import Declaration
from reconciler.resources.registry import KINDS
from reconciler.resources.variants import VariantResource
from reconciler.snapshot.effective_settings import Layers

# --- was reconciler/snapshot/places/charts.py:
# Scale targets that only a chart makes: read from the numbers in its values that are told, or marked.

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


# --- was reconciler/snapshot/places/placing.py:
# Where every number of a declaration is written in the end, and what keeps it from being ours to change.

_REPLICAS = ("spec", "replicas")
_WORDS = {"minReplicas": "min-replicas", "maxReplicas": "max-replicas"}
_LABELS = ("metadata", "labels")
_FLUX = "kustomize.toolkit.fluxcd.io/"


def place_numbers(declaration: Declaration, fleet: Fleet, settings: Settings) -> Declaration:
    """The declaration with every number where it is decided, and the targets that charts make, where that is told."""
    builds = _Builds.of(fleet, settings)
    known = {workload.key for workload in declaration.workloads} | {broken.key for broken in declaration.broken}
    made = {each.scale_target: each for each in declaration.variants if each.scale_target not in known}
    charted = [found for each in made.values() for found in builds.find_charted(each)]
    told = {each.key for each in charted if isinstance(each, Workload | BrokenResource)}
    unseen = [_unseen(fleet, each) for target, each in made.items() if target not in told]
    placed = [builds.place(workload) for workload in declaration.workloads]
    return replace(
        declaration,
        workloads=(*placed, *(each for each in charted if isinstance(each, Workload))),
        findings=tuple(sorted({*declaration.findings, *_overlapping(placed)})),
        variants=tuple(builds.place_labels(each) for each in declaration.variants),
        owners=(
            *(builds.place_bounds(owner) for owner in declaration.owners),
            *(each for each in charted if isinstance(each, ReplicaOwner)),
        ),
        broken=(
            *declaration.broken,
            *(each for each in charted if isinstance(each, BrokenResource)),
            *(each for each in unseen if each is not None),
        ),
        shared_paths=declaration.shared_paths | fleet.shared_paths,
    )


def _overlapping(workloads: Iterable[Workload]) -> Iterator[Finding]:
    """Budgets over pods that have another: Kubernetes refuses to evict those at all."""
    for workload in workloads:
        names = ", ".join(f"{each.name} ({each.place})" for each in workload.budgets)
        for budget in workload.budgets[1:]:
            yield Finding(
                place=budget.place,
                severity=Severity.WARNING,
                message=(
                    f"{len(workload.budgets)} PodDisruptionBudgets select the pods of {workload.key.kind} "
                    f"{workload.key.label}: {names}; Kubernetes evicts none of those, and none is taken away: keep one"
                ),
                rule="overlapping-budgets",
            )


def _unseen(fleet: Fleet, variant: VariantResource) -> BrokenResource | None:
    """A scale target that nobody declares, where something beside it is not read that may."""
    target = replace(variant.scale_target, part="")
    hidden = fleet.hidden_from(target, variant.key)
    if hidden is None:
        return None
    reason = f"scale target {target.kind} {target.label} is not in Git, but perhaps in this: {hidden.message}"
    return BrokenResource(key=variant.scale_target, place=hidden.place, reason=reason)


def _ref(built: BuiltObject) -> DocumentRef:
    document = built.source.document
    return DocumentRef(path=document.path, document=document.index, prefix=built.source.field)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Builds:
    """The builds of a commit, and which objects each manifest is built into."""

    fleet: Fleet
    settings: Settings
    models: Mapping[str, ModelSettings]
    sharing: Counter[DocumentRef]
    keys: Mapping[DocumentRef, ResourceKey]
    entries: EntryPlaces

    @classmethod
    def of(cls, fleet: Fleet, settings: Settings) -> "_Builds":
        refs = [(_ref(built), built.key) for build in fleet.clusters.values() for built in build.objects]
        return cls(
            fleet=fleet,
            settings=settings,
            models={model.model_id: model for model in settings.models},
            sharing=Counter(ref for ref, _ in refs),
            keys=dict(refs),
            entries=EntryPlaces(fleet),
        )

    def is_shared(self, reference: DocumentRef) -> bool:
        """Whether a manifest is built into more than one object."""
        return self.sharing[reference] > 1

    def place(self, workload: Workload) -> Workload:
        """A scale target with the fields that decide its replicas, or why there are none."""
        key = replace(workload.key, part="")
        built = self.fleet.find(key)
        if built is None:
            return workload
        fields: list[WrittenField] = []
        considered: list[str] = []
        for written in workload.written_at:
            found = effective_place(self.fleet, key, written.field, word=_word(written))
            considered += [describe(origin) for origin in found.considered]
            placed = self._placed(written, found, built)
            if placed is None:
                return replace(workload, unwritable=_not_writable(found), considered=tuple(considered))
            fields.append(placed)
        single = fields[0] if len(fields) == 1 else None
        if single is not None and single.written is not None and single.document != workload.document:
            workload = replace(workload, replicas=single.written, replicas_place=single.place)
        budgets = find_budgets(self.fleet, built, workload.template_labels)
        return self._place_moves(
            replace(
                workload,
                replica_fields=workload.replica_fields if tuple(fields) == workload.written_at else tuple(fields),
                considered=tuple(considered) if len(considered) > len(fields) else (),
                unwritable=self._owned(built),
                budgets=budgets,
                immovable=workload.immovable or why_not_rolled(built, workload.replicas, budgets),
                caution="; ".join(filter(None, (workload.caution, *find_sync_holds(self.fleet, built)))),
            ),
            built,
        )

    def place_labels(self, variant: VariantResource) -> VariantResource:
        """A resource with the place of its labels, where it is not its own manifest alone."""
        built = self.fleet.find(variant.key)
        labels_at = None if built is None else self.entries.find(built, _LABELS)
        is_asked = self.settings.delivers_status and variant.status_shape is not StatusShape.NONE
        delivery = find_delivery(self.fleet, built) if is_asked and built is not None else None
        return replace(variant, is_shared=self.is_shared(variant.document), labels_at=labels_at, delivery=delivery)

    def place_bounds(self, owner: ReplicaOwner) -> ReplicaOwner:
        """An autoscaler with the fields that decide its bounds; without them where they are not ours to write."""
        key = self.keys.get(owner.fields[0].document) if owner.fields else None
        built = self.fleet.find(key) if key is not None else None
        if built is None:
            return owner
        fields = []
        for written in owner.fields:
            found = effective_place(self.fleet, built.key, written.field, word=_word(written))
            placed = self._placed(written, found, built)
            if placed is None:
                return replace(owner, fields=())
            fields.append(placed)
        return replace(owner, fields=tuple(fields))

    def find_charted(self, variant: VariantResource) -> Iterator[Made]:
        """A scale target that no manifest holds, by what is told of the chart that makes it."""
        model = self.models.get(variant.model_id)
        layers = Layers(resource=variant, workload=None, settings=self.settings, model=model)
        return find_charted(self.fleet, variant, layers)

    def _placed(
        self, written: WrittenField, found: EffectivePlace | NoPlace, built: BuiltObject
    ) -> WrittenField | None:
        """The field to edit; of a manifest that several objects share, a new entry of the overlay's own."""
        if isinstance(found, EffectivePlace):
            return moved(written, found.origin)
        if marked_place(self.fleet, built.key, _word(written), written.field) is not None:
            return None
        chain = built.origin_of(written.field)
        is_unwritten = not chain and built.obstacle_at(written.field) is None
        if is_unwritten and not self.is_shared(written.document):
            return written
        is_reached = is_unwritten or (chain and self._is_reached_by_others(chain[0], written.field))
        insertion = overlay_insertion(self.fleet, built) if is_reached and written.field == _REPLICAS else None
        if insertion is None:
            return None
        return replace(insertion, written=written.written, value=written.value)

    def _is_reached_by_others(self, origin: ValueOrigin, field: FieldPath) -> bool:
        """Whether another object would change with a number, or another cluster reads the file that it stands in."""
        is_read_twice = len(self.fleet.readers_of(origin, field)) > 1
        return is_read_twice or origin.place.path in self.fleet.shared_paths

    def _owned(self, built: BuiltObject) -> Hold | None:
        """Who keeps what we write from being applied; autoscalers are told by their own resources."""
        annotations = built.value_at("metadata", "annotations")
        is_told = isinstance(annotations, dict) and any(name.startswith(_FLUX) for name in annotations)
        is_deployed = self.fleet.deployer_of(built) is not None or has_sets(self.fleet, built.key.cluster)
        is_shown = is_deployed or is_told
        owners = owners_of(self.fleet, built.key, _REPLICAS) if is_shown else possible_owners(self.fleet, built.key)
        owner = next((each for each in owners if not each.is_autoscaler), None)
        return None if owner is None else Hold(kind=HoldKind.OWNED_BY_ANOTHER, words=str(owner), place=owner.place)

    def _place_moves(self, workload: Workload, built: BuiltObject) -> Workload:
        """A scale target with the places of what a change of accelerator writes, or why there are none."""
        paths = tuple(_moved_paths(workload, built))
        places = {path: self.entries.find(built, path) for path in paths}
        moves = {path: place for path, place in places.items() if place is not None}
        needed = (place for path, place in moves.items() if path[-1] in ("nodeSelector", "inferenceFlavors"))
        reasons = (place.reason for place in needed if not place.is_writable)
        holds = (Hold(kind=HoldKind.NOT_WRITABLE, words=reason) for reason in reasons if reason)
        return replace(workload, moves=moves, immovable=workload.immovable or next(holds, None))


def _moved_paths(workload: Workload, built: BuiltObject) -> Iterator[FieldPath]:
    """The mappings (and the list of flavors) that a change of accelerator may write."""
    yield _LABELS
    yield from ((*pod.path, "nodeSelector") for pod in workload.pods)
    if workload.device_resources is not None:
        yield from ((*workload.device_resources, kind) for kind in ("limits", "requests"))
    kind = KINDS.get(built.key.kind)
    lists = kind.flavor_lists if kind is not None else ()
    yield from (path for path in lists if built.value_at(*path[:-1]) is not None)


def _not_writable(found: EffectivePlace | NoPlace) -> Hold:
    place = found.obstacle.place if isinstance(found, NoPlace) else found.place
    is_ignored = isinstance(found, NoPlace) and found.is_ignored
    return Hold(kind=HoldKind.IGNORED if is_ignored else HoldKind.NOT_WRITABLE, words=str(found), place=place)


def _word(written: WrittenField) -> str:
    """What a marker comment calls this number."""
    return _WORDS.get(str(written.field[-1]), "replicas")
