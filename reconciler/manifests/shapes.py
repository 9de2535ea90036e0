"""Reads documents that differ only in simple scalars from earlier ones: a fleet has thousands of a few shapes.

A *slot* is a short scalar that ends with its line or flow item: plain, of signs that mean nothing to YAML, or in quotes
without escapes. What remains of a text without its slots is its *shape*. A scanner of YAML leaves a slot in the state
in which it came, whatever is written there, so that texts of one shape have the same nodes on the same lines, and only
scalars differ. This takes a tenth of the time that reading libyaml's events takes.
"""

import json
import re
from collections import Counter
from collections.abc import Callable, Container
from functools import lru_cache
from typing import Final, Generic, NamedTuple, TypeAlias, TypeVar

from msgspec.json import decode

from reconciler.domain.records import dataclass

Nodes = TypeVar("Nodes")
Key = TypeVar("Key")
Found = TypeVar("Found")
Reader: TypeAlias = "Callable[[str], tuple[object, Nodes] | None]"
"""Reads a text in full: its value, and what else is known of its nodes; None if that depends on more than the shape."""

_SLOT: Final = re.compile(
    # One set of signs first: two alternatives take half as long again to look for.
    r"([:,\-{\[](?:(?<=[:,-]) |(?<=[{\[])))"
    r"""(-{0,2}[A-Za-z0-9_./][A-Za-z0-9_./=+@%-]{0,126}|"[ -!#-&(-\[\]-~]{0,126}"|'[ -!#-&(-\[\]-~]{0,126}')"""
    r"(?=[,}\]\n]| +(?:#|\n)|\Z)"
)
_QUOTES: Final = "\"'"
_GAP: Final = "\0"
"""Stands for a slot in a shape; no text holds it."""
_LONGEST: Final = 10_000
"""Characters of a text whose shape is kept."""
_MOST_KEYS: Final = 2_000
_LEARNED_AT: Final = 3
"""The text of a shape that it is learned from: that takes as long as reading three."""
_LINES: Final = 8_192
"""Lines that are kept: a fleet repeats nearly all of them."""
_UNSAFE: Final = ("!", "zQx")
"""In a shape: the end of a tag reads like what comes before a slot, and a text may hold the names that are tried."""
_NAMED: Final = re.compile(r'(?<!\\)"zQx([0-9]+)xQz"(?!:)')


@dataclass(frozen=True, slots=True, kw_only=True)
class _Template(Generic[Nodes]):
    """What texts of one shape have in common: their value as JSON with `%s` for each slot in `chosen`, and their nodes.

    `fixed` are the other slots, which are no values of their own (in a comment, say), with what is written there.
    """

    value: str
    chosen: tuple[int, ...]
    fixed: tuple[tuple[int, str], ...]
    nodes: Nodes


class _Line(NamedTuple):
    """A line of a text: its gaps and its slots by turns, its part of the shape, and its slots' values as JSON.

    In a shape a slot is written as its quotation mark, or a point: what is in quotes does not become a plain scalar,
    nor the other way round.
    """

    pieces: tuple[str, ...]
    shape: str
    values: tuple[str, ...]


class Learned(Generic[Key, Found]):
    """What is known of keys that were met several times, None where there is nothing to know; of at most 2,000 keys."""

    def __init__(self) -> None:
        self._seen = Counter[Key]()
        self._known: dict[Key, Found | None] = {}

    def find(self, key: Key, learn: Callable[[], Found | None]) -> Found | None:
        """What was learned of a key; None before that."""
        if key not in self._known and (key in self._seen or len(self._seen) < _MOST_KEYS):
            self._seen[key] += 1
            if self._seen[key] >= _LEARNED_AT:
                self._known[key] = learn()
        return self._known.get(key)


