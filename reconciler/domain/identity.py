"""Keys of resources, models and places; findings; where a value comes from; globs."""

import re
from collections.abc import Iterable, Iterator
from enum import StrEnum
from functools import lru_cache
from typing import Generic, TypeVar

from reconciler.domain.records import dataclass, key, replace
from reconciler.errors import InputError


@lru_cache(maxsize=1024)
def _compiled(pattern: str) -> re.Pattern[str]:
    out = []
    position = 0
    while position < len(pattern):
        if pattern.startswith("**/", position):
            out.append("(?:[^/]+/)*")
            position += 3
        elif pattern.startswith("**", position):
            out.append(".*")
            position += 2
        else:
            out.append({"*": "[^/]*", "?": "[^/]"}.get(pattern[position], re.escape(pattern[position])))
            position += 1
    return re.compile("".join(out), re.DOTALL)


def path_matches(pattern: str, path: str) -> bool:
    """Whether the whole of `path` (with `/`, from the repository's root) fits `pattern`."""
    return _compiled(pattern).fullmatch(path) is not None


def matches_any(pattern: str, path: str) -> bool:
    """Whether a path fits a glob of Argo CD, or one of those in `{a,b}`; its `*` crosses directories."""
    inner = pattern[1:-1] if pattern.startswith("{") and pattern.endswith("}") else pattern
    return any(path_matches(each.strip().replace("**", "*").replace("*", "**"), path) for each in inner.split(","))


def fits_ignore_line(pattern: str, path: str) -> bool:
    """Whether a pattern in the syntax of .gitignore means a file, or a directory that it lies in.

    Character classes are not read: such a pattern fits nothing.
    """
    return any(_fits(pattern, each) for each in _with_parents(path))


def _with_parents(path: str) -> Iterator[str]:
    """The path, then each directory that it is in with a slash behind it."""
    yield path
    while "/" in path:
        path = path.rpartition("/")[0]
        yield f"{path}/"


def _fits(pattern: str, candidate: str) -> bool:
    if pattern.endswith("/") and not candidate.endswith("/"):
        return False
    wanted, found = pattern.rstrip("/"), candidate.rstrip("/")
    if "/" not in wanted:
        found = found.rpartition("/")[2]
    return path_matches(wanted.removeprefix("/"), found)


@key(frozen=True, slots=True, kw_only=True, order=True)
class ResourceKey:
    """One object of one cluster; `part` names a backend or role inside it when it holds several variants."""

    cluster: str
    namespace: str
    kind: str
    name: str
    part: str = ""

    @property
    def label(self) -> str:
        """NAMESPACE/NAME as every output prints it; only the name of cluster-scoped objects."""
        name = f"{self.namespace}/{self.name}" if self.namespace else self.name
        return name + (f"/{self.part}" if self.part else "")

    def on(self, accelerator: str) -> "CandidateKey":
        """The choice of this accelerator for the variant."""
        return CandidateKey(variant=self, accelerator=accelerator)

    def __str__(self) -> str:
        return f"{self.cluster}/{self.namespace}/{self.kind}/{self.name}" + (f"/{self.part}" if self.part else "")


@key(frozen=True, slots=True, kw_only=True, order=True)
class ModelKey:
    """A model as one demand: variants with an equal key share its load and compete for it."""

    cluster: str
    namespace: str
    model_id: str
    role: str = ""

    @property
    def whole(self) -> "ModelKey":
        """The model with all its roles: its requests are counted as one."""
        return replace(self, role="")

    def __str__(self) -> str:
        return f"{self.cluster}/{self.namespace}/{self.model_id}" + (f"/{self.role}" if self.role else "")


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Place:
    """Where a value is written in the repository: file, line from 1 (0 is the whole file), field path."""

    path: str
    line: int = 0
    field: str = ""

    def __str__(self) -> str:
        return f"{self.path}:{self.line}" if self.line else self.path


@key(frozen=True, slots=True, kw_only=True, order=True)
class CandidateKey:
    """A variant on an accelerator: one thing that can be chosen."""

    variant: ResourceKey
    accelerator: str


class Severity(StrEnum):
    """The worst first: an error keeps its resource out of the plan, a warning does not, a note needs no action."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Finding:
    """One thing to fix, with its place; printed as `path:line: severity: field: message [rule]`.

    `rule` names the check in kebab case, like `min-above-max`, to count or mute findings; it may be empty.
    """

    place: Place
    severity: Severity
    message: str
    rule: str = ""

    def __str__(self) -> str:
        parts = (str(self.place), str(self.severity), self.place.field, self.message)
        text = ": ".join(part for part in parts if part)
        return f"{text} [{self.rule}]" if self.rule else text


def finding_of(error: InputError) -> Finding:
    """The finding for an input error: one bad file does not stop the others."""
    place = Place(path=error.path, line=error.line, field=error.field)
    return Finding(place=place, severity=Severity.ERROR, message=error.message)


def name_findings(findings: Iterable[Finding], rule: str) -> Iterator[Finding]:
    """The findings under the name of a rule, where they have none of their own."""
    return (finding if finding.rule else replace(finding, rule=rule) for finding in findings)


Value = TypeVar("Value")


class SourceKind(StrEnum):
    """The layers of precedence, first hit wins."""

    RESOURCE = "resource"
    ANNOTATION = "annotation"
    OVERRIDE = "overrides"
    WORKLOADS = "workloads"
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
    """A value that a higher layer overrides."""

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
