"""What a policy asks for, with the schema of every generation."""

from collections.abc import Iterator, Sequence
from typing import Annotated, Literal, TypeAlias

from pydantic import AfterValidator, Field, model_validator

from reconciler.domain.identity import Finding, Place, Severity
from reconciler.domain.metric_targets import (
    DEFAULT_BEHAVIOR,
    LONGEST_WINDOW_S,
    Behavior,
    MetricTarget,
    Panic,
    Policy,
    Rate,
    Select,
)
from reconciler.domain.records import dataclass
from reconciler.domain.written import FieldPath
from reconciler.manifests.wording import describe, quote
from reconciler.resources.kubernetes.fields import (
    LocalReferenceFields,
    Quantity,
    ReferenceFields,
    SelectorFields,
    parse_duration,
    read_quantity,
)
from reconciler.resources.objects import KubernetesObject
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


Port = Annotated[int, Field(ge=1, le=65535)]


class EndpointFields(Shape):
    """Where pods export their metrics (G0 to G2)."""

    uri: str | None = None
    port: Port | None = None


class EndpointFieldsG3(EndpointFields):
    """Where those pods that a selector picks export their metrics (G3)."""

    label_selector: SelectorFields | None = None


class PodSourceFields(Shape):
    """A metric that pods export; its name is that of the policy unless written."""

    name: str | None = None
    uri: Annotated[str, Field(pattern=r"^(/.*)?$", description='a path that begins with "/"')] | None = None
    port: Port | None = None
    label_selector: SelectorFields | None = None


class PrometheusSourceFields(Shape):
    """A total that a query answers. `auth` is a placeholder that upstream ignores."""

    server_url: Annotated[
        str,
        Field(
            alias="serverURL", pattern=r"^[hH][tT][tT][pP][sS]?://[^\s/]+", description="a URL like http://host:9090"
        ),
    ]
    query: NonEmpty
    auth: dict[str, object] | None = None


class SourceFields(Shape):
    """Where one metric is read."""

    pod: PodSourceFields | None = None
    prometheus: PrometheusSourceFields | None = None

    @model_validator(mode="after")
    def _check_union(self) -> "SourceFields":
        if (self.pod is None) == (self.prometheus is None):
            found = "found neither" if self.pod is None else "got both"
            raise ValueError(f"expected exactly one of pod and prometheus, {found}")
        return self


class TypedSourceFields(SourceFields):
    """Where one metric is read, as bindings wrote it for the few weeks that they had sources: with a type."""

    type: str | None = None


class TargetFieldsBeforeG3(Shape):
    """A workload; G0 wrote `name`, `kind` and `metricFrom` where later ones have a whole reference."""

    target_ref: ReferenceFields | None = None
    name: str | None = None
    kind: str | None = None
    additional_match_labels: dict[str, str] | None = None
    metric_endpoint: EndpointFields | None = None
    metric_from: EndpointFields | None = None


class SubTargetFields(Shape):
    """A role of the workload; one object in spite of its plural key."""

    kind: str | None = None
    name: str | None = None


class TargetFieldsG3(Shape):
    """A workload, or a role of it."""

    target_ref: ReferenceFields
    sub_targets: SubTargetFields | None = None
    metric_endpoint: EndpointFieldsG3 | None = None
    metric_sources: dict[str, TypedSourceFields] | None = None


class TargetFields(Shape):
    """A workload, and where each of its metrics is read."""

    target_ref: ReferenceFields
    metric_sources: dict[str, SourceFields] | None = None


AnyTargetFields: TypeAlias = TargetFieldsBeforeG3 | TargetFieldsG3 | TargetFields


# Classes instead of a generic one: pydantic builds the schema of a generic one whenever it is given a parameter.


class SingleFields(ReplicaBoundsFields):
    """`homogeneousTarget`, which was `scalingConfiguration`: one workload."""

    target: AnyTargetFields


class SingleFieldsBeforeG3(SingleFields):
    """The same of G0 to G2."""

    target: TargetFieldsBeforeG3


class SingleFieldsG3(SingleFields):
    """The same of G3."""

    target: TargetFieldsG3


class SingleFieldsOfPolicy(SingleFields):
    """The same since policies have targets."""

    target: TargetFields


class ParamFields(SingleFields):
    """One workload of a group, with what a replica of it costs."""

    cost: Count | None = None


class ParamFieldsBeforeG3(ParamFields):
    """The same of G0 to G2."""

    target: TargetFieldsBeforeG3


