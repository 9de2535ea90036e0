"""Amounts with their unit, as people write them in settings: `500ms`, `3m`, `20%`."""

import re
from collections.abc import Callable, Iterable, Mapping

from reconciler.domain.units import seconds_from_ms
from reconciler.manifests.wording import describe

_NUMBER = r"[0-9]{1,12}(?:\.[0-9]{1,12})?"
_LONGEST_DELAY_S = 86400.0

# Milliseconds take the same route as those of resources, so that equal numbers are equal floats.
SECONDS: Mapping[str, Callable[[float], float]] = {
    "ms": seconds_from_ms,
    "s": lambda amount: amount,
    "m": lambda amount: amount * 60.0,
    "h": lambda amount: amount * 3600.0,
    "d": lambda amount: amount * 86400.0,
}
FRACTIONS: Mapping[str, Callable[[float], float]] = {"%": lambda amount: amount / 100.0}


def pattern_of(units: Iterable[str]) -> str:
    """The regular expression of a number with one of these units."""
    return f"({_NUMBER})({'|'.join(units)})"


def read_duration(value: object, example: str, *, may_be_zero: bool = False) -> float:
    """Seconds of a duration; ValueError says what was expected, with an example, and what was found."""
    return _read(value, f"a duration like {example}", SECONDS, zero="" if may_be_zero else "a duration above zero")


def read_delay(value: object) -> float:
    """Seconds of a duration of at most a day."""
    delay_s = read_duration(value, "3m")
    if delay_s > _LONGEST_DELAY_S:
        raise ValueError(f"expected a duration of at most 1d, got {delay_s / _LONGEST_DELAY_S:g}d")
    return delay_s


def read_percentage(value: object) -> float:
    """The fraction that a percentage means."""
    return _read(value, "a percentage like 20%", FRACTIONS)


def _read(value: object, expected: str, units: Mapping[str, Callable[[float], float]], zero: str = "") -> float:
    """A number in the base unit of `units`; `zero` is what is expected instead of none at all."""
    match = re.fullmatch(pattern_of(units), value) if isinstance(value, str) else None
    if match is None:
        raise ValueError(f"expected {expected}, got {describe(value)}")
    amount = units[match[2]](float(match[1]))
    if amount == 0.0 and zero:
        raise ValueError(f"expected {zero}, got {describe(value)}")
    return amount
