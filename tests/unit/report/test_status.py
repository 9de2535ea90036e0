import dataclasses
from collections.abc import Callable
from typing import Any

import pytest

from reconciler.domain.holds import Hold, HoldKind
from reconciler.domain.inventory import Allocation
from reconciler.domain.plan import RATE, Decision, Evidence, Outcome, Plan
from reconciler.domain.snapshot import Condition, StatusShape
from reconciler.report.status import StatusOmission, StatusView, is_news, status_view

NOW_S = 1795183500.0
NOW = "2026-11-20T14:05:00Z"


@pytest.fixture
def decision(plan: Plan) -> Decision:
    return next(each for each in plan.decisions if each.variant.name == "llama-8b-h100")


def view_of(decision: Decision, *previous: Condition) -> StatusView:
    view = status_view(decision, now_s=NOW_S, previous=previous)
    assert isinstance(view, StatusView)
    return view


def condition(type_: str, status: str, at: str = "2026-01-09T22:00:00Z", **fields: Any) -> Condition:
    return Condition(type=type_, status=status, **({"reason": "", "message": ""} | fields), last_transition_time=at)


def test_times_are_milliseconds_and_arrivals_a_minute_with_two_decimals(decision: Decision) -> None:
    current = view_of(decision).current
    assert current is not None
    assert (current.cost, current.itl_ms, current.wait_ms) == ("20.64", "21.00", "634.00")
    assert (current.arrivals_per_minute, current.output_tokens) == ("2346.00", "180.00")


@pytest.mark.parametrize(
    "missing",
    [
        {"metrics_available": False},
        {"observed": None},
        {"load": None},
        {"cost_before_per_hour": None},
        {"cost_before_per_hour": float("nan")},
        {"max_batch_size": None},
        {"current": Allocation(accelerator="", replicas=3)},
    ],
)
def test_the_current_allocation_is_left_out_whole_when_a_part_of_it_is_missing(
    decision: Decision, missing: dict[str, object]
) -> None:
    assert view_of(dataclasses.replace(decision, **missing)).current is None  # type: ignore[arg-type]  # test data


@pytest.mark.parametrize("accelerator", ["", "A"])
def test_an_accelerator_under_two_characters_omits_the_status(decision: Decision, accelerator: str) -> None:
    changed = dataclasses.replace(decision, desired=Allocation(accelerator=accelerator, replicas=1))
    omission = status_view(changed, now_s=NOW_S)
    assert isinstance(omission, StatusOmission)
    assert "accelerator" in omission.reason


def test_zero_replicas_omit_the_status_only_where_its_schema_has_no_zero(decision: Decision) -> None:
    zero = dataclasses.replace(decision, desired=Allocation(accelerator="H100", replicas=0))
    assert view_of(zero).replicas == 0
    omission = status_view(dataclasses.replace(zero, status_shape=StatusShape.TARGET), now_s=NOW_S)
    assert isinstance(omission, StatusOmission)


def test_a_condition_keeps_its_time_until_its_status_flips(decision: Decision) -> None:
    target = dataclasses.replace(decision, status_shape=StatusShape.TARGET)
    metrics, ready = view_of(
        target, condition("MetricsAvailable", "True"), condition("OptimizationReady", "False")
    ).conditions
    assert metrics.last_transition_time == "2026-01-09T22:00:00Z"
    assert ready.last_transition_time == NOW


def test_a_time_that_is_none_is_not_kept(decision: Decision) -> None:
    target = dataclasses.replace(decision, status_shape=StatusShape.TARGET)
    metrics = view_of(target, condition("MetricsAvailable", "True", at="yesterday")).conditions[0]
    assert metrics.last_transition_time == NOW


@pytest.mark.parametrize(
    ("unit", "evidence", "metrics", "ready"),
    [
        (
            "tokens",
            Evidence.SATURATION,
            "Saturation metrics data is available for scaling decisions",
            "saturation-only",
        ),
        (
            "replicas",
            Evidence.QUEUE,
            "Queue metrics data is available for scaling decisions, KV cache usage is not",
            "saturation-only",
        ),
        (RATE, Evidence.LOAD, "Load metrics data is available for scaling decisions", "model-based"),
    ],
)
def test_conditions_say_what_sized_the_variant_and_use_the_words_of_upstream_where_that_is_what_it_does(
    decision: Decision, unit: str, evidence: Evidence, metrics: str, ready: str
) -> None:
    target = dataclasses.replace(decision, status_shape=StatusShape.TARGET, unit=unit, evidence=evidence)
    available, optimized = view_of(target).conditions
    assert (available.status, available.reason, available.message) == ("True", "MetricsAvailable", metrics)
    assert optimized.status == "True"
    assert optimized.message == f"{ready} decision: scale-up decision (target: 5 replicas)"


