"""How names, numbers and lines of text are printed: one way for each, wherever it is printed."""

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

from reconciler.domain.identity import ModelKey, ResourceKey
from reconciler.domain.records import dataclass
from reconciler.domain.units import ms_from_seconds

# Untrusted text on one line, without control, bidi or escape characters; names, columns and wrapped lines of it.

REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
ELLIPSIS = "…"
LABEL_LENGTH = 90
TEXT_LENGTH = 400

# Cf holds bidi overrides, zero-width characters and tags: all of them make a reader see something else than is there.
_HIDDEN = frozenset({"Cc", "Cf", "Cs"})
GAP = "  "
LEAST_ROOM = 24
"""Cells below which a text next to something is not readable any more."""


def one_line(text: str, *, limit: int = TEXT_LENGTH) -> str:
    """`text` on one line of at most `limit` characters; what a reader cannot see is shown as the replacement character.

    White space of any kind and length becomes one space, so that nothing can start a line of its own.
    """
    words = " ".join(text[: 4 * limit].split())
    if _is_plain(words) and len(text) <= limit:
        return words
    seen = "".join(REPLACEMENT if unicodedata.category(char) in _HIDDEN else char for char in words)
    was_cut = len(seen) > limit or len(text) > 4 * limit
    return seen[: limit - 1].rstrip() + ELLIPSIS if was_cut else seen


_BEYOND_ASCII = re.compile(r"[^\x00-\x7f]")


def display_width(text: str) -> int:
    """How many terminal cells `text` takes: wide and full-width characters two, combining ones none."""
    return len(text) + sum(_cells(char) - 1 for char in _BEYOND_ASCII.findall(text))


def pad(text: str, width: int, *, right: bool = False) -> str:
    """`text` filled with spaces to `width` terminal cells; `right` aligns it to the right."""
    fill = " " * max(0, width - display_width(text))
    return fill + text if right else text + fill


def _is_plain(text: str) -> bool:
    """Whether no character needs a look of its own, as in nearly every text: printable ASCII."""
    return text.isascii() and text.isprintable()


def _cells(char: str) -> int:
    if unicodedata.category(char) in ("Mn", "Me"):
        return 0
    return 2 if unicodedata.east_asian_width(char) in ("W", "F") else 1


def labels_of(keys: Iterable[ResourceKey]) -> Mapping[ResourceKey, str]:
    """`[KIND:][CLUSTER/]NAMESPACE/NAME`: the cluster when there are several, the kind where two share a name."""
    unique = sorted(set(keys))
    several = len({key.cluster for key in unique}) > 1
    paths = {key: f"{key.cluster}/{key.label}" if several else key.label for key in unique}
    return _with_kinds(paths)


def short_labels_of(keys: Iterable[ResourceKey]) -> Mapping[ResourceKey, str]:
    """The same without the namespace where all share one; for a text whose title already says it."""
    unique = sorted(set(keys))
    if len({(key.cluster, key.namespace) for key in unique}) > 1:
        return labels_of(unique)
    return _with_kinds({key: key.label.removeprefix(f"{key.namespace}/") for key in unique})


def model_name(model: ModelKey) -> str:
    """The last part of a model's id, which is how people call it: `Llama-3.1-8B-Instruct`."""
    return one_line(model.model_id.rstrip("/").rpartition("/")[2] or model.model_id, limit=LABEL_LENGTH)


def _with_kinds(paths: Mapping[ResourceKey, str]) -> Mapping[ResourceKey, str]:
    uses = Counter(paths.values())
    return {
        key: one_line(f"{key.kind.lower()}:{path}" if uses[path] > 1 else path, limit=LABEL_LENGTH)
        for key, path in paths.items()
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A heading and a cell a row; `right` aligns to the right."""

    heading: str
    cells: tuple[str, ...]
    right: bool = False

    @property
    def width(self) -> int:
        """Terminal cells of the widest entry."""
        return max(map(display_width, (self.heading, *self.cells)))

    def padded(self) -> tuple[str, ...]:
        """Heading and cells, all of one width; a heading stays on the left where the cells do."""
        width = self.width
        return tuple(pad(text, width, right=self.right) for text in (self.heading, *self.cells))


def lines_of(columns: Sequence[Column], *, indent: str = "") -> tuple[str, ...]:
    """The rows of the columns, heading first, without trailing space."""
    return tuple(
        (indent + GAP.join(cells)).rstrip() for cells in zip(*(each.padded() for each in columns), strict=True)
    )


def hung(head: str, text: str, *, width: int) -> tuple[str, ...]:
    """`head`, then `text` to the right of it in lines of at most `width` cells; in a narrow terminal it goes below."""
    indent = display_width(head)
    if 0 < width < indent + LEAST_ROOM:
        return (head.rstrip(), *(f"     {line}" for line in _broken(text, width - 5)))
    first, *rest = wrapped(text, indent=indent, width=width)
    return ((head + first).rstrip(), *rest)


def wrapped(text: str, *, indent: int, width: int) -> tuple[str, ...]:
    """`text` in lines of at most `width` cells, all but the first indented; `width` 0 does not wrap."""
    lines = _broken(text, width - indent) if width > 0 else (text,)
    return (lines[0], *(" " * indent + line for line in lines[1:]))


def _broken(text: str, room: int) -> tuple[str, ...]:
    lines = [""]
    for word in text.split(" "):
        longer = f"{lines[-1]} {word}".strip()
        if display_width(longer) > room and lines[-1]:
            lines.append(word)
        else:
            lines[-1] = longer
    return tuple(lines)


# Numbers.

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


def four_digits(value: float) -> str:
    """A number by its first four digits: `46.25`, `904.7`, `90,510`."""
    rounded = float(f"{value:.4g}")
    return f"{rounded:,.0f}" if abs(rounded) >= 1000 else f"{rounded:.4g}"


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
