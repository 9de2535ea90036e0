"""Durations as Go writes them, `1h30m`: what `metav1.Duration` holds."""

import re
from typing import Annotated, TypeAlias

from pydantic import AfterValidator, Field

from reconciler.manifests.wording import quote

_EXAMPLES = 'a duration like "15s" or "1h30m"'
# Twelve digits of hours are a hundred million years.
_PART = re.compile(r"([0-9]{1,12}(?:\.[0-9]{0,12})?|\.[0-9]{1,12})(ns|us|µs|μs|ms|s|m|h)")
_DURATION = re.compile(f"[+-]?(?:0|(?:{_PART.pattern}){{1,8}})")
_SECONDS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}


def parse_duration(text: str) -> float:
    """The seconds of a duration, below zero with a minus before it; ValueError says what was expected."""
    if not _DURATION.fullmatch(text):
        raise ValueError(f"expected {_EXAMPLES}, got {quote(text)}")
    seconds = sum(float(amount) * _SECONDS[unit] for amount, unit in _PART.findall(text))
    return -seconds if text.startswith("-") else seconds


def _check_duration(text: str) -> str:
    parse_duration(text)
    return text


Duration: TypeAlias = Annotated[str, AfterValidator(_check_duration), Field(description=_EXAMPLES)]
"""A field of type Duration; `parse_duration` has its seconds."""