def test_the_first_replica_for_requests_that_wait_has_upstreams_reasons_of_its_own(decision: Decision) -> None:
    none = Allocation(accelerator="H100", replicas=0)
    target = dataclasses.replace(decision, status_shape=StatusShape.TARGET, current=none, evidence=Evidence.PENDING)
    metrics, ready = view_of(target).conditions
    assert (metrics.reason, metrics.message) == ("ScaleFromZero", "Scaled from zero due to pending requests")
    assert (ready.status, ready.reason) == ("True", "ScaleFromZeroMode")
    assert ready.message == "scalefromzero decision: scale-up decision (target: 5 replicas)"


@pytest.mark.parametrize(
    ("shape", "reason"),
    [(StatusShape.TARGET, "SaturationSafetyOverride"), (StatusShape.TTFT, "CapacitySafetyOverride")],
)
def test_what_was_measured_overrides_a_profile(decision: Decision, shape: StatusShape, reason: str) -> None:
    hold = Hold(kind=HoldKind.PROFILE_CONTRADICTED, words="15 ms expected, 24 ms measured")
    held = dataclasses.replace(decision, status_shape=shape, outcome=Outcome.HELD, hold=hold)
    missed = Hold(kind=HoldKind.TARGET_MISSED, words="a target is missed")
    kept = dataclasses.replace(decision, status_shape=shape, outcome=Outcome.UNCHANGED, waiting=missed)
    for one, words in ((held, hold.words), (kept, missed.words)):
        ready = view_of(one).conditions[1]
        assert (ready.status, ready.reason) == ("True", reason)
        assert ready.message == f"saturation safety override: {words}"
    without_profile = dataclasses.replace(kept, unit="tokens")
    assert view_of(without_profile).conditions[1].reason == "OptimizationSucceeded"


@pytest.mark.parametrize(("is_applied", "told"), [(True, True), (False, False), (None, False)])
def test_what_the_cluster_runs_is_applied(decision: Decision, is_applied: bool | None, told: bool) -> None:
    assert view_of(dataclasses.replace(decision, is_applied=is_applied)).is_applied is told


def test_a_held_variant_without_metrics_is_not_ready(decision: Decision) -> None:
    held = dataclasses.replace(
        decision,
        status_shape=StatusShape.TTFT,
        outcome=Outcome.HELD,
        metrics_available=False,
        hold=Hold(kind=HoldKind.METRICS_MISSING, words="metrics missing"),
    )
    metrics, ready = view_of(held).conditions
    assert (metrics.status, metrics.reason) == ("False", "MetricsUnavailable")
    assert (ready.status, ready.reason, ready.message) == ("False", "MetricsUnavailable", "metrics missing")


def test_a_resource_without_a_status_of_ours_gets_none(decide: Callable[..., Decision]) -> None:
    assert isinstance(status_view(decide(), now_s=NOW_S), StatusOmission)


@pytest.mark.parametrize(
    ("kind", "metrics_reason", "ready_reason"),
    [
        (HoldKind.METRICS_MISSING, "MetricsUnavailable", "MetricsUnavailable"),
        (HoldKind.METRICS_STALE, "MetricsStale", "MetricsUnavailable"),
        (HoldKind.METRICS_FAILED, "PrometheusError", "MetricsUnavailable"),
    ],
)
def test_without_metrics_upstreams_reason_says_what_became_of_them(
    decision: Decision, kind: HoldKind, metrics_reason: str, ready_reason: str
) -> None:
    hold = Hold(kind=kind, words="what happened")
    held = dataclasses.replace(
        decision, status_shape=StatusShape.TARGET, outcome=Outcome.HELD, metrics_available=False, hold=hold
    )
    metrics, ready = view_of(held).conditions
    assert (metrics.status, metrics.reason) == ("False", metrics_reason)
    assert (ready.status, ready.reason, ready.message) == ("False", ready_reason, "what happened")


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        (HoldKind.SETTINGS_CONFLICT, "InvalidConfiguration"),
        (HoldKind.SERVICE_CLASS_MISSING, "InvalidConfiguration"),
        (HoldKind.CAPACITY_UNKNOWN, "OptimizationFailed"),
        (HoldKind.OWNED_BY_ANOTHER, "SkippedProcessing"),
    ],
)
def test_what_holds_a_variant_is_one_of_upstreams_reasons(decision: Decision, kind: HoldKind, reason: str) -> None:
    held = dataclasses.replace(
        decision, status_shape=StatusShape.TARGET, outcome=Outcome.HELD, hold=Hold(kind=kind, words="why")
    )
    metrics, ready = view_of(held).conditions
    assert metrics.status == "True"
    assert (ready.status, ready.reason, ready.message) == ("False", reason, "why")


