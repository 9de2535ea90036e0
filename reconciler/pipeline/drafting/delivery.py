"""Manifests that bring a group's statuses into the cluster, drafted beside the change that they belong to."""

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import yaml

from reconciler.domain.identity import ResourceKey
from reconciler.domain.places import DeliveryPlace, DocumentRef
from reconciler.domain.plan import Decision
from reconciler.domain.snapshot import Variant
from reconciler.domain.variant_forms import StatusShape
from reconciler.errors import InputError
from reconciler.manifests.edits import AppendDocument
from reconciler.pipeline.drafting.open_documents import FileEdit, OpenSheet, Sheet
from reconciler.pipeline.stamps import is_untouched, stamp
from reconciler.rendering.renderer import Renderer
from reconciler.report.status import (
    DeliveredStatus,
    FluxDeliveryView,
    ResourceEntryView,
    StatusDeliveryView,
    StatusOmission,
    carrier_name,
    delivered_status,
    delivery_view,
    rfc3339,
    status_view,
    unix_s,
)

Omit = Callable[[Variant, str], object]
"""Told why the status of a variant is not delivered."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """What one carrier takes: edits of files that are there, and files that are ours alone."""

    place: DeliveryPlace
    edits: tuple[FileEdit, ...] = ()
    files: Mapping[str, bytes] = field(default_factory=dict)


@dataclass(slots=True, kw_only=True)
class Deliverer:
    """Drafts the carriers of a plan's groups; `files` are those of the base commit that were read."""

    renderer: Renderer
    files: Mapping[str, bytes]
    variants: Mapping[ResourceKey, Variant]
    open_sheet: OpenSheet
    now_s: float
    omit: Omit
    _listed: Counter[str] = field(default_factory=Counter)
    """How many entries each kustomization has got meanwhile."""

    def deliver(self, group: str, decisions: Iterable[Decision], news: Container[ResourceKey]) -> Iterator[Delivery]:
        """One carrier for each directory and namespace of a group, so that a stuck rollout blocks no other.

        None for one that tells nothing of the variants in `news`.
        """
        self._listed.clear()  # each group is a change of its own to the base
        carried: dict[tuple[str, str], list[DeliveredStatus]] = defaultdict(list)
        places: dict[tuple[str, str], DeliveryPlace] = {}
        changed: set[tuple[str, str]] = set()
        for decision in decisions:
            variant = self.variants.get(decision.variant)
            if variant is None or variant.delivery is None:
                continue
            if variant.delivery.reason:
                self.omit(variant, f"it cannot be brought to the cluster: {variant.delivery.reason}")
                continue
            status = self._status(decision, variant)
            if status is not None:
                key = variant.delivery.directory, variant.key.namespace
                carried[key].append(status)
                places[key] = variant.delivery
                if decision.variant in news:
                    changed.add(key)
        for key, statuses in sorted(each for each in carried.items() if each[0] in changed):
            view = delivery_view(group, *key, tuple(sorted(statuses, key=_name)), is_flux=places[key].is_flux)
            yield self._draft(view, places[key])

    def _status(self, decision: Decision, variant: Variant) -> DeliveredStatus | None:
        """The status as in Git, but applied: the Job only runs once it is."""
        sheet = self.open_sheet(variant.document)
        written = sheet.find("status")
        view = status_view(decision, now_s=self.now_s, previous=variant.conditions, written=written)
        if isinstance(view, StatusOmission):
            return None
        status = yaml.safe_load(self.renderer.render(view.template, view))
        moment = rfc3339(self.now_s)
        has_times = variant.status_shape is StatusShape.FULL
        times = {"lastAttemptTime": moment, "lastSuccessTime": moment} if has_times else {}
        return delivered_status(
            api_version=str(sheet.find("apiVersion")),
            kind=str(sheet.find("kind")),
            name=variant.key.name,
            namespace=variant.key.namespace,
            status={**status, "actuation": {"applied": True, **times}},
        )

    def delivered_s(self, group: str, variant: Variant) -> float:
        """When the carrier of a variant was last made, by what it carries in the base commit; 0 where there is none."""
        if variant.delivery is None or variant.delivery.reason:
            return 0.0
        place = variant.delivery
        path = _path(carrier_name(group, place.directory, variant.key.namespace), place)
        if path not in self.files:
            return 0.0
        try:
            return _newest_s(self.open_sheet(DocumentRef(path=path, document=0)).find("data"))
        except InputError:
            return 0.0

    def _draft(self, view: StatusDeliveryView, place: DeliveryPlace) -> Delivery:
        body = self.renderer.render("delivery/status.yaml.j2", view).encode()
        path = _path(view.name, place)
        present = self.files.get(path)
        if present is not None and not is_untouched(present):
            return Delivery(place=place)  # somebody's own now
        edits = self._flux(view, place) if place.is_flux else self._listing(view, place)
        return Delivery(place=place, edits=tuple(edits), files={path: stamp(body) + body})

    def _listing(self, view: StatusDeliveryView, place: DeliveryPlace) -> Iterator[FileEdit]:
        name = f"{view.name}.yaml"
        if name in place.resources or f"./{name}" in place.resources:
            return
        reference = DocumentRef(path=place.kustomization, document=place.kustomization_document)
        sheet: Sheet = self.open_sheet(reference)
        text = self.renderer.render("delivery/kustomize-resources.yaml.j2", ResourceEntryView(path=name))
        if not place.resources:
            yield sheet.insert(text, "resources")
            return
        yield sheet.append(text, len(place.resources) + self._listed[place.kustomization], "resources")
        self._listed[place.kustomization] += 1

    def _flux(self, view: StatusDeliveryView, place: DeliveryPlace) -> Iterator[FileEdit]:
        """The Kustomization that waits for the one which deploys the objects, in the file of that one."""
        if place.deployer is None or f'name: "{view.name}"'.encode() in self.files.get(place.deployer.path, b""):
            return
        flux = FluxDeliveryView(
            name=view.name,
            home_namespace=place.deployer_namespace,
            path=f"./{_prefix(place)}{view.name}",
            awaited=place.deployer_name,
            source=place.source_name,
        )
        text = self.renderer.render("delivery/flux.yaml.j2", flux)
        yield FileEdit(path=place.deployer.path, edit=AppendDocument(text=text))


def _prefix(place: DeliveryPlace) -> str:
    return f"{place.directory}/" if place.directory else ""


def _path(name: str, place: DeliveryPlace) -> str:
    return f"{_prefix(place)}{name}/status.yaml" if place.is_flux else f"{_prefix(place)}{name}.yaml"


def _newest_s(carried: object) -> float:
    """The newest time of a run in what a carrier holds; whatever is not as we write it says nothing."""
    texts = carried.values() if isinstance(carried, Mapping) else ()
    return max(map(_run_s, texts), default=0.0)


def _run_s(text: object) -> float:
    try:
        return unix_s(json.loads(str(text))["status"]["desiredOptimizedAlloc"]["lastRunTime"])
    except (ValueError, TypeError, KeyError, RecursionError):
        return 0.0


def _name(status: DeliveredStatus) -> str:
    return status.resource
