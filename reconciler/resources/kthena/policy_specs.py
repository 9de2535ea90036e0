"""AutoscalingPolicySpec: both sets of defaults (kthena.md 1.2), and what a webhook finds in metrics and behavior."""

from collections.abc import Iterator, Sequence
from typing import TypeAlias

from reconciler.domain.declared.kthena import PolicySpec
from reconciler.domain.declared.places import FieldPath
from reconciler.domain.declared.tracking import (
    DEFAULT_BEHAVIOR,
    Behavior,
    MetricTarget,
    Panic,
    Policy,
    Rate,
    Select,
)
from reconciler.domain.identity import Finding, Place, Severity
from reconciler.manifests.wording import describe, quote
from reconciler.resources.kthena.fields import (
    BehaviorFields,
    MetricFields,
    MetricFieldsBeforeV1,
    PanicFields,
    PolicyFields,
    PolicyFieldsBeforeV1,
    ScaleUpFields,
    StableFields,
)
from reconciler.resources.kthena.target_fields import TargetPolicyFields
from reconciler.resources.kubernetes.quantities import parse_duration, read_quantity
from reconciler.resources.objects import KubernetesObject

AnyMetricFields: TypeAlias = MetricFields | MetricFieldsBeforeV1
AnyPolicyFields: TypeAlias = PolicyFieldsBeforeV1 | TargetPolicyFields

DEFAULT_TOLERANCE_PERCENT = 10
# What the schema fills into an object that is there; the webhook adds the windows, one for each direction.
_INSTANCES, _PERCENT, _PERIOD_S = 1, 100, 15.0
_PANIC_PERCENT, _PANIC_THRESHOLD_PERCENT, _PANIC_HOLD_S = 1000, 200, 60.0
_DOWN = ("behavior", "scaleDown")
_UP = ("behavior", "scaleUp", "stablePolicy")
_PANIC = ("behavior", "scaleUp", "panicPolicy")


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
    """The metric targets, under whatever field their names stand."""
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
        places={place.field: place for place in _cite(source, fields, path)},
    )


def _cite(source: KubernetesObject, fields: AnyPolicyFields, path: FieldPath) -> Iterator[Place]:
    if fields.tolerance_percent is not None:
        yield source.locate((*path, "tolerancePercent"))
    for index, _ in enumerate(fields.metrics or ()):
        yield source.locate((*path, "metrics", index))
    behavior = fields.behavior or BehaviorFields()
    up = behavior.scale_up or ScaleUpFields()
    for written, field in ((behavior.scale_down, _DOWN), (up.stable_policy, _UP), (up.panic_policy, _PANIC)):
        if written is not None:
            yield source.locate((*path, *field))


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
