"""What Flux fills in after a build: `${NAME}`, with a default or without, as far as the deployer itself says it."""

import re
from collections.abc import Iterable, Iterator
from typing import Final

from reconciler.manifests.composer import Value
from reconciler.manifests.wording import Field
from reconciler.placement.deployers import Deployer
from reconciler.placement.objects import ObjectDraft, identify
from reconciler.placement.origins import texts_in

_VARIABLE: Final = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::?([-=])([^${}]*))?\}")
_NUMBER: Final = re.compile(r"[0-9]{1,9}")
_COUNTS: Final = frozenset({"replicas", "minReplicas", "maxReplicas", "minReplicaCount", "maxReplicaCount"})
"""Fields that hold whole numbers: filled in without quotes they are no texts any more."""


def find_substituted(value: Value) -> Iterator[Field]:
    """The fields whose text holds `${}`."""
    return (path for path, text in texts_in(value) if "${" in text)


def fill_in(draft: ObjectDraft, paths: Iterable[Field], deployer: Deployer) -> None:
    """Give fields of an object the values that a deployer fills in; what nobody here can tell stays as written."""
    for path in tuple(paths):
        value = draft.value_at(*path)
        text = substitute(value, deployer) if isinstance(value, str) else None
        if text is not None:
            is_number = path[-1:] != () and path[-1] in _COUNTS and _NUMBER.fullmatch(text)
            draft.set(path, int(text) if is_number else text)
    draft.identity = identify(draft.fields)


def substitute(text: str, deployer: Deployer) -> str | None:
    """A text with every variable filled in; None where one is not known, or is more than a name and a default."""
    unknown = False

    def value_of(found: re.Match[str]) -> str:
        nonlocal unknown
        name, default = found[1], found[3]
        if name in deployer.values:
            return deployer.values[name]
        unknown = unknown or default is None or deployer.is_filled_elsewhere
        return default or ""

    filled = _VARIABLE.sub(value_of, text)
    return None if unknown or "${" in filled else filled
