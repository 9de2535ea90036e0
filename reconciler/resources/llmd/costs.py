"""Prices of accelerators as upstream's ConfigMap lists them: cents an hour, or plain numbers."""

import json
from collections.abc import Iterator, Mapping
from math import isfinite

from reconciler.domain.units import cost_per_hour_from_cents
from reconciler.manifests.wording import describe
from reconciler.resources.objects import KubernetesObject, Piece
from reconciler.resources.variants import ListedCost

COSTS_CONFIG_MAP = "accelerator-unit-costs"
_LARGEST_COST = 1e9
_LONGEST_ENTRY = 4096


def read_costs(source: KubernetesObject, entries: Mapping[str, object]) -> Iterator[Piece]:
    """The price of every entry that can be read, and what is wrong with the others."""
    for accelerator, entry in entries.items():
        path = ("data", accelerator)
        try:
            cost_per_hour, device = _parse_cost(entry)
        except ValueError as error:
            yield source.complain(path, str(error))
            continue
        if not accelerator:
            yield source.complain(("data",), "expected the name of an accelerator as a key, found nothing")
            continue
        place = source.locate(path)
        yield ListedCost(
            accelerator=accelerator,
            cost_per_hour=cost_per_hour,
            device_label=device,
            place=place,
            namespace=source.namespace,
        )


def _parse_cost(entry: object) -> tuple[float, str]:
    """A JSON object `{device, cost}` has cents an hour; a bare number is currency units an hour, as it was first."""
    if not isinstance(entry, str):
        raise ValueError(f"expected text, {'found' if entry is None else 'got'} {describe(entry)}")  # noqa: TRY004
    try:
        value: object = json.loads(entry) if len(entry) <= _LONGEST_ENTRY else None
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        return _parse_number(entry, "a JSON object with device and cost, or a number"), ""
    device, cost = value.get("device", ""), value.get("cost")
    if not isinstance(device, str):
        raise ValueError(f"expected a string in device, got {describe(device)}")  # noqa: TRY004
    return cost_per_hour_from_cents(_parse_number(cost, "a number of cents in cost")), device


def _parse_number(found: object, expected: str) -> float:
    try:
        number = float(found) if isinstance(found, str | int | float) and not isinstance(found, bool) else -1.0
    except (ValueError, OverflowError):
        number = -1.0
    if not isfinite(number) or not 0 <= number <= _LARGEST_COST:
        raise ValueError(f"expected {expected}, {'found' if found is None else 'got'} {describe(found)}")
    return number
