"""Reads documents that differ only in simple scalars from earlier ones: a fleet has thousands of a few shapes.

A *slot* is a short scalar that ends with its line or flow item: plain, of signs that mean nothing to YAML, or in quotes
without escapes. What remains of a text without its slots is its *shape*. A scanner of YAML leaves a slot in the state
in which it came, whatever is written there, so that texts of one shape have the same nodes on the same lines, and only
scalars differ. This takes a tenth of the time that reading libyaml's events takes.
"""

import json
import re
from collections import Counter
from collections.abc import Callable
from functools import lru_cache
from typing import Final, Generic, TypeAlias, TypeVar

from msgspec.json import decode

from reconciler.domain.records import dataclass

Nodes = TypeVar("Nodes")
Reader: TypeAlias = "Callable[[str], tuple[object, Nodes] | None]"
"""Reads a text in full: its value, and what else is known of its nodes; None if that depends on more than the shape."""

_SLOT: Final = re.compile(
    # One set of signs first: two alternatives take half as long again to look for.
    r"([:,\-{\[](?:(?<=[:,-]) |(?<=[{\[])))"
    r"""(-{0,2}[A-Za-z0-9_./][A-Za-z0-9_./=+@%-]{0,126}|"[ -!#-&(-\[\]-~]{0,126}"|'[ -!#-&(-\[\]-~]{0,126}')"""
    r"(?=[,}\]\n]| +(?:#|\n)|\Z)"
)
_PLACES: Final = slice(2, None, 3)
"""Of the slots in what `_SLOT` splits a text into."""
_QUOTES: Final = "\"'"
_GAP: Final = "\0"
"""Stands for a slot in a shape; no text holds it."""
_LONGEST: Final = 10_000
"""Characters of a text whose shape is kept."""
_MOST_SHAPES: Final = 2_000
_LEARNED_AT: Final = 3
"""The text of a shape that it is learned from: that takes as long as reading three."""
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


class Shapes(Generic[Nodes]):
    """The shapes that were seen, at most 2,000; `resolve` gives the value of a plain scalar."""

    def __init__(self, read: "Reader[Nodes]", resolve: Callable[[str], object]) -> None:
        self._read = read
        self._seen = Counter[str]()
        self._templates: dict[str, _Template[Nodes] | None] = {}

        @lru_cache(maxsize=16384)
        def as_json(slot: str) -> str:
            return f'"{slot[1:-1]}"' if slot[0] in _QUOTES else json.dumps(resolve(slot), allow_nan=False)

        self._as_json = as_json

    def find(self, text: str) -> tuple[object, Nodes] | None:
        """The value and the nodes of a text of a known shape; None for any other, which must be read in full.

        The text is of ASCII characters and line feeds alone.
        """
        if len(text) > _LONGEST:
            return None
        parts = _SLOT.split(text)
        slots = parts[_PLACES]
        # What is in quotes does not become a plain scalar, nor the other way round.
        kinds = "".join([slot[0] if slot[0] in _QUOTES else "." for slot in slots])
        gaps = parts.copy()
        del gaps[_PLACES]
        shape = _GAP.join([*gaps, kinds])
        template = self._templates[shape] if shape in self._templates else self._learn(shape, text, parts)
        if template is None or any(slots[place] != written for place, written in template.fixed):
            return None
        try:
            return self._filled(template, slots), template.nodes
        except ValueError:  # an infinity, say
            return None

    def _filled(self, template: _Template[Nodes], slots: list[str]) -> object:
        return decode(template.value % tuple([self._as_json(slots[place]) for place in template.chosen]))

    def _learn(self, shape: str, text: str, parts: list[str]) -> _Template[Nodes] | None:
        """The template of a shape that was seen often enough."""
        if shape in self._seen or len(self._seen) < _MOST_SHAPES:
            self._seen[shape] += 1
        if self._seen[shape] < _LEARNED_AT:
            return None
        if any(sign in shape for sign in _UNSAFE):
            self._templates[shape] = None
            return None
        template, found = self._template_of(parts), self._read(text)
        try:
            # It is used only if it gives what reading in full gives; `repr` tells 1 from True, and NaN equals itself.
            is_right = template and found and repr(self._filled(template, parts[_PLACES])) == repr(found[0])
        except ValueError:
            is_right = False
        self._templates[shape] = template if is_right else None
        return self._templates[shape]

    def _template_of(self, parts: list[str]) -> _Template[Nodes] | None:
        """What is read with a name in each slot: slots whose name is found once and as a value can hold any other."""
        slots = parts[_PLACES]
        wanted = set(range(len(slots)))
        for _ in range(2):  # in the second turn with what the first has found
            named = parts.copy()
            named[_PLACES] = [_named(slot, place) if place in wanted else slot for place, slot in enumerate(slots)]
            found = self._read("".join(named))
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
                    fixed=tuple((place, slot) for place, slot in enumerate(slots) if place not in wanted),
                    nodes=found[1],
                )
            wanted = {place for place, times in Counter(order).items() if times == 1} & wanted
        return None


def _named(slot: str, place: int) -> str:
    quote = slot[0] if slot[0] in _QUOTES else ""
    return f"{quote}zQx{place}xQz{quote}"
