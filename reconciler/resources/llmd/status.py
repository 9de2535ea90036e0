"""The statuses of a VariantAutoscaling as its versions validate them: read for their conditions, checked as warnings.

Where versions differ the first API document of the form decides: v0.6 made the target form's accelerator and count
optional, which is accepted, and allowed a count of 0, which is warned of.
"""

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import ConfigDict, Field
from pydantic.alias_generators import to_camel

from reconciler.domain.declarations import Condition, StatusShape
from reconciler.domain.findings import Finding, Severity
from reconciler.domain.identity import Place
from reconciler.resources.llmd.spec import Decimal, NonEmpty
from reconciler.resources.validation import Locate, Shape, validate

_DATE_TIME = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt][0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]+)?([Zz]|[+-][0-9]{2}:[0-9]{2})$"
Time = Annotated[str, Field(pattern=_DATE_TIME, description="a time like 2026-01-09T22:00:00Z")]
Replicas = Annotated[int, Field(ge=0)]
AcceleratorName = Annotated[str, Field(min_length=2)]


class _Fields(Shape):
    model_config = ConfigDict(alias_generator=to_camel)


class LoadByLength(_Fields):
    """Requests per minute and tokens per request, as text."""

    arrival_rate: str
    avg_length: str


class LoadByDirection(_Fields):
    """The same with input and output tokens."""

    arrival_rate: str
    avg_input_tokens: str
    avg_output_tokens: str


class _Allocation(_Fields):
    accelerator: NonEmpty
    num_replicas: Replicas
    max_batch: Replicas
    variant_cost: Decimal
    itl_average: Decimal


class AllocationByWait(_Allocation):
    """`currentAlloc` of the first version; averages in milliseconds."""

    wait_average: Decimal
    load: LoadByLength


class AllocationByTtft(_Allocation):
    """`currentAlloc` since 2025-09."""

    ttft_average: Decimal
    load: LoadByDirection


class OptimizedAlloc(_Fields):
    """`desiredOptimizedAlloc` of the profile and name forms."""

    last_run_time: Time | None = None
    accelerator: AcceleratorName
    num_replicas: Replicas


class TargetOptimizedAlloc(_Fields):
    """`desiredOptimizedAlloc` of the target form."""

    last_run_time: Time | None = None
    accelerator: AcceleratorName | None = None
    num_replicas: Annotated[int, Field(ge=1)] | None = None


class Actuation(_Fields):
    """`actuation` of the target and name forms."""

    applied: bool


class TimedActuation(Actuation):
    """`actuation` of the first version."""

    last_attempt_time: Time | None = None
    last_success_time: Time | None = None


class ConditionFields(_Fields):
    """A Kubernetes condition."""

    type: NonEmpty
    status: Literal["True", "False", "Unknown"]
    reason: NonEmpty
    message: str
    last_transition_time: Time
    observed_generation: Replicas | None = None


class FullStatus(_Fields):
    """Status of the flat profile form."""

    current_alloc: AllocationByWait | None = None
    desired_optimized_alloc: OptimizedAlloc | None = None
    actuation: TimedActuation | None = None


class TtftStatus(_Fields):
    """Status of the versions with `perfParms`."""

    current_alloc: AllocationByTtft | None = None
    desired_optimized_alloc: OptimizedAlloc | None = None
    actuation: Actuation | None = None
    conditions: list[ConditionFields] | None = None


class TargetStatus(_Fields):
    """Status of the target form."""

    desired_optimized_alloc: TargetOptimizedAlloc | None = None
    actuation: Actuation | None = None
    conditions: list[ConditionFields] | None = None


_MODELS: Mapping[StatusShape, type[FullStatus] | type[TtftStatus] | type[TargetStatus]] = {
    StatusShape.FULL: FullStatus,
    StatusShape.TTFT: TtftStatus,
    StatusShape.TARGET: TargetStatus,
}


def check_status(shape: StatusShape, status: object, locate: Locate) -> tuple[Finding, ...]:
    """What the resource's own version would say of its status; only warnings, since nothing decides by it."""
    return validate(_MODELS[shape], status, locate=locate, unknown=Severity.WARNING, severity=Severity.WARNING).findings


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
    )


def _nowhere(_: tuple[str | int, ...]) -> Place:
    return Place(path="")
