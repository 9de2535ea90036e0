"""Whether relative costs rank the variants of a model as their prices do.

A relative cost (`variantCost`, Kthena's `cost`) decides only while a price is missing: where both are known and differ
in their order, the day a price goes missing turns the plan around.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from reconciler.domain.identity import Finding, ModelKey, Place, ResourceKey, Severity
from reconciler.domain.snapshot import Variant

RULE = "cost-order-contradicts-prices"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ranked:
    """A variant with both of its costs."""

    key: ResourceKey
    place: Place
    relative: float
    per_hour: float


def find_contradicted_costs(
    variants: Iterable[Variant], *, currency: str, places: Mapping[ResourceKey, Place]
) -> Iterator[Finding]:
    """A warning for each variant that is ranked above a dearer one of its model, naming the dearest.

    `places` says where a relative cost is written, of the variants of which that is known. O(n log n).
    """
    models: dict[ModelKey, list[_Ranked]] = {}
    for variant in variants:
        relative, per_hour = variant.relative_cost, variant.current_cost_per_hour
        if relative is not None and per_hour is not None:
            place = places.get(variant.key, variant.place)
            ranked = _Ranked(key=variant.key, place=place, relative=relative, per_hour=per_hour)
            models.setdefault(variant.model, []).append(ranked)
    for _, known in sorted(models.items()):
        yield from _find_in_model(known, currency)


def _find_in_model(variants: Sequence[_Ranked], currency: str) -> Iterator[Finding]:
    """Equal relative costs rank nobody, so a step of the order is compared with the steps before it alone."""
    dearest: _Ranked | None = None
    ordered = sorted(variants, key=lambda each: (each.relative, each.key))
    for _, step in groupby(ordered, key=lambda each: each.relative):
        members = list(step)
        if dearest is not None:
            yield from (_contradiction(each, dearest, currency) for each in members if each.per_hour < dearest.per_hour)
        dearest = max((*members, *([dearest] if dearest else [])), key=lambda each: each.per_hour)


def _contradiction(cheaper: _Ranked, dearer: _Ranked, currency: str) -> Finding:
    message = (
        f"relative cost {cheaper.relative:g} ranks it above {dearer.key.label} ({dearer.relative:g}), but a replica "
        f"costs {cheaper.per_hour:.2f} against {dearer.per_hour:.2f} {currency}/h"
    )
    return Finding(place=cheaper.place, severity=Severity.WARNING, message=message, rule=RULE)
