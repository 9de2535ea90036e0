"""How a value that was found, and its field, are shown to a person: short, and harmless wherever they are printed."""

import json
import re
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from functools import lru_cache
from itertools import islice
from typing import TypeAlias

Field: TypeAlias = tuple[str | int, ...]

# A key with a dot, slash or blank is quoted in brackets, so that a path reads only one way.
_BARE_KEY = re.compile(r"[A-Za-z0-9_$-]+")
MAX_SHOWN = 60

_DIGITS = re.compile(r"[0-9]+")
_MOST_COMPARED, _NEAR = 2000, 0.75
MOST_NAMED = 10
"""How many of a crowd are named one by one."""


def format_field(field: Sequence[str | int]) -> str:
    """Write a field path as people do: `spec.containers[0].name`, `metadata.annotations["a.b/c"]`."""
    path = ""
    for part in field:
        if isinstance(part, int):
            path += f"[{part}]"
        elif _BARE_KEY.fullmatch(part):
            path += f".{part}" if path else part
        else:
            path += f'["{part}"]'
    return path


def quote(text: str) -> str:
    """The text in double quotes, cut, with control and formatting characters escaped."""
    cut = text if len(text) <= MAX_SHOWN else text[: MAX_SHOWN - 1] + "…"
    return json.dumps(escape(cut), ensure_ascii=False).replace("\\\\", "\\")


def escape(text: str) -> str:
    """Spell out every character that a terminal or a browser would act on instead of showing it."""
    if text.isprintable():
        return text
    return "".join(ch if ch.isprintable() else ch.encode("unicode_escape", "replace").decode() for ch in text)


def describe(value: object) -> str:
    """A found value in words: `"ten"`, `3`, `true`, `nothing`, `a list`."""
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return quote(value)
    if isinstance(value, int | float):
        return f"{value}"
    noun = "list" if isinstance(value, list | tuple) else "mapping"
    return f"a {noun}" if value else f"an empty {noun}"


# The same few fields are named for thousands of objects.
@lru_cache(maxsize=4096)
def name_field(field: tuple[str | int, ...]) -> str:
    """A field path as people write it, safe to print however hostile its keys are."""
    return format_field([part if isinstance(part, int) else _shorten(part) for part in field])


def _shorten(key: str) -> str:
    return escape(key if len(key) <= MAX_SHOWN else key[: MAX_SHOWN - 1] + "…").replace('"', "'")


def suggest(name: str, known: Iterable[str]) -> str:
    """`, did you mean "llama"?` where one of the known names looks like it; empty where none does.

    Names that differ in digits alone are those of two things.
    """
    others = (each for each in sorted({*known}) if _DIGITS.sub("", each) != _DIGITS.sub("", name))
    nearest = get_close_matches(name[:MAX_SHOWN], islice(others, _MOST_COMPARED), n=1, cutoff=_NEAR)
    return f", did you mean {quote(nearest[0])}?" if nearest else ""


def name_first(first: Sequence[str], total: int) -> str:
    """The first of `total` things, and how many more there are: each of thousands must not name all the others."""
    return ", ".join(first) + (f" and {total - len(first)} more" if total > len(first) else "")


def join_words(words: Sequence[str], conjunction: str = "or") -> str:
    """`a`, `a or b`, `a, b or c`."""
    if len(words) < 2:
        return "".join(words)
    return f"{', '.join(words[:-1])} {conjunction} {words[-1]}"
