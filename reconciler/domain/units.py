"""Conversions at the borders; everything inside is seconds, per second, bytes, fractions and cost per hour."""

import math
import re
from datetime import UTC, datetime

MS_PER_S = 1000.0
S_PER_MINUTE = 60.0
CENTS_PER_UNIT = 100.0
DAY_S = 86_400.0

# Twelve digits of hours are a hundred million years.
_PART = re.compile(r"([0-9]{1,12}(?:\.[0-9]{0,12})?|\.[0-9]{1,12})(ns|us|µs|μs|ms|s|m|h)")
_DURATION = re.compile(f"[+-]?(?:0|(?:{_PART.pattern}){{1,8}})")
_SECONDS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}


def seconds_from_ms(value_ms: float) -> float:
    """Milliseconds, as resources and upstream ConfigMaps write them, in seconds."""
    return value_ms / MS_PER_S


def seconds_from_duration(text: str) -> float | None:
    """The seconds of a duration as Go writes it (`15s`, `1h30m`), below zero with a minus; None for another text."""
    if not _DURATION.fullmatch(text):
        return None
    seconds = sum(float(amount) * _SECONDS[unit] for amount, unit in _PART.findall(text))
    return -seconds if text.startswith("-") else seconds


def ms_from_seconds(value_s: float) -> float:
    """Seconds in milliseconds, as a resource's status wants them."""
    return value_s * MS_PER_S


def per_minute_from_per_second(value_per_s: float) -> float:
    """Requests a second in requests a minute, as a resource's status wants them."""
    return value_per_s * S_PER_MINUTE


def cost_per_hour_from_cents(cents: float) -> float:
    """Cents an hour, as `accelerator-unit-costs` writes them in JSON, in currency units an hour."""
    return cents / CENTS_PER_UNIT


def significant(value: float) -> float:
    """A number with ten significant digits, as plans show it."""
    return float(f"{value:.10g}")


def last_midnight_s(now_s: float) -> float:
    """The last midnight (UTC) before now: what is learned of the past is the same in all runs of a day."""
    return math.floor(now_s / DAY_S) * DAY_S


def utc_minute(time_s: float) -> str:
    """Unix seconds as people read a time: the minute, in UTC."""
    return datetime.fromtimestamp(time_s, UTC).strftime("%Y-%m-%d %H:%M UTC")
