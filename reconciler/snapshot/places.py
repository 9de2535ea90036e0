"""The place of every number of a declaration, and why it cannot be changed."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from reconciler.domain.canaries import COPIED_KINDS
from reconciler.domain.holds import BrokenResource, Hold, HoldKind
from reconciler.domain.identity import Finding, Place, ResourceKey, Severity
from reconciler.domain.records import dataclass, replace
from reconciler.domain.scalers import Scaler
from reconciler.domain.settings import Settings
from reconciler.domain.snapshot import StatusShape
from reconciler.domain.variant_settings import HELM_MAX_REPLICAS, HELM_MIN_REPLICAS, HELM_REPLICAS
from reconciler.domain.workloads import ReplicaOwner, Workload
from reconciler.domain.written import DocumentRef, FieldPath, WrittenField
from reconciler.placement.copies import CopyPlaces
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
from reconciler.snapshot.charts import read_charts
from reconciler.snapshot.effective_settings import Layers, stated_values

_REPLICAS = ("spec", "replicas")
_LABELS = ("metadata", "labels")
_FLUX = "kustomize.toolkit.fluxcd.io/"
_COUNT, _LEAST, _MOST = "replicas", "min-replicas", "max-replicas"
"""The names of numbers in marker comments."""
_WORDS = {"minReplicas": _LEAST, "maxReplicas": _MOST}
_SETTINGS = {_COUNT: HELM_REPLICAS, _LEAST: HELM_MIN_REPLICAS, _MOST: HELM_MAX_REPLICAS}
"""The settings with the path of a number in the values of a chart."""


def place_numbers(declaration: Declaration, fleet: Fleet, settings: Settings) -> Declaration:
    """The declaration with the effective place of every number, and known targets of charts."""
    builds = _Builds.of(fleet, settings)
    models = {model.model_id: model for model in settings.models}
    known = {workload.key for workload in declaration.workloads} | {broken.key for broken in declaration.broken}
    made = {each.scale_target: each for each in declaration.variants if each.scale_target not in known}
    charted: list[Workload | ReplicaOwner | BrokenResource] = []
    for variant in made.values():
        layers = Layers.of(variant, None, settings, models.get(variant.model_id))
        charted += _Chart(fleet=fleet, variant=variant, layers=layers).objects()
    found = {each.key for each in charted if isinstance(each, Workload | BrokenResource)}
    unseen = [_unseen(fleet, each) for target, each in made.items() if target not in found]
    placed = [builds.place(workload) for workload in declaration.workloads]
    of_charts = read_charts(fleet)
    makes = [each for each in of_charts.workloads if each.key not in known | found]
    unseen = [each for each in unseen if each is None or each.key not in {workload.key for workload in makes}]
    notes = {each for each in of_charts.findings if each.severity is Severity.NOTE}
    return replace(
        declaration,
        workloads=(*placed, *(each for each in charted if isinstance(each, Workload)), *makes),
        findings=tuple(sorted({*declaration.findings, *_overlapping(placed), *(set(of_charts.findings) - notes)})),
        notes=tuple(sorted({*declaration.notes, *notes})),
        variants=tuple(builds.place_labels(each) for each in declaration.variants),
        owners=(
            *(builds.place_bounds(owner) for owner in declaration.owners),
            *(each for each in charted if isinstance(each, ReplicaOwner)),
            *of_charts.owners,
        ),
        adapter_rules=(*declaration.adapter_rules, *of_charts.adapter_rules),
        broken=(
            *declaration.broken,
            *(each for each in charted if isinstance(each, BrokenResource)),
            *(each for each in unseen if each is not None),
        ),
        shared_paths=declaration.shared_paths | fleet.shared_paths,
    )


def _overlapping(workloads: Iterable[Workload]) -> Iterator[Finding]:
    """Several budgets over the same pods: Kubernetes refuses to evict those."""
    for workload in workloads:
        names = ", ".join(f"{each.name} ({each.place})" for each in workload.budgets)
        message = (
            f"{len(workload.budgets)} PodDisruptionBudgets select the pods of {workload.key.kind} "
            f"{workload.key.label}: {names}; Kubernetes cannot evict these pods, so none is removed: keep one"
        )
        for budget in workload.budgets[1:]:
            yield Finding(place=budget.place, severity=Severity.WARNING, message=message, rule="overlapping-budgets")


def _unseen(fleet: Fleet, variant: VariantResource) -> BrokenResource | None:
    target = replace(variant.scale_target, part="")
    hidden = fleet.hidden_from(target, variant.key)
    if hidden is None:
        return None
    reason = f"scale target {target.kind} {target.label} is not in Git, but perhaps in this: {hidden.message}"
    return BrokenResource(key=variant.scale_target, place=hidden.place, reason=reason)


def _moved(written: WrittenField, origin: ValueOrigin) -> WrittenField:
    own = written.document
    if origin.address == (own.path, own.document, (*own.prefix, *written.field), None):
        return written
    number = int(origin.value) if isinstance(origin.value, int | str) else None
    return replace(origin.written, is_ceiling=written.is_ceiling, written=number, value=number)


def _describe(origin: ValueOrigin) -> str:
    """`patch: prod/kustomization.yaml:8 patches[0].patch: [0].value = 7`."""
    return f"{origin.kind}: {origin} = {origin.value}"


# ---- scale targets in manifests


@dataclass(frozen=True, slots=True, kw_only=True)
class _Builds:
    """The builds of a commit, and the objects of each manifest."""

    fleet: Fleet
    settings: Settings
    sharing: Counter[DocumentRef]
    keys: Mapping[tuple[DocumentRef, str, str], tuple[ResourceKey, ...]]
    """By manifest, cluster and namespace."""
    entries: EntryPlaces
    copies: CopyPlaces

    @classmethod
    def of(cls, fleet: Fleet, settings: Settings) -> "_Builds":
        objects = [(built.source, built.key) for build in fleet.clusters.values() for built in build.objects]
        refs = [
            (DocumentRef(path=source.document.path, document=source.document.index, prefix=source.field), key)
            for source, key in objects
        ]
        sharing = Counter(ref for ref, _ in refs)
        keys: dict[tuple[DocumentRef, str, str], tuple[ResourceKey, ...]] = {}
        for ref, key in refs:
            keys[ref, key.cluster, key.namespace] = (*keys.get((ref, key.cluster, key.namespace), ()), key)
        return cls(
            fleet=fleet,
            settings=settings,
            sharing=sharing,
            keys=keys,
            entries=EntryPlaces(fleet),
            copies=CopyPlaces(fleet),
        )

    def place(self, workload: Workload) -> Workload:
        """A scale target with the fields of its replicas, or why there are none."""
        key = replace(workload.key, part="")
        built = self.fleet.find(key)
        if built is None:
            return workload
        fields: list[WrittenField] = []
        considered: list[str] = []
        for written in workload.written_at:
            found = effective_place(self.fleet, key, written.field, word=_word(written))
            considered += [_describe(origin) for origin in found.considered]
            placed = self._placed(written, found, built)
            if placed is None:
                where = found.obstacle.place if isinstance(found, NoPlace) else found.place
                is_ignored = isinstance(found, NoPlace) and found.is_ignored
                kind = HoldKind.IGNORED if is_ignored else HoldKind.NOT_WRITABLE
                hold = Hold(kind=kind, words=str(found), place=where)
                return replace(workload, unwritable=workload.unwritable or hold, considered=tuple(considered))
            fields.append(placed)
        single = fields[0] if len(fields) == 1 else None
        if single is not None and single.written is not None and single.document != workload.document:
            workload = replace(workload, replicas=single.written, replicas_place=single.place)
        budgets = find_budgets(self.fleet, built, workload.template_labels)
        moves = {path: place for path in _moved_paths(workload, built) if (place := self.entries.find(built, path))}
        fixed = (
            Hold(kind=HoldKind.NOT_WRITABLE, words=place.reason)
            for path, place in moves.items()
            if path[-1] in ("nodeSelector", "inferenceFlavors") and place.reason and not place.is_writable
        )
        immovable = workload.immovable or why_not_rolled(built, workload.replicas, budgets) or next(fixed, None)
        return replace(
            workload,
            replica_fields=workload.replica_fields if tuple(fields) == workload.written_at else tuple(fields),
            considered=tuple(considered) if len(considered) > len(fields) else (),
            unwritable=workload.unwritable or self._owned(built, workload.written_at[0]),
            budgets=budgets,
            moves=moves,
            copies_at=self.copies.find(built) if key.kind in COPIED_KINDS else None,
            immovable=immovable,
            caution="; ".join(filter(None, (workload.caution, *find_sync_holds(self.fleet, built)))),
        )

    def place_labels(self, variant: VariantResource) -> VariantResource:
        """A resource with the place of its labels, if that is not only its own manifest."""
        built = self.fleet.find(variant.key)
        labels_at = None if built is None else self.entries.find(built, _LABELS)
        has_status = self.settings.delivers_status and variant.status_shape is not StatusShape.NONE
        delivery = find_delivery(self.fleet, built) if has_status and built is not None else None
        is_shared = self.sharing[variant.document] > 1
        return replace(variant, is_shared=is_shared, labels_at=labels_at, delivery=delivery)

    def place_bounds(self, owner: ReplicaOwner) -> ReplicaOwner:
        """An autoscaler with the fields of its bounds, or without them if they cannot be written."""
        manifest = owner.fields[0].document if owner.fields else None
        keys = () if manifest is None else self.keys.get((manifest, owner.cluster, owner.namespace), ())
        named = [key for key in keys if len(keys) == 1 or owner.owner == f"{key.kind} {key.name}"]
        built = self.fleet.find(named[0]) if len(named) == 1 else None
        if built is None:
            return owner
        fields = []
        for written in owner.fields:
            found = effective_place(self.fleet, built.key, written.field, word=_word(written))
            placed = self._placed(written, found, built)
            if placed is None:
                return replace(owner, fields=())
            fields.append(placed)
        scaler = None if owner.scaler is None else self._placed_scaler(owner.scaler, built)
        return replace(owner, fields=tuple(fields), scaler=scaler)

    def _placed_scaler(self, scaler: Scaler, built: BuiltObject) -> Scaler:
        """An autoscaler with the places of its targets, or why its settings cannot be written."""
        metrics, holds = [], list[Hold]()
        for metric in scaler.metrics:
            if metric.written is None:
                metrics.append(metric)
                continue
            found = effective_place(self.fleet, built.key, metric.written.field, word="target", is_count=False)
            if isinstance(found, NoPlace):
                words = f"its target cannot be written: {found}"
                holds.append(Hold(kind=HoldKind.NOT_WRITABLE, words=words, place=found.obstacle.place))
            metrics.append(replace(metric, written=None if isinstance(found, NoPlace) else found.origin.written))
        behavior = self.entries.find(built, scaler.behavior_path[:-1])
        if behavior is not None:
            words = "its behavior is not in its own manifest alone: move it there, or into an overlay of its own"
            holds.append(Hold(kind=HoldKind.NOT_WRITABLE, words=words, place=scaler.place))
        return replace(scaler, metrics=tuple(metrics), unwritable=next(iter(holds), None))

    def _placed(
        self, written: WrittenField, found: EffectivePlace | NoPlace, built: BuiltObject
    ) -> WrittenField | None:
        """The field to edit; for a shared manifest a new entry of the overlay."""
        if isinstance(found, EffectivePlace):
            return _moved(written, found.origin)
        if marked_place(self.fleet, built.key, _word(written), written.field) is not None:
            return None
        chain = built.origin_of(written.field)
        is_unwritten = not chain and built.obstacle_at(written.field) is None
        if is_unwritten and self.sharing[written.document] <= 1:
            return written
        # an edit of the number would change another object, or another cluster reads its file
        is_shared = bool(chain) and len(self.fleet.readers_of(chain[0], written.field)) > 1
        is_shared = is_shared or (bool(chain) and chain[0].place.path in self.fleet.shared_paths)
        if not (is_unwritten or is_shared):
            return None
        insertion = overlay_insertion(self.fleet, built) if written.field == _REPLICAS else None
        if insertion is not None:
            return replace(insertion, written=written.written, value=written.value)
        return self._patched(written, built)

    def _patched(self, written: WrittenField, built: BuiltObject) -> WrittenField | None:
        """The field in a patch of the overlay for this object alone; None where there is no safe one."""
        way = written.field[:-1]
        chain = built.origin_of(written.field)
        is_known = written.embedding is None and all(isinstance(each.value, int) for each in chain[:1])
        if not is_known or built.obstacles or (chain and self.fleet.is_ignored(chain[0])):
            return None
        place = self.entries.find(built, way)
        if place is None or place.patch is None:
            return None
        path = place.patch.path
        return replace(
            written,
            document=DocumentRef(path=path, document=place.patch.document or 0),
            place=Place(path=path, field=".".join(map(str, written.field))),
            patch=place.patch,
            way=place.way,
        )

    def _owned(self, built: BuiltObject, written: WrittenField) -> Hold | None:
        """The owner that would overwrite our value; autoscalers are reported by their own resources."""
        annotations = built.value_at("metadata", "annotations")
        has_flux = isinstance(annotations, dict) and any(name.startswith(_FLUX) for name in annotations)
        is_deployed = self.fleet.deployer_of(built) is not None or has_sets(self.fleet, built.key.cluster)
        is_known = is_deployed or has_flux
        path = written.embedding or written.field
        owners = owners_of(self.fleet, built.key, path) if is_known else possible_owners(self.fleet, built.key)
        owner = next((each for each in owners if not each.is_autoscaler), None)
        return None if owner is None else Hold(kind=HoldKind.OWNED_BY_ANOTHER, words=str(owner), place=owner.place)


def _moved_paths(workload: Workload, built: BuiltObject) -> Iterator[FieldPath]:
    """The mappings (and the list of flavors) to write for a change of accelerator."""
    yield _LABELS
    yield from ((*pod.path, "nodeSelector") for pod in workload.pods)
    if workload.device_resources is not None:
        yield from ((*workload.device_resources, kind) for kind in ("limits", "requests"))
    kind = KINDS.get(built.key.kind)
    lists = kind.flavor_lists if kind is not None else ()
    yield from (path for path in lists if built.value_at(*path[:-1]) is not None)


def _word(written: WrittenField) -> str:
    return _WORDS.get(str(written.field[-1]), _COUNT)


# ---- scale targets of charts, by the numbers in the values that a setting or a marker names


@dataclass(frozen=True, slots=True, kw_only=True)
class _Chart:
    """The numbers of one variant's target."""

    fleet: Fleet
    variant: VariantResource
    layers: Layers

    def objects(self) -> Iterator[Workload | ReplicaOwner | BrokenResource]:
        """The target by its number of replicas, or with its autoscaler by the bounds."""
        is_scaled = self._is_scaled()
        found = {word: self._find(word) for word in ((_LEAST, _MOST) if is_scaled else (_COUNT,))}
        places = [each for each in found.values() if isinstance(each, EffectivePlace)]
        obstacle = next((each.obstacle for each in found.values() if isinstance(each, NoPlace)), None)
        if obstacle is None and len(found) > len(places) > 0:
            setting = next(_SETTINGS[word].name for word, place in found.items() if place is None)
            obstacle = Obstacle(reason=f"only one bound of its autoscaler is given: also set {setting}, or mark it")
        key = self.variant.scale_target
        if obstacle is not None:
            yield BrokenResource(key=key, place=obstacle.place or self.variant.place, reason=obstacle.reason)
        elif places:
            workload = self._workload(places)
            yield workload
            if is_scaled:
                yield ReplicaOwner(
                    cluster=key.cluster,
                    namespace=key.namespace,
                    owner="the autoscaler of its chart",
                    target_kind=key.kind,
                    target_name=key.name,
                    place=workload.place,
                    least=workload.replicas,
                    fields=workload.replica_fields,
                )

    def _setting(self, word: str) -> str:
        return next((value for value, _ in stated_values(_SETTINGS[word], self.layers.below)), "")

    def _find(self, word: str) -> EffectivePlace | NoPlace | None:
        key, setting = self.variant.scale_target, self._setting(word)
        if setting:
            return helm_place(self.fleet, key, setting, word=word)
        return marked_place(self.fleet, key, word)

    def _is_scaled(self) -> bool:
        """Whether a bound of an autoscaler is named and not disabled in the values."""
        key = self.variant.scale_target
        if any(marked_place(self.fleet, key, word) is not None for word in (_LEAST, _MOST)):
            return True
        settings = [setting for setting in map(self._setting, (_LEAST, _MOST)) if setting]
        return bool(settings) and not any(is_switched_off(self.fleet, key, setting) for setting in settings)

    def _workload(self, places: list[EffectivePlace]) -> Workload:
        """The target from its numbers; the first one is the number of replicas."""
        own = WrittenField(document=self.variant.document, field=_REPLICAS, place=self.variant.place)
        fields = tuple(
            _moved(replace(own, place=place.place, is_ceiling=position > 0), place.origin)
            for position, place in enumerate(places)
        )
        return Workload(
            key=self.variant.scale_target,
            document=fields[0].document,
            place=fields[0].place,
            replicas=fields[0].written,
            replicas_place=fields[0].place,
            replica_fields=fields,
            considered=tuple(_describe(origin) for place in places for origin in place.considered),
            immovable=Hold(kind=HoldKind.NOT_WRITABLE, words="a chart generates it: change its accelerator there"),
        )
