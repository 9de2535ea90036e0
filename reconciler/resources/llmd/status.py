"""The statuses of a VariantAutoscaling as its versions validate them, checked as warnings.

Where versions differ the first API document of the form decides: v0.6 made the target form's accelerator and count
optional, which is accepted, and allowed a count of 0, which is warned of.
"""

from collections.abc import Mapping
from typing import Annotated

from pydantic import Field

from reconciler.domain.identity import Finding, Severity
from reconciler.domain.variant_forms import StatusShape
from reconciler.resources.kubernetes.conditions import ConditionFields, Time
from reconciler.resources.llmd.spec import Decimal
from reconciler.resources.validation import Locate, NonEmpty, Shape, validate

Replicas = Annotated[int, Field(ge=0)]
AcceleratorName = Annotated[str, Field(min_length=2)]


class LoadByLength(Shape):
    """Requests per minute and tokens per request, as text."""

    arrival_rate: str
    avg_length: str


class LoadByDirection(Shape):
    """Requests per minute, input and output tokens per request, as text."""

    arrival_rate: str
    avg_input_tokens: str
    avg_output_tokens: str


class _Allocation(Shape):
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


class OptimizedAlloc(Shape):
    """`desiredOptimizedAlloc` of the profile and name forms."""

    last_run_time: Time | None = None
    accelerator: AcceleratorName
    num_replicas: Replicas


class TargetOptimizedAlloc(Shape):
    """`desiredOptimizedAlloc` of the target form."""

    last_run_time: Time | None = None
    accelerator: AcceleratorName | None = None
    num_replicas: Annotated[int, Field(ge=1)] | None = None


class Actuation(Shape):
    """`actuation` of the target and name forms."""

    applied: bool


class TimedActuation(Actuation):
    """`actuation` of the first version."""

    last_attempt_time: Time | None = None
    last_success_time: Time | None = None


class FullStatus(Shape):
    """Status of the flat profile form."""

    current_alloc: AllocationByWait | None = None
    desired_optimized_alloc: OptimizedAlloc | None = None
    actuation: TimedActuation | None = None


class TtftStatus(Shape):
    """Status of the versions with `perfParms`."""

    current_alloc: AllocationByTtft | None = None
    desired_optimized_alloc: OptimizedAlloc | None = None
    actuation: Actuation | None = None
    conditions: list[ConditionFields] | None = None


class TargetStatus(Shape):
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
