"""What must be told to a person about an input, beside the plan."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from enum import StrEnum

from reconciler.domain.identity import Place
from reconciler.errors import InputError


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
