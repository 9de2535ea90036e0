"""Conversions at the borders; everything inside is seconds, per second, bytes, fractions and cost per hour."""

import math
from datetime import UTC, datetime

MS_PER_S = 1000.0
S_PER_MINUTE = 60.0
CENTS_PER_UNIT = 100.0
DAY_S = 86_400.0


def seconds_from_ms(value_ms: float) -> float:
    """Milliseconds, as resources and upstream ConfigMaps write them, in seconds."""
    return value_ms / MS_PER_S


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
