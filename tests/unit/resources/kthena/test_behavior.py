"""Both sets of defaults: the webhook's for what is absent, the schema's inside of what is there (rules/tracking.md)."""

from collections.abc import Callable

import pytest

from reconciler.domain.metric_targets import DEFAULT_BEHAVIOR, Behavior, MetricTarget, Panic, Rate, Select
from reconciler.resources.declaration import Declaration

Declare = Callable[..., Declaration]

HEAD = """apiVersion: registry.volcano.sh/v1alpha1
kind: AutoscalingPolicy
metadata: {name: a}
spec:
  metrics: [{metricName: m, targetValue: "0.75"}]
"""
MODEL = """apiVersion: registry.volcano.sh/v1alpha1
kind: Model
metadata: {name: a}
spec:
  backends:
    - name: b
      type: vLLM
      modelURI: hf://m
      minReplicas: 1
      maxReplicas: 2
      workers: [{}]
      autoscalingPolicy: {metrics: [{metricName: m, targetValue: 1}], behavior: %s}
"""
FILLED_DOWN = Rate(instances=1, percent=100, period_s=15.0, stabilization_s=300.0)
FILLED_UP = Rate(instances=1, percent=100, period_s=15.0, stabilization_s=0.0)
FILLED_PANIC = Panic(percent=1000, period_s=0.0, threshold_percent=200, hold_s=60.0)


def behavior(declare: Declare, text: str) -> Behavior:
    (policy,) = declare(HEAD + f"  behavior: {text}\n").kthena.policies
    return policy.spec.policy.behavior


def inline(declare: Declare, text: str) -> Behavior:
    (model,) = declare(MODEL % text).kthena.models
    spec = model.backends[0].policy
    assert spec is not None
    return spec.policy.behavior


@pytest.mark.parametrize("text", ["null", "{}", "{scaleUp: {}}", "{scaleUp: {stablePolicy: null}, scaleDown: null}"])
def test_without_behavior_the_webhook_fills_in_everything_and_panic_is_off(declare: Declare, text: str) -> None:
    assert behavior(declare, text) == DEFAULT_BEHAVIOR


@pytest.mark.parametrize(
    ("text", "down", "up", "panic"),
    [
        ("{scaleDown: {}}", FILLED_DOWN, DEFAULT_BEHAVIOR.up, DEFAULT_BEHAVIOR.panic),
        ("{scaleUp: {stablePolicy: {}}}", DEFAULT_BEHAVIOR.down, FILLED_UP, DEFAULT_BEHAVIOR.panic),
        ("{scaleUp: {panicPolicy: {}}}", DEFAULT_BEHAVIOR.down, DEFAULT_BEHAVIOR.up, FILLED_PANIC),
    ],
)
def test_a_part_that_is_there_is_filled_by_the_schema_and_its_siblings_by_the_webhook(
    declare: Declare, text: str, down: Rate, up: Rate, panic: Panic
) -> None:
    assert behavior(declare, text) == Behavior(down=down, up=up, panic=panic)


def test_what_is_written_stands(declare: Declare) -> None:
    text = """
    scaleDown: {instances: 0, percent: 0, period: 1h30m, selectPolicy: And, stabilizationWindow: 0s}
    scaleUp:
      stablePolicy: {instances: 7, percent: 50, period: 30m, stabilizationWindow: 1m30s}
      panicPolicy: {percent: 300, period: 5s, panicThresholdPercent: 110, panicModeHold: 0s}
"""
    read = behavior(declare, text.replace("1h30m", "15m"))
    assert read.down == Rate(instances=0, percent=0, period_s=900.0, stabilization_s=0.0, select=Select.AND)
    assert read.up == Rate(instances=7, percent=50, period_s=1800.0, stabilization_s=90.0)
    assert read.panic == Panic(percent=300, period_s=5.0, threshold_percent=110, hold_s=0.0)


@pytest.mark.parametrize("text", ["null", "{}", "{scaleUp: {}}"])
def test_inside_of_a_model_the_controller_writes_empty_parts_and_so_panic_is_on(declare: Declare, text: str) -> None:
    assert inline(declare, text) == Behavior(down=FILLED_DOWN, up=FILLED_UP, panic=FILLED_PANIC)


def test_inside_of_a_model_what_is_written_stands(declare: Declare) -> None:
    read = inline(declare, "{scaleDown: {percent: 5}, scaleUp: {panicPolicy: {period: 5s}}}")
    assert (read.down.percent, read.down.instances, read.panic.period_s) == (5, 1, 5.0)


def test_metrics_and_tolerance_have_their_units_and_defaults(declare: Declare) -> None:
    (policy,) = declare(HEAD).kthena.policies
    assert policy.spec.policy.metrics == (MetricTarget(name="m", per_replica=0.75),)
    assert policy.spec.policy.tolerance_percent == 10
    assert policy.spec.down_place.line == policy.spec.place.line == 4
    (other,) = declare(HEAD + "  tolerancePercent: 0\n").kthena.policies
    assert other.spec.policy.tolerance_percent == 0