class ParamFieldsG3(ParamFields):
    """The same of G3."""

    target: TargetFieldsG3


class ParamFieldsOfPolicy(ParamFields):
    """The same since policies have targets."""

    target: TargetFields


class GroupFields(Shape):
    """`heterogeneousTarget`, which was `optimizerConfiguration`: workloads that serve one load."""

    params: Sequence[ParamFields]
    cost_expansion_rate_percent: Count | None = None


class GroupFieldsBeforeG3(GroupFields):
    """The same of G0 to G2."""

    params: Annotated[list[ParamFieldsBeforeG3], Field(min_length=1)]


class GroupFieldsG3(GroupFields):
    """The same of G3."""

    params: Annotated[list[ParamFieldsG3], Field(min_length=1)]


class GroupFieldsOfPolicy(GroupFields):
    """The same since policies have targets."""

    params: Annotated[list[ParamFieldsOfPolicy], Field(min_length=1)]


class RoleFields(ReplicaBoundsFields):
    """How one role is scaled."""

    metrics: Annotated[list[MetricFields], Field(min_length=1)] | None = None
    metric_sources: dict[str, SourceFields] | None = None


class RatioFields(Shape):
    """Limits of how one role moves to another."""

    numerator_role: NonEmpty
    denominator_role: NonEmpty
    min_ratio: Quantity
    max_ratio: Quantity


class DisaggregatedFields(Shape):
    """`disaggregatedTarget`."""

    target_ref: ReferenceFields
    roles: Annotated[dict[str, RoleFields], Field(min_length=1, max_length=2)]
    ratio_constraint: RatioFields | None = None


class TargetPolicyFields(PolicyFields):
    """AutoscalingPolicySpec since v1.0."""

    metrics: list[MetricFields] | None = None
    homogeneous_target: SingleFieldsOfPolicy | None = None
    heterogeneous_target: GroupFieldsOfPolicy | None = None
    disaggregated_target: DisaggregatedFields | None = None


class BindingFields(Shape):
    """AutoscalingPolicyBindingSpec of all generations that had one."""

    policy_ref: LocalReferenceFields
    scaling_configuration: SingleFieldsBeforeG3 | None = None
    optimizer_configuration: GroupFieldsBeforeG3 | None = None
    homogeneous_target: SingleFieldsG3 | None = None
    heterogeneous_target: GroupFieldsG3 | None = None


AnyMetricFields: TypeAlias = MetricFields | MetricFieldsBeforeV1
AnyPolicyFields: TypeAlias = PolicyFieldsBeforeV1 | TargetPolicyFields

DEFAULT_TOLERANCE_PERCENT = 10
# What the schema fills into an object that is there; the webhook adds the windows, one for each direction.
_INSTANCES, _PERCENT, _PERIOD_S = 1, 100, 15.0
_PANIC_PERCENT, _PANIC_THRESHOLD_PERCENT, _PANIC_HOLD_S = 1000, 200, 60.0
_DOWN = ("behavior", "scaleDown")
_UP = ("behavior", "scaleUp", "stablePolicy")
_PANIC = ("behavior", "scaleUp", "panicPolicy")


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicySpec:
    """What a policy asks for, with every default; `metrics` of `policy` may be empty where roles have their own."""

    policy: Policy
    place: Place
    down_place: Place
    up_place: Place


def read_behavior(fields: BehaviorFields | None, *, is_inline: bool = False) -> Behavior:
    """The behavior with every default: the webhook's for what is absent, the schema's inside of what is there.

    A policy inside a Model is applied by its controller, which writes out empty objects for absent ones: there the
    schema's defaults hold throughout, with a panic period of 0 s.
    """
    written = fields or BehaviorFields()
    up = written.scale_up or ScaleUpFields()
    down, stable, panic = written.scale_down, up.stable_policy, up.panic_policy
    if is_inline:
        down, stable, panic = down or StableFields(), stable or StableFields(), panic or PanicFields()
    default = DEFAULT_BEHAVIOR
    return Behavior(
        down=default.down if down is None else _read_rate(down, default.down.stabilization_s),
        up=default.up if stable is None else _read_rate(stable, default.up.stabilization_s),
        panic=default.panic if panic is None else _read_panic(panic),
    )


