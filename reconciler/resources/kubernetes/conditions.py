"""Conditions of any object's status, as `metav1.Condition` validates them."""

from typing import Annotated, Literal

from pydantic import Field

from reconciler.domain.identity import Place, Severity
from reconciler.domain.variant_forms import Condition
from reconciler.resources.validation import Shape, validate

_DATE_TIME = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt][0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]+)?([Zz]|[+-][0-9]{2}:[0-9]{2})$"
Time = Annotated[str, Field(pattern=_DATE_TIME, description="a time like 2026-01-09T22:00:00Z")]


class ConditionFields(Shape):
    """A Kubernetes condition."""

    type: Annotated[str, Field(min_length=1)]
    status: Literal["True", "False", "Unknown"]
    reason: Annotated[str, Field(min_length=1)]
    message: str
    last_transition_time: Time
    observed_generation: Annotated[int, Field(ge=0)] | None = None


def read_conditions(status: object) -> tuple[Condition, ...]:
    """The conditions that are well-formed, so that their transition times can be kept."""
    entries = status.get("conditions") if isinstance(status, dict) else None
    if not isinstance(entries, list):
        return ()
    read = (validate(ConditionFields, entry, locate=_nowhere, unknown=Severity.WARNING).value for entry in entries)
    return tuple(_as_condition(condition) for condition in read if condition is not None)


def _as_condition(condition: ConditionFields) -> Condition:
    return Condition(
        type=condition.type,
        status=condition.status,
        reason=condition.reason,
        message=condition.message,
        last_transition_time=condition.last_transition_time,
        observed_generation=condition.observed_generation,
    )


def _nowhere(_: tuple[str | int, ...]) -> Place:
    return Place(path="")
