"""Objects of one kind and name in one cluster: none of them can be used, since nobody knows which one is applied."""

from collections.abc import Iterable
from dataclasses import replace
from itertools import islice
from typing import Protocol, TypeVar

from reconciler.domain.holds import BrokenResource
from reconciler.domain.identity import Finding, Place, ResourceKey, Severity
from reconciler.manifests.wording import MOST_NAMED, name_first


class Keyed(Protocol):
    """A resource as written."""

    @property
    def key(self) -> ResourceKey:
        """What names it."""

    @property
    def place(self) -> Place:
        """Its first line."""


Resource = TypeVar("Resource", bound=Keyed)


def split_duplicates(resources: Iterable[Resource]) -> tuple[list[Resource], list[BrokenResource]]:
    """The resources whose key nobody shares, and the others in all their places."""
    by_key: dict[ResourceKey, list[Resource]] = {}
    for resource in resources:
        by_key.setdefault(resource.key, []).append(resource)
    single = [same[0] for same in by_key.values() if len(same) == 1]
    broken = [_break_duplicate(here, same) for same in by_key.values() if len(same) > 1 for here in same]
    return single, broken


def _break_duplicate(here: Resource, same: list[Resource]) -> BrokenResource:
    places = dict.fromkeys(each.place for each in same if each.place != here.place)
    others = name_first([str(place) for place in islice(places, MOST_NAMED)], len(places))
    where = f"again at {others}" if places else f"{len(same)} times in one place"
    reason = f"{here.key.kind} {here.key.label} is declared {where}: keep one"
    return BrokenResource(key=here.key, place=here.place, reason=reason)


def report_duplicate(found: BrokenResource, severity: Severity = Severity.ERROR) -> Finding:
    """The finding about one of several resources with one name."""
    return Finding(place=replace(found.place, field="metadata.name"), severity=severity, message=found.reason)
