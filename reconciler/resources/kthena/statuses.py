"""Statuses as their controllers write them: checked as warnings."""

from typing import Annotated

from pydantic import Field

from reconciler.resources.kthena.fields import Count
from reconciler.resources.kubernetes.conditions import ConditionFields, Time
from reconciler.resources.validation import NonEmpty, Shape

Generation = Annotated[int, Field(ge=0)]


class ScalingStatus(Shape):
    """What a policy last wanted of one workload or role."""

    name: str | None = None
    current_replicas: Count
    desired_replicas: Count
    mode: str | None = None
    last_scale_time: Time | None = None


class RatioStatus(Shape):
    """The ratio of two roles, as text."""

    numerator_role: str
    denominator_role: str
    current_ratio: str | None = None


class DisaggregatedStatus(Shape):
    """What a policy last wanted of roles."""

    roles: list[ScalingStatus] | None = None
    ratio_status: RatioStatus | None = None
    ratio_adjusted: bool | None = None


class PolicyStatus(Shape):
    """The status of an AutoscalingPolicy; empty before v1.0."""

    observed_generation: Generation | None = None
    conditions: list[ConditionFields] | None = None
    homogeneous_status: ScalingStatus | None = None
    heterogeneous_status: list[ScalingStatus] | None = None
    disaggregated_status: DisaggregatedStatus | None = None


class BindingStatus(Shape):
    """The status of an AutoscalingPolicyBinding: always empty."""


class BackendStatus(Shape):
    """How many replicas a backend has now; the first versions told a hash of it too."""

    name: NonEmpty
    replicas: Count
    hash: str | None = None


class ModelStatus(Shape):
    """The status of a Model or ModelBooster."""

    conditions: list[ConditionFields] | None = None
    backend_statuses: list[BackendStatus] | None = None
    observed_generation: Generation | None = None