@pytest.mark.parametrize(
    ("shape", "reason"), [(StatusShape.TARGET, "SaturationOnlyMode"), (StatusShape.TTFT, "CapacityOnlyMode")]
)
@pytest.mark.parametrize("unit", ["tokens", "replicas"])
def test_a_decision_by_saturation_alone_says_so(decision: Decision, shape: StatusShape, reason: str, unit: str) -> None:
    ready = view_of(dataclasses.replace(decision, status_shape=shape, unit=unit)).conditions[1]
    assert (ready.status, ready.reason) == ("True", reason)
    assert ready.message == "saturation-only decision: scale-up decision (target: 5 replicas)"


def test_conditions_of_others_stay_where_and_as_they_are(decision: Decision) -> None:
    target = dataclasses.replace(decision, status_shape=StatusShape.TARGET)
    foreign = condition("TargetResolved", "True", reason="TargetFound", message="found", observed_generation=4)
    ready, kept, metrics = view_of(target, condition("OptimizationReady", "True"), foreign).conditions
    assert kept == foreign
    assert (ready.type, metrics.type) == ("OptimizationReady", "MetricsAvailable")


def test_a_condition_that_cannot_be_read_is_not_lost(decision: Decision) -> None:
    target = dataclasses.replace(decision, status_shape=StatusShape.TARGET)
    omission = status_view(target, now_s=NOW_S, previous=(), written={"conditions": [{"type": "Odd"}]})
    assert isinstance(omission, StatusOmission)
    assert "would be lost" in omission.reason


def test_times_of_the_actuation_stay(decision: Decision) -> None:
    written = {"actuation": {"applied": True, "lastAttemptTime": NOW, "lastSuccessTime": "never"}}
    view = status_view(decision, now_s=NOW_S, written=written)
    assert isinstance(view, StatusView)
    assert (view.last_attempt_time, view.last_success_time) == (NOW, "")


def test_a_status_is_news_where_it_says_something_else(decision: Decision) -> None:
    target = dataclasses.replace(decision, status_shape=StatusShape.TARGET)
    hold = Hold(kind=HoldKind.METRICS_MISSING, words="no series")
    held = dataclasses.replace(target, outcome=Outcome.HELD, metrics_available=False, hold=hold)
    unchanged = dataclasses.replace(target, outcome=Outcome.UNCHANGED)
    numbers = {"desiredOptimizedAlloc": {"accelerator": "H100", "numReplicas": 5}}

    def news(one: Decision, *previous: Condition, written: object = numbers) -> bool:
        return is_news(view_of(one, *previous), one, previous=previous, written=written)

    assert news(held)
    assert news(held, written=None)
    assert not news(held, *view_of(held).conditions)
    assert news(held, *view_of(unchanged).conditions)
    assert news(unchanged, *view_of(held).conditions)
    assert not news(unchanged, *view_of(target).conditions), "only its words would differ"
    assert not news(unchanged, written=None), "it had no status before"
    assert news(unchanged, written={"desiredOptimizedAlloc": {"accelerator": "H100", "numReplicas": 4}})
    proposed, merged = ({**numbers, "actuation": {"applied": applied}} for applied in (False, True))
    serving = dataclasses.replace(unchanged, is_applied=True)
    assert news(serving, written=proposed), "the cluster runs it by now"
    assert not news(serving, written=merged)
    assert not news(unchanged, written=merged), "nobody knows what the cluster runs"