def _read_rate(fields: StableFields, stabilization_s: float) -> Rate:
    return Rate(
        instances=_INSTANCES if fields.instances is None else fields.instances,
        percent=_PERCENT if fields.percent is None else fields.percent,
        period_s=_seconds(fields.period, _PERIOD_S),
        stabilization_s=_seconds(fields.stabilization_window, stabilization_s),
        select=Select(fields.select_policy or Select.OR),
    )


def _read_panic(fields: PanicFields) -> Panic:
    threshold = fields.panic_threshold_percent
    return Panic(
        percent=_PANIC_PERCENT if fields.percent is None else fields.percent,
        period_s=_seconds(fields.period, 0.0),
        threshold_percent=_PANIC_THRESHOLD_PERCENT if threshold is None else threshold,
        hold_s=_seconds(fields.panic_mode_hold, _PANIC_HOLD_S),
    )


def _seconds(written: str | None, default_s: float) -> float:
    return default_s if written is None else parse_duration(written)


def read_metrics(metrics: Sequence[AnyMetricFields] | None) -> tuple[MetricTarget, ...]:
    """The metric targets of any generation."""
    return tuple(
        MetricTarget(name=name_of(each), per_replica=read_quantity(each.target_value)) for each in metrics or ()
    )


def name_of(metric: AnyMetricFields) -> str:
    """The metric's name."""
    return metric.name if isinstance(metric, MetricFields) else metric.metric_name


def read_spec(source: KubernetesObject, fields: AnyPolicyFields, path: FieldPath, *, is_inline: bool) -> PolicySpec:
    """The policy that stands at `path`, which is `spec` or inside of a Model."""
    tolerance = fields.tolerance_percent
    policy = Policy(
        metrics=read_metrics(fields.metrics),
        tolerance_percent=DEFAULT_TOLERANCE_PERCENT if tolerance is None else tolerance,
        behavior=read_behavior(fields.behavior, is_inline=is_inline),
    )
    return PolicySpec(
        policy=policy,
        place=source.locate(path),
        down_place=source.locate((*path, *_DOWN)),
        up_place=source.locate((*path, *_UP)),
    )


def check_spec(
    source: KubernetesObject, fields: AnyPolicyFields, path: FieldPath, *, is_inline: bool = False
) -> Iterator[Finding]:
    """What is wrong with metrics and behavior, wherever the policy stands."""
    yield from check_metrics(source, fields.metrics, (*path, "metrics"))
    yield from _check_behavior(source, fields, path, is_inline=is_inline)


def check_metrics(
    source: KubernetesObject, metrics: Sequence[AnyMetricFields] | None, path: FieldPath
) -> Iterator[Finding]:
    """Each metric once, with a target above zero."""
    seen: set[str] = set()
    for index, metric in enumerate(metrics or ()):
        name, target = name_of(metric), metric.target_value
        if name in seen:
            yield source.complain((*path, index), f"metric {quote(name)} is already listed above")
        seen.add(name)
        if read_quantity(target) <= 0:
            message = f"expected a quantity above 0, got {describe(target)}"
            yield source.complain((*path, index, "targetValue"), message)
        elif isinstance(target, float):
            message = f"got {describe(target)} without quotes, which the API server refuses: put it in quotes"
            yield source.complain((*path, index, "targetValue"), message, Severity.WARNING)


def _check_behavior(
    source: KubernetesObject, fields: PolicyFields, path: FieldPath, *, is_inline: bool
) -> Iterator[Finding]:
    up = (fields.behavior and fields.behavior.scale_up) or ScaleUpFields()
    if up.panic_policy is not None and up.panic_policy.period is None:
        message = "no period: required upstream, read as 0s"
        yield source.complain((*path, *_PANIC), message, Severity.WARNING)
    behavior = read_behavior(fields.behavior, is_inline=is_inline)
    for rate, field, direction in ((behavior.down, _DOWN, "shrinks"), (behavior.up, _UP, "grows")):
        stuck = describe_stuck(rate)
        if stuck:
            yield source.complain((*path, *field), f"{stuck}: nothing ever {direction}", Severity.WARNING)


def describe_stuck(rate: Rate) -> str:
    """Why a rate lets no count move at all; empty when it does, or when no period limits it."""
    if rate.period_s <= 0:
        return ""
    zeros = [f"{name} 0" for name, value in (("instances", rate.instances), ("percent", rate.percent)) if value == 0]
    if rate.select is Select.AND and zeros:
        return f"And takes the tighter limit, and that is {zeros[0]}"
    return "instances 0 and percent 0" if len(zeros) == 2 else ""
