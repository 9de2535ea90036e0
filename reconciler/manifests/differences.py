"""Where two values differ."""

from collections.abc import Iterable

from reconciler.manifests.composer import Value
from reconciler.manifests.fields import Field


def find_difference(wanted: Value, found: Value) -> Field | None:
    """Find the first place where two values differ, in type too: 5 is neither "5" nor 5.0. None: they are equal."""
    if isinstance(wanted, dict) and isinstance(found, dict):
        if wanted.keys() != found.keys():
            return (min(wanted.keys() ^ found.keys()),)
        return _first_difference((key, wanted[key], found[key]) for key in wanted)
    if isinstance(wanted, list) and isinstance(found, list):
        if len(wanted) != len(found):
            return (min(len(wanted), len(found)),)
        return _first_difference((index, wanted[index], found[index]) for index in range(len(wanted)))
    if type(wanted) is not type(found):
        return ()
    # repr tells -0.0 from 0.0, and lets NaN equal itself.
    is_equal = repr(wanted) == repr(found) if isinstance(wanted, float) else wanted == found
    return None if is_equal else ()


def _first_difference(members: Iterable[tuple[str | int, Value, Value]]) -> Field | None:
    for part, wanted, found in members:
        place = find_difference(wanted, found)
        if place is not None:
            return (part, *place)
    return None
