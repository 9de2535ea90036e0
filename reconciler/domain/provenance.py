"""A value together with where it came from and what it displaced."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Generic, TypeVar

from reconciler.domain.identity import Place

Value = TypeVar("Value")


class SourceKind(StrEnum):
    """The layers of precedence, first hit wins."""

    RESOURCE = "resource"
    ANNOTATION = "annotation"
    OVERRIDE = "overrides"
    MODEL = "models"
    DEFAULT = "defaults"
    CONFIG_MAP = "configmap"
    BUILT_IN = "built-in"


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A layer, the place in it, and words for what has no place (`auto: profile given`)."""

    kind: SourceKind
    place: Place | None = None
    detail: str = ""

    def __str__(self) -> str:
        words = self.detail or ("" if self.place else str(self.kind))
        if self.kind is SourceKind.ANNOTATION:
            words = "annotation"
        return ", ".join(part for part in (words, str(self.place) if self.place else "") if part)


@dataclass(frozen=True, slots=True, kw_only=True)
class Displaced(Generic[Value]):
    """A value that a higher layer overruled."""

    value: Value
    source: Source


@dataclass(frozen=True, slots=True, kw_only=True)
class Sourced(Generic[Value]):
    """An effective value, its source, and every lower layer's value, highest first."""

    value: Value
    source: Source
    displaced: tuple[Displaced[Value], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One number on the way to an answer, as `explain` prints it; None is not known, for `reason`.

    `queries` names the quantities that Prometheus was asked for it.
    """

    subject: str
    name: str
    value: float | str | None
    unit: str = ""
    source: Source | None = None
    reason: str = ""
    queries: tuple[str, ...] = ()
