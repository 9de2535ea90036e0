"""What a scalar's text means: YAML 1.1 as Kubernetes reads it (sigs.k8s.io/yaml, its goyaml.v2)."""

import re
from base64 import b64decode
from functools import lru_cache
from typing import Final, TypeAlias

Scalar: TypeAlias = str | int | float | bool | None

_TAG_PREFIX: Final = "tag:yaml.org,2002:"
_WORDS: Final[dict[str, bool | float | None]] = {
    **dict.fromkeys(["y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"], True),
    **dict.fromkeys(["n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"], False),
    **dict.fromkeys(["", "~", "null", "Null", "NULL"], None),
    **dict.fromkeys([".nan", ".NaN", ".NAN"], float("nan")),
    **dict.fromkeys([".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF"], float("inf")),
    **dict.fromkeys(["-.inf", "-.Inf", "-.INF"], float("-inf")),
}
_INTEGER: Final = re.compile(
    r"(?P<sign>[-+]?)(?:0[xX](?P<hexadecimal>[0-9a-fA-F]+)|0[bB](?P<binary>[01]+)|0[oO]?(?P<octal>[0-7]+)"
    r"|(?P<decimal>0|[1-9][0-9]*))"
)
_BASES: Final = {"hexadecimal": 16, "binary": 2, "octal": 8, "decimal": 10}
_FLOAT: Final = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
# 64 binary digits with sign and prefix; Python itself refuses to convert thousands of digits.
_LONGEST_INTEGER: Final = 68
_INTEGERS: Final = range(-(2**63), 2**64)


@lru_cache(maxsize=16384)
def resolve_plain(text: str) -> Scalar:
    """Resolve an unquoted scalar: booleans, null, integers in four bases, floats; all else is text.

    Timestamps and base 60 numbers stay text, as they do in Kubernetes.
    """
    if text in _WORDS:
        return _WORDS[text]
    if text[0] not in "+-.0123456789":
        return text
    # An underscore is a digit separator, but not in a number that begins with a point.
    digits = text if text[0] == "." else text.replace("_", "")
    integer = _resolve_integer(digits)
    return integer if integer is not None else _resolve_float(text, digits)


def _resolve_integer(digits: str) -> int | None:
    match = _INTEGER.fullmatch(digits) if len(digits) <= _LONGEST_INTEGER else None
    if match is None or match.lastgroup is None:
        return None
    number = int(match["sign"] + match[match.lastgroup], _BASES[match.lastgroup])
    return number if number in _INTEGERS else None


def _resolve_float(text: str, digits: str) -> float | str:
    if not _FLOAT.fullmatch(digits):
        return text
    number = float(digits)
    return text if number in (float("inf"), float("-inf")) else number


def resolve_tagged(tag: str, text: str) -> Scalar:
    """Resolve a scalar with an explicit tag; a tag that Kubernetes does not know leaves the text alone.

    Raises ValueError when the text does not fit its tag.
    """
    name = tag.removeprefix(_TAG_PREFIX) if tag.startswith(_TAG_PREFIX) else ""
    if name == "binary":
        return b64decode(text, validate=False).decode(errors="replace")
    if name not in {"int", "float", "bool", "null"}:
        return text
    value = resolve_plain(text)
    if name == "float" and type(value) is int:
        return float(value)
    if type(value).__name__ != {"null": "NoneType"}.get(name, name):
        raise ValueError(f"expected {name} after its tag, got {text[:40]!r}")
    return value


@lru_cache(maxsize=16384)
def resolve_plain_key(text: str) -> str | None:
    """Resolve an unquoted key to the text that Kubernetes makes of it; None when null cannot be a key."""
    value = resolve_plain(text)
    if value is None:
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, int) else text
