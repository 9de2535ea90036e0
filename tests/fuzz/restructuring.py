"""Manifests with other values in them: YAML that is well written, of objects that nobody meant."""

from collections.abc import Callable, Iterator
from copy import deepcopy
from functools import cache
from typing import Any

import yaml

_ODD: tuple[object, ...] = (
    None, "", "x", "a/b", 0, -1, 1, 2**31, 2**63, 2**64, -(2**63), 1e308, 0.5, float("nan"), float("inf"), True,
    False, [], {}, [None], [[]], [{}], {"": None}, {"x": {}}, "9" * 400, "${X}", "{{ x }}", "1", "-1", "1e400", "NaN",
    "Inf", "100%", "1Ei", "10m", "-5s", "1h1h", "9999999h", "null", "true", "[", "a: [", "- 1", "\x00", "\x1b[31m",
    "\u202e", "💡" * 50, "../../../etc/passwd", "http://[", "http://x:y", "(a+)+$", ".*.*.*.*x", "a,b,,c", "=", ",",
    "--", "--x=", "{", '{"a":', '{"a": 1e999}', "a: &a [*a]", "2024-01-01", ["x", 1, None, {}], {"name": "x"},
    {"name": 1}, [{"name": "x"}] * 2, {"matchLabels": {"a": "b"}}, {"min": 3, "max": 1}, "0x10", "٣", "1٣", "1_0",
    " 1", "1 ", "+1", "١", "1,5", "²",
)  # fmt: skip
_LAYOUTS: tuple[dict[str, Any], ...] = (
    {}, {"indent": 4}, {"default_flow_style": True}, {"default_style": '"'}, {"default_style": "'"}, {"width": 20},
    {"allow_unicode": True}, {"explicit_start": True, "explicit_end": True}, {"default_style": "|"},
    {"canonical": True},
)  # fmt: skip
_NAMES = ("x", "status", "spec", "kind", "replicas", "", "a b", 5, None, True, "<<", "name", "namespace", "annotations")
Place = tuple[Any, Any]
"""A collection, and the key or index in it."""


def restructure(text: str, place: int, number: int) -> str:
    """Parse one document, change it in one to three places, and write it in one of many layouts."""
    value = deepcopy(_load(text))
    if not isinstance(value, dict):
        return text
    for step in range(1 + number % 3):
        places = list(_places(value))
        if places:
            collection, part = places[(place + 37 * step) % len(places)]
            _CHANGES[(number // 3 + step) % len(_CHANGES)](collection, part, places, place * 31 + number + step)
    written: str = yaml.dump(value, Dumper=yaml.CSafeDumper, sort_keys=False, **_LAYOUTS[place // 7 % len(_LAYOUTS)])
    return written


@cache
def _load(text: str) -> object:
    try:
        return yaml.load(text, Loader=yaml.CSafeLoader)
    except (yaml.YAMLError, ValueError, TypeError, RecursionError):
        return None


def _places(value: object) -> Iterator[Place]:
    members = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for part, member in members:
        yield value, part
        yield from _places(member)


def _set_odd(collection: Any, part: Any, places: list[Place], number: int) -> None:
    del places
    collection[part] = deepcopy(_ODD[number % len(_ODD)])


def _set_other(collection: Any, part: Any, places: list[Place], number: int) -> None:
    other, key = places[number % len(places)]
    collection[part] = deepcopy(other[key])


def _wrap(collection: Any, part: Any, places: list[Place], number: int) -> None:
    del places
    value = collection[part]
    collection[part] = ([value], {"x": value}, [value, deepcopy(value)], str(value), [[value]])[number % 5]


def _remove(collection: Any, part: Any, places: list[Place], number: int) -> None:
    del places, number
    del collection[part]


def _rename(collection: Any, part: Any, places: list[Place], number: int) -> None:
    if isinstance(collection, dict):
        names = [key for other, key in places if isinstance(other, dict)]
        collection[names[number % len(names)]] = collection.pop(part)


def _add(collection: Any, part: Any, places: list[Place], number: int) -> None:
    del part, places
    if isinstance(collection, list):
        collection.append(deepcopy(_ODD[number % len(_ODD)]))
    else:
        collection[_NAMES[number % len(_NAMES)]] = deepcopy(_ODD[number // 7 % len(_ODD)])


_CHANGES: tuple[Callable[[Any, Any, list[Place], int], None], ...] = (
    _set_odd, _set_odd, _set_odd, _set_other, _set_other, _wrap, _remove, _rename, _add,
)  # fmt: skip
