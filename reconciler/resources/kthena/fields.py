"""Fields that several of Kthena's resources share, with the limits of its schemas and webhooks."""

from typing import Annotated, Literal, TypeAlias

from pydantic import AfterValidator, Field

from reconciler.domain.declared.tracking import LONGEST_WINDOW_S
from reconciler.manifests.wording import quote
from reconciler.resources.kubernetes.quantities import Quantity, parse_duration
from reconciler.resources.validation import NonEmpty, Shape

MAX_REPLICAS = 1_000_000
_LARGEST_INT32 = 2**31 - 1
_WINDOW = f"a duration from 0s to {LONGEST_WINDOW_S / 60:.0f}m"


def _check_window(text: str) -> str:
    try:
        is_valid = 0 <= parse_duration(text) <= LONGEST_WINDOW_S
    except ValueError:
        is_valid = False
    if not is_valid:
        raise ValueError(f"expected {_WINDOW}, got {quote(text)}")
    return text


Window: TypeAlias = Annotated[str, AfterValidator(_check_window), Field(description=_WINDOW)]
Count: TypeAlias = Annotated[int, Field(ge=0, le=_LARGEST_INT32)]
Percent: TypeAlias = Annotated[int, Field(ge=0, le=1000)]
MinReplicas: TypeAlias = Annotated[int, Field(ge=0, le=MAX_REPLICAS)]
MaxReplicas: TypeAlias = Annotated[int, Field(ge=1, le=MAX_REPLICAS)]


class StableFields(Shape):
    """`stablePolicy` and `scaleDown`: how far a count may move in a period."""

    instances: Count | None = None
    percent: Percent | None = None
    period: Window | None = None
    select_policy: Literal["Or", "And"] | None = None
    stabilization_window: Window | None = None


class PanicFields(Shape):
    """`panicPolicy`: when counts grow faster, and for how long.

    The schema requires `period`; published examples leave it out.
    """

    percent: Percent | None = None
    period: Window | None = None
    panic_threshold_percent: Annotated[int, Field(ge=110, le=1000)] | None = None
    panic_mode_hold: Window | None = None


class ScaleUpFields(Shape):
    """`scaleUp`: the usual growth, and the faster one of panic mode."""

    stable_policy: StableFields | None = None
    panic_policy: PanicFields | None = None


class BehaviorFields(Shape):
    """`behavior`: how a count may grow and shrink."""

    scale_up: ScaleUpFields | None = None
    scale_down: StableFields | None = None


class MetricFields(Shape):
    """A metric and how much of it one replica should see."""

    name: NonEmpty
    target_value: Quantity


class MetricFieldsBeforeV1(Shape):
    """A metric as it was written before v1.0."""

    metric_name: NonEmpty
    target_value: Quantity


class PolicyFields(Shape):
    """What every AutoscalingPolicySpec has."""

    tolerance_percent: Annotated[int, Field(ge=0, le=100)] | None = None
    behavior: BehaviorFields | None = None


class PolicyFieldsBeforeV1(PolicyFields):
    """An AutoscalingPolicySpec of G0 to G3, in a resource of its own or inside a Model."""

    metrics: Annotated[list[MetricFieldsBeforeV1], Field(min_length=1)]


class ReplicaBoundsFields(Shape):
    """Between which replicas are scaled."""

    min_replicas: MinReplicas
    max_replicas: MaxReplicas
