"""What the marker keeps of promises, one row a change; whatever is not as we write it is no promise at all."""

import math
from collections.abc import Mapping, Sequence

from reconciler.domain.promises import Promise, PromisedLatency

NUMBERS = ("demand", "capacity", "cost_per_hour", "arrival_rate_per_s", "input_tokens", "output_tokens")
"""Fields of a promise that are a number or not known, and their keys in a row."""
LATENCIES = ("itl", "ttft", "wait")
MOST_LATENCIES = 5
LARGEST = 1e15
"""No number of ours is larger."""
MAX_UNIT_LENGTH = 40
MAX_NUMBER = 10**9
"""Of a pull request."""


def promise_rows(promises: Sequence[Promise], resources: Sequence[str]) -> list[object]:
    """The promises in the order of these resources, as JSON; one that nothing was promised of has an empty row."""
    told = {each.resource: each for each in promises}
    return [_row(told[each]) if each in told else {} for each in resources]


def parse_promises(rows: object, resources: Sequence[str]) -> tuple[Promise, ...]:
    """The promises of these resources; none where one row is not as we write it, or their number is another."""
    if not isinstance(rows, list) or len(rows) != len(resources):
        return ()
    found: list[Promise] = []
    for row, resource in zip(rows, resources, strict=True):
        promise = _parse(row, resource)
        if promise is None:
            return ()
        found.append(promise)
    return tuple(found)


def _row(promise: Promise) -> dict[str, object]:
    row: dict[str, object] = {"unit": promise.unit}
    row |= {name: value for name in NUMBERS if (value := getattr(promise, name)) is not None}
    if promise.latencies:
        row["latencies"] = [
            [each.name, each.statistic, each.target_s, each.expected_s, each.mean_s, each.measured_s]
            for each in promise.latencies
        ]
    if promise.reverts is not None:
        row["reverts"] = promise.reverts
    return row


def _parse(row: object, resource: str) -> Promise | None:
    if not isinstance(row, dict):
        return None
    numbers = {name: row.get(name) for name in NUMBERS}
    unit, reverts, latencies = row.get("unit", ""), row.get("reverts"), _parse_latencies(row.get("latencies", []))
    if not _is_word(unit) or latencies is None or not all(map(_is_known_or_none, numbers.values())):
        return None
    if reverts is not None and not (type(reverts) is int and 0 < reverts <= MAX_NUMBER):
        return None
    return Promise(resource=resource, unit=str(unit), latencies=latencies, reverts=reverts, **_floats(numbers))


def _parse_latencies(rows: object) -> tuple[PromisedLatency, ...] | None:
    if not isinstance(rows, list) or len(rows) > MOST_LATENCIES:
        return None
    found = [_parse_latency(row) for row in rows]
    valid = tuple(each for each in found if each is not None)
    return valid if len(valid) == len(found) else None


def _parse_latency(row: object) -> PromisedLatency | None:
    if not isinstance(row, list) or len(row) != 6:
        return None
    name, statistic, target_s, *times_s = row
    if name not in LATENCIES or not _is_word(statistic) or not _is_number(target_s) or not target_s > 0:
        return None
    if not all(map(_is_known_or_none, times_s)):
        return None
    times = _floats(dict(zip(("expected_s", "mean_s", "measured_s"), times_s, strict=True)))
    return PromisedLatency(name=name, statistic=statistic, target_s=float(target_s), **times)


def _is_word(value: object) -> bool:
    return isinstance(value, str) and len(value) <= MAX_UNIT_LENGTH and value.isprintable()


def _is_known_or_none(value: object) -> bool:
    return value is None or _is_number(value)


def _is_number(value: object) -> bool:
    """Whether it is a number that we would write: JSON as Python reads it knows NaN, infinity and huge integers."""
    if type(value) is int:
        return 0 <= value <= LARGEST
    return isinstance(value, float) and math.isfinite(value) and 0 <= value <= LARGEST


def _floats(numbers: Mapping[str, object]) -> dict[str, float | None]:
    return {name: float(value) if isinstance(value, int | float) else None for name, value in numbers.items()}
