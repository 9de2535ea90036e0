"""Keys: what names a resource, a model and a place in a repository; and findings, what is to be told of a place."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from enum import StrEnum

from reconciler.errors import InputError


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class ResourceKey:
    """One object of one cluster; `part` names a backend or role inside it when it holds several variants."""

    cluster: str
    namespace: str
    kind: str
    name: str
    part: str = ""

    @property
    def label(self) -> str:
        """NAMESPACE/NAME as every output prints it; the name alone of what belongs to the whole cluster."""
        name = f"{self.namespace}/{self.name}" if self.namespace else self.name
        return name + (f"/{self.part}" if self.part else "")

    def on(self, accelerator: str) -> "CandidateKey":
        """The choice of this accelerator for the variant."""
        return CandidateKey(variant=self, accelerator=accelerator)

    def __str__(self) -> str:
        return f"{self.cluster}/{self.namespace}/{self.kind}/{self.name}" + (f"/{self.part}" if self.part else "")


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
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
    """Where a value stands in the repository: file, line from 1 (0 is the whole file), field path."""

    path: str
    line: int = 0
    field: str = ""

    def __str__(self) -> str:
        return f"{self.path}:{self.line}" if self.line else self.path


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class CandidateKey:
    """A variant on an accelerator: one thing that can be chosen."""

    variant: ResourceKey
    accelerator: str


class Severity(StrEnum):
    """The worst first: an error keeps its resource out of the plan, a warning does not, a note asks for nothing."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Finding:
    """One thing to fix, with its place; printed as `path:line: severity: field: message [rule]`.

    `rule` names in kebab case what is broken, like `min-above-max`, for whoever counts or mutes findings; empty where
    nobody named it.
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
    """The finding that an input error amounts to, so that one bad file does not stop the others."""
    place = Place(path=error.path, line=error.line, field=error.field)
    return Finding(place=place, severity=Severity.ERROR, message=error.message)


def name_findings(findings: Iterable[Finding], rule: str) -> Iterator[Finding]:
    """The findings under the name of a rule, where they have none of their own."""
    return (finding if finding.rule else replace(finding, rule=rule) for finding in findings)