class Shapes(Generic[Nodes]):
    """The shapes that were seen, at most 2,000; `resolve` gives the value of a plain scalar."""

    def __init__(self, read: "Reader[Nodes]", resolve: Callable[[str], object]) -> None:
        self._read = read
        self._templates = Learned[str, _Template[Nodes]]()

        @lru_cache(maxsize=_LINES)
        def read_line(line: str) -> _Line:
            gap, *rest = _SLOT.split(line)
            pieces, shape, values = [gap], [gap], list[str]()
            for before, slot, after in zip(rest[::3], rest[1::3], rest[2::3], strict=True):
                pieces[-1] += before
                pieces += slot, after
                quote = slot[0] if slot[0] in _QUOTES else ""
                shape += before, _GAP, quote or ".", after
                # What JSON cannot write, an infinity, say, it cannot read either.
                values.append(f'"{slot[1:-1]}"' if quote else json.dumps(resolve(slot)))
            return _Line(tuple(pieces), "".join(shape), tuple(values))

        self._read_line = read_line

    def find(self, text: str) -> tuple[object, Nodes] | None:
        """The value and the nodes of a text of a known shape; None for any other, which must be read in full.

        The text is of ASCII characters and line feeds alone.
        """
        if len(text) > _LONGEST:
            return None
        lines = self._lines_of(text)
        shape = "".join([line.shape for line in lines])
        template = self._templates.find(shape, lambda: self._learn(shape, text, lines))
        if template is None:
            return None
        if template.fixed:
            slots = _pieces_of(lines)[1::2]
            if any(slots[place] != written for place, written in template.fixed):
                return None
        try:
            return self._filled(template, lines), template.nodes
        except ValueError:
            return None

    def split(self, text: str) -> tuple[str, list[str]] | None:
        """The shape of such a text, and its pieces, of which every second is a slot; None where its nodes may vary."""
        if len(text) > _LONGEST:
            return None
        lines = self._lines_of(text)
        shape = "".join([line.shape for line in lines])
        return None if _is_unsafe(shape) else (shape, _pieces_of(lines))

    def _lines_of(self, text: str) -> list[_Line]:
        return list(map(self._read_line, text.splitlines(keepends=True)))

    def _filled(self, template: _Template[Nodes], lines: list[_Line]) -> object:
        values = [value for line in lines for value in line.values]
        return decode(template.value % tuple([values[place] for place in template.chosen]))

    def _learn(self, shape: str, text: str, lines: list[_Line]) -> _Template[Nodes] | None:
        """The template of a shape; None where it does not give what reading in full gives."""
        if _is_unsafe(shape):
            return None
        template, found = self._template_of(_pieces_of(lines)), self._read(text)
        try:
            # It is used only if it gives what reading in full gives; `repr` tells 1 from True, and NaN equals itself.
            is_right = template and found and repr(self._filled(template, lines)) == repr(found[0])
        except ValueError:
            is_right = False
        return template if is_right else None

    def _template_of(self, pieces: list[str]) -> _Template[Nodes] | None:
        """What is read with a name in each slot: slots whose name is found once and as a value can hold any other."""
        wanted = set(range(len(pieces) // 2))
        for _ in range(2):  # in the second turn with what the first has found
            found = self._read("".join(named(pieces, wanted)))
            if found is None:
                return None
            try:
                value = json.dumps(found[0], allow_nan=False)
            except ValueError:
                return None
            order = [int(place) for place in _NAMED.findall(value)]
            if set(order) == wanted and len(order) == len(wanted):
                return _Template(
                    value=_NAMED.sub("%s", value.replace("%", "%%")),
                    chosen=tuple(order),
                    fixed=tuple((place, slot) for place, slot in enumerate(pieces[1::2]) if place not in wanted),
                    nodes=found[1],
                )
            wanted = {place for place, times in Counter(order).items() if times == 1} & wanted
        return None


def _is_unsafe(shape: str) -> bool:
    return any(sign in shape for sign in _UNSAFE)


def _pieces_of(lines: list[_Line]) -> list[str]:
    """The pieces of a text: the last gap of a line and the first of the next are one."""
    pieces = [""]
    for line in lines:
        first, *rest = line.pieces
        pieces[-1] += first
        pieces += rest
    return pieces


def named(pieces: list[str], wanted: Container[int] | None = None) -> list[str]:
    """The pieces with a name of its own in each slot, or in those that are wanted."""
    found = pieces.copy()
    for place, slot in enumerate(pieces[1::2]):
        if wanted is None or place in wanted:
            quote = slot[0] if slot[0] in _QUOTES else ""
            found[1 + 2 * place] = f"{quote}zQx{place}xQz{quote}"
    return found
