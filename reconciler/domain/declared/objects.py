"""What objects of any kind have: where they stand in a file, our annotations, and conditions."""

from dataclasses import dataclass
from typing import TypeAlias

from reconciler.domain.identity import Place


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """A Kubernetes condition as it stands in Git."""

    type: str
    status: str
    reason: str
    message: str
    last_transition_time: str


FieldPath: TypeAlias = tuple[str | int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentRef:
    """One object inside a file: the document's position, and the field path to it inside a `List`."""

    path: str
    document: int
    prefix: tuple[str | int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Annotation:
    """One of our annotations, checked; `value` is already of the setting's type."""

    value: str | int | float | bool
    place: Place
