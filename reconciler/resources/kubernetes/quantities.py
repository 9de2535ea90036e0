"""Kubernetes quantities and durations (Go's `1h30m`), and fields that hold an integer or a text."""

import re
from decimal import ROUND_UP, Context, Decimal
from typing import Annotated, TypeAlias

from pydantic import AfterValidator, Field

from reconciler.manifests.wording import describe, quote

_EXAMPLES = 'a quantity like 10, "0.75", "500m" or "1Ki"'
_QUANTITY = re.compile(
    r"(?P<number>[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+))"
    r"(?:(?P<suffix>[numkMGTPE]|[KMGTPE]i)|[eE](?P<exponent>[+-]?[0-9]{1,3}))?"
)
_POWERS = {"n": -9, "u": -6, "m": -3, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_FACTORS = {
    **{suffix: Decimal(1).scaleb(power) for suffix, power in _POWERS.items()},
    **{f"{letter}i": Decimal(1024) ** power for power, letter in enumerate("KMGTPE", start=1)},
}
# Upstream keeps nothing finer than a nano unit, rounding it up, and nothing beyond 64 bits.
_FINEST = Decimal(1).scaleb(-9)
_LARGEST = Decimal(2**63 - 1)
_LONGEST = 64
_EXACT = Context(prec=2_000, rounding=ROUND_UP)


def read_quantity(written: int | float | str) -> float:
    """The amount that a Kubernetes Quantity means; ValueError says what was expected and what was found.

    A number without quotes counts as its text: the parser takes it, although schemas refuse a fraction so written.
    """
    text = str(written)
    match = _QUANTITY.fullmatch(text) if len(text) <= _LONGEST and not isinstance(written, bool) else None
    if match is None:
        raise ValueError(f"expected {_EXAMPLES}, got {describe(written)}")
    number = Decimal(match["number"])
    if match["exponent"] is not None:
        number = _EXACT.scaleb(number, int(match["exponent"]))
    amount = _EXACT.multiply(number, _FACTORS.get(match["suffix"] or "", Decimal(1)))
    magnitude = min(abs(amount), _LARGEST)
    return float(_EXACT.quantize(magnitude, _FINEST).copy_sign(amount))


def _check_quantity(written: int | float | str) -> int | float | str:
    read_quantity(written)
    return written


Quantity: TypeAlias = Annotated[int | float | str, AfterValidator(_check_quantity), Field(description=_EXAMPLES)]
"""A field of type Quantity; `read_quantity` has its amount."""

IntOrString: TypeAlias = Annotated[int | str, Field(description="an integer or a string")]
"""A field of type IntOrString: a port by number or name, a count or a percentage."""


_DURATION_EXAMPLES = 'a duration like "15s" or "1h30m"'
# Twelve digits of hours are a hundred million years.
_PART = re.compile(r"([0-9]{1,12}(?:\.[0-9]{0,12})?|\.[0-9]{1,12})(ns|us|µs|μs|ms|s|m|h)")
_DURATION = re.compile(f"[+-]?(?:0|(?:{_PART.pattern}){{1,8}})")
_SECONDS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}


def parse_duration(text: str) -> float:
    """The seconds of a duration, below zero with a minus before it; ValueError says what was expected."""
    if not _DURATION.fullmatch(text):
        raise ValueError(f"expected {_DURATION_EXAMPLES}, got {quote(text)}")
    seconds = sum(float(amount) * _SECONDS[unit] for amount, unit in _PART.findall(text))
    return -seconds if text.startswith("-") else seconds
