"""JSON of servers, read only when it cannot fill the memory: a megabyte of `[],[],[]` becomes 25 of empty lists."""

import json
import re
from collections.abc import Callable

TEXT = re.compile(rb'"(?:[^"\\]|\\.)*+"', re.DOTALL)
BEFORE_VALUES = (b",", b"[", b"{")
"""One of them stands before each value but the first."""


def parse_json(body: bytes, *, most_values: int, parse_constant: Callable[[str], object] | None = None) -> object:
    """What `body` says; ValueError when that is no JSON, nested too deep, or more than `most_values` values."""
    if _holds_more(body, most_values):
        raise ValueError(f"more than the {most_values} values that are read")
    try:
        content: object = json.loads(body, parse_constant=parse_constant)
    except RecursionError as error:
        raise ValueError("nested too deep") from error
    return content


def _holds_more(body: bytes, most_values: int) -> bool:
    """Whether more values stand in `body`; what its texts hold does not count, and is looked at only where it may."""
    found = _count(body)
    if found > most_values:
        for texts, text in enumerate(TEXT.finditer(body)):
            found -= _count(text[0])
            if found <= most_values or texts > 2 * most_values:  # a value has a name at most beside it
                break
    return found > most_values


def _count(text: bytes) -> int:
    return sum(map(text.count, BEFORE_VALUES))
