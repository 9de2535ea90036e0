"""Field paths: how a place inside a document is named."""

import re
from collections.abc import Sequence
from typing import TypeAlias

Field: TypeAlias = tuple[str | int, ...]

# A key with a dot, slash or blank is quoted in brackets, so that a path reads only one way.
_BARE_KEY = re.compile(r"[A-Za-z0-9_$-]+")


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
