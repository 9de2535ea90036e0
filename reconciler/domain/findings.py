"""What must be told to a person about an input, beside the plan."""

from dataclasses import dataclass
from enum import StrEnum

from reconciler.domain.identity import Place
from reconciler.errors import InputError


class Severity(StrEnum):
    """An error keeps its resource out of the plan; a warning does not."""

    ERROR = "error"
    WARNING = "warning"


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Finding:
    """One thing to fix, with its place; printed as `path:line: severity: field: message`."""

    place: Place
    severity: Severity
    message: str

    def __str__(self) -> str:
        parts = (str(self.place), str(self.severity), self.place.field, self.message)
        return ": ".join(part for part in parts if part)


def finding_of(error: InputError) -> Finding:
    """The finding that an input error amounts to, so that one bad file does not stop the others."""
    place = Place(path=error.path, line=error.line, field=error.field)
    return Finding(place=place, severity=Severity.ERROR, message=error.message)
