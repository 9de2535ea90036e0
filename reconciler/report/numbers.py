"""Numbers as people read them: one way to print each quantity, wherever it is printed."""

import math
from collections.abc import Callable
from dataclasses import dataclass

from reconciler.domain.units import ms_from_seconds

UNKNOWN = "?"
OVER_CAPACITY = "over capacity"
MINUS = "−"
COST_UNITS = "cost units"
SYMBOLS = {"USD": "$", "EUR": "€", "GBP": "£"}

LARGEST = 1e15
"""Nothing that is measured, promised or paid for comes near; beyond it is as good as infinite."""

MINUTE_S = 60
HOUR_S = 3600
DAY_S = 86400


@dataclass(frozen=True, slots=True, kw_only=True)
class Shift:
    """A number before and after with the unit they share; `before` is empty when both read the same."""

    before: str
    after: str
    unit: str = ""

    def __str__(self) -> str:
        parts = (f"{self.before} →" if self.before else "", self.after, self.unit)
        return " ".join(part for part in parts if part)


def shift(before: str, after: str) -> Shift:
    """Two printed numbers side by side; a unit that both end in is said once."""
    if before == after:
        return Shift(before="", after=after)
    (start, start_unit), (end, end_unit) = before.rpartition(" ")[::2], after.rpartition(" ")[::2]
    if start and end and start_unit == end_unit:
        return Shift(before=start, after=end, unit=end_unit)
    return Shift(before=before, after=after)


def count(number: int, noun: str, plural: str = "") -> str:
    """`1 change`, `3 changes`, `2 queries`."""
    return f"{number} {noun}" if number == 1 else f"{number} {plural or f'{noun}s'}"


def rate(per_s: float | None) -> str:
    """A rate in its own unit: `46.2`, `0.35`, `1204`."""
    return _finite(per_s, _rate)


def quantity(value: float | None, unit: str) -> str:
    """An amount of something that is counted or flows, without its unit: `46.2` req/s, `41k` tokens, `3.4` replicas."""
    return _finite(value, _tokens if unit == "tokens" else _rate)


def duration(seconds: float | None) -> str:
    """A measured time: `6.9 ms`, `310 ms`, `1.9 s`, `5m`, `4m10s`, `2h`, `7d`."""
    return _finite(seconds, lambda known: _signed(known, _duration(abs(known))))


def apart(seconds: float | None, other_s: float) -> str:
    """`duration` with as many decimals as it takes to read differently from that of `other_s`: `15.2 ms`."""
    text = duration(seconds)
    if seconds is None or seconds == other_s or text != duration(other_s):
        return text
    is_ms = ms_from_seconds(abs(seconds)) < 999.5
    value, other = (ms_from_seconds(seconds), ms_from_seconds(other_s)) if is_ms else (seconds, other_s)
    for places in range(1, 7):
        if f"{value:.{places}f}" != f"{other:.{places}f}":
            return f"{value:.{places}f} {'ms' if is_ms else 's'}"
    return text


def durations(before_s: float | None, after_s: float | None) -> Shift:
    """Two times side by side: `63 → 38 ms`, `1.9 s → 310 ms`."""
    return shift(duration(before_s), duration(after_s))


def percentage(fraction: float | None) -> str:
    """A fraction as percent: `20 %`, `0.04 %`."""
    return _finite(fraction, lambda known: f"{_trimmed(known * 100, 2)} %")


def cost(per_hour: float | None) -> str:
    """A bare cost an hour with two decimals: `214.60`."""
    return _finite(per_hour, lambda known: _signed_text(known, plus=""))


def cost_change(before_per_hour: float | None, after_per_hour: float | None) -> str:
    """A bare cost difference: `+13.76`, `−3.18`, `0.00`, `?`."""
    difference = _difference(before_per_hour, after_per_hour)
    return _finite(difference, lambda known: _signed_text(known, plus="+"))


def money_change(difference: float | None, currency: str) -> str:
    """A cost difference with its currency: `+$19.50`, `−€3.10`, `+19.50 CHF`; without one `+19.50 cost units`."""
    text = _finite(difference, lambda known: _signed_text(known, plus="+"))
    return text if text in (UNKNOWN, OVER_CAPACITY) else _with_currency(text, currency)


def round_money_change(difference: float, currency: str) -> str:
    """The same to two digits and in whole units, for what is only about so much: `+$7,000`, `−€44`."""
    if abs(difference) > LARGEST:
        return OVER_CAPACITY
    places = 1 - math.floor(math.log10(abs(difference))) if abs(difference) >= 1 else 0
    text = _signed(difference, f"{abs(round(difference, min(places, 0))):,.0f}", plus="+")
    return _with_currency(text, currency)


def _with_currency(text: str, currency: str) -> str:
    """A signed amount with its currency: a symbol stands between sign and digits, a code behind them."""
    if currency not in SYMBOLS:
        return f"{text} {currency or COST_UNITS}"
    digits = text.lstrip(f"+{MINUS}")
    return text[: len(text) - len(digits)] + SYMBOLS[currency] + digits


def _difference(before: float | None, after: float | None) -> float | None:
    if before is None or after is None:
        return None
    return after - before


def _finite(value: float | None, text: Callable[[float], str]) -> str:
    if value is None or math.isnan(value):
        return UNKNOWN
    if abs(value) > LARGEST:
        return OVER_CAPACITY
    return text(value)


def _rate(per_s: float) -> str:
    size = abs(per_s)
    if size >= 999.95:
        return _signed(per_s, f"{size:.0f}")
    # Below one the first decimal says too little, below a thousandth nothing is meant any more.
    places = 1 if size >= 0.95 else 3 if 0 < size < 0.0095 else 2
    text = f"{size:.{places}f}"
    return "0" if float(text) == 0 else _signed(per_s, text)


def _tokens(tokens: float) -> str:
    size = abs(tokens)
    return _signed(tokens, f"{size / 1000:.0f}k" if size >= 9999.5 else f"{size:.0f}")


def _duration(seconds: float) -> str:
    ms = ms_from_seconds(seconds)
    if ms < 999.5:
        return f"{_trimmed(ms, 1) if ms < 9.95 else f'{ms:.0f}'} ms"
    if seconds < 59.95:
        return f"{_trimmed(seconds, 1)} s"
    return _clock(round(seconds))


def _clock(seconds: int) -> str:
    units = ((DAY_S, "d"), (HOUR_S, "h"), (MINUTE_S, "m"), (1, "s"))
    parts = []
    for size, letter in units:
        amount, seconds = divmod(seconds, size)
        if amount:
            parts.append(f"{amount}{letter}")
    return "".join(parts[:2])


def _trimmed(value: float, places: int) -> str:
    text = f"{abs(value):.{places}f}".rstrip("0").rstrip(".")
    return _signed(value, text)


def _signed_text(value: float, *, plus: str) -> str:
    return _signed(value, f"{abs(value):.2f}", plus=plus)


def _signed(value: float, size: str, *, plus: str = "") -> str:
    """`size` with the sign of `value`; what reads as nothing has none."""
    if not any(digit in size for digit in "123456789"):
        return size
    return (MINUS if value < 0 else plus) + size
