"""The Horizontal Pod Autoscaler against its own unit tests' figures and sequences worked out by hand."""

import csv
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reconciler.domain.scalers import Behavior, MetricKind, RatePolicy, ScalingRules, Select
from reconciler.simulation.autoscalers.hpa import (
    OF_PODS,
    Controller,
    HorizontalPodAutoscaler,
    Metric,
    Pod,
    RecentExtremes,
    Tolerance,
    combined,
    group_pods,
    proposal_of_pods,
    proposal_of_value,
    whole_quotient,
)
from reconciler.simulation.autoscalers.port import Seen

TABLE = Path(__file__).parents[3] / "testdata/autoscalers/calculator_unit_tests.csv"
ROWS = list(csv.DictReader(TABLE.read_text().splitlines()))


def numbers(text: str) -> list[int]:
    return [int(each) for each in text.split()]


def requests(text: str, pods: int) -> list[int]:
    """Of each pod: "1000 each", or one number a pod."""
    if not text:
        return [0] * pods
    return [int(text.split(maxsplit=1)[0])] * pods if text.endswith("each") else numbers(text)


def pods_of(row: dict[str, str]) -> list[Pod]:
    """Those of a row: a level for each of the first, some of them started a moment ago."""
    count, levels = int(row["pods"]), numbers(row["levels_milli"])
    of_pods = MetricKind(row["kind"]) in OF_PODS
    asked = requests(row["request_milli"], count)
    marked = {name: set(numbers(row[f"{name}_idx"])) for name in ("not_ready", "recent_start", "dropped", "pending")}
    return [
        Pod(
            sample_milli=levels[index] if of_pods and index < len(levels) else None,
            request_milli=asked[index],
            is_dropped=index in marked["dropped"],
            is_pending=index in marked["pending"],
            is_ready=index not in marked["not_ready"],
            started_s=10.0 if index in marked["recent_start"] else 180.0,
            ready_changed_s=10.0 if index in marked["recent_start"] else 180.0,
            sample_began_s=60.0,
        )
        for index in range(count)
    ]


@pytest.mark.parametrize("row", ROWS, ids=[row["test"] for row in ROWS])
def test_replicas_are_those_of_the_controllers_own_tests(row: dict[str, str]) -> None:
    kind, current, target = MetricKind(row["kind"]), np.array([[float(row["current"])]]), float(row["target_milli"])
    groups = group_pods(pods_of(row), kind)
    if kind in OF_PODS:
        found = proposal_of_pods(kind, groups, target, current, Tolerance())
    else:
        total = np.array([[float(sum(numbers(row["levels_milli"])))]])
        found = proposal_of_value(kind, total, target, current, groups.ready, Tolerance())
    assert found.tolist() == [[float(row["expected"])]]


def test_without_a_sample_of_any_pod_nothing_is_proposed() -> None:
    groups = group_pods([Pod(sample_milli=None)] * 3, MetricKind.PODS)
    assert np.isnan(proposal_of_pods(MetricKind.PODS, groups, 1000.0, np.array([3.0]), Tolerance())).all()


@pytest.mark.parametrize(
    ("pod", "is_unready"),
    [
        (Pod(sample_milli=1, is_ready=None), True),
        (Pod(sample_milli=1, is_ready=False, started_s=400.0, ready_changed_s=380.0), True),  # never ready
        (Pod(sample_milli=1, is_ready=False, started_s=400.0, ready_changed_s=100.0), False),  # it was ready once
        (Pod(sample_milli=1, started_s=200.0, ready_changed_s=100.0, sample_began_s=120.0), True),
        (Pod(sample_milli=1, started_s=200.0, ready_changed_s=100.0, sample_began_s=60.0), False),
    ],
)
def test_cpu_of_a_pod_counts_once_it_was_ready_for_a_whole_sample(pod: Pod, is_unready: bool) -> None:
    assert pod.is_unready_for_cpu is is_unready


@pytest.mark.parametrize(
    ("ratio", "up", "down", "is_held"),
    [
        (1.1, 0.1, 0.1, True),
        (0.9, 0.1, 0.1, True),
        (1.11, 0.1, 0.1, False),
        (1.05, 0.0, 0.1, False),
        (0.95, 0, 0.1, True),
    ],
)
def test_tolerance_has_its_own_value_in_each_direction(ratio: float, up: float, down: float, is_held: bool) -> None:
    assert bool(Tolerance(up=up, down=down).holds(np.asarray(ratio))) is is_held


def test_from_zero_the_value_itself_is_the_count() -> None:
    found = proposal_of_value(MetricKind.EXTERNAL_VALUE, np.array([1500.0]), 1000.0, np.array([0.0]), 0.0, Tolerance())
    assert found.tolist() == [2.0]


def test_several_metrics_take_the_largest_and_a_failure_keeps_from_shrinking() -> None:
    current = np.array([4.0, 4.0, 4.0])
    found = combined([np.array([3.0, 3.0, np.nan]), np.array([2.0, np.nan, np.nan])], current)
    assert found[0] == 3.0
    assert np.isnan(found[1:]).all()
    assert combined([np.array([6.0]), np.array([np.nan])], np.array([4.0])).tolist() == [6.0]


def course(controller: Controller, raw: list[float], current: float) -> list[float]:
    """What a controller makes of what the metrics ask for, sync by sync."""
    found = []
    for each in raw:
        current = float(controller.settle(np.array([[each]]), np.array([[current]]))[0, 0])
        found.append(current)
    return found


def controller(up: ScalingRules | None = None, down: ScalingRules | None = None, **fields: float) -> Controller:
    chosen = Behavior(**{name: each for name, each in (("up", up), ("down", down)) if each is not None})
    return Controller(**{"least": 1.0, "most": 100.0, "behavior": chosen} | fields)  # type: ignore[arg-type]


def pods(value: float, period_s: float) -> RatePolicy:
    return RatePolicy(value=value, period_s=period_s, is_percent=False)


def percent(value: float, period_s: float) -> RatePolicy:
    return RatePolicy(value=value, period_s=period_s, is_percent=True)


def test_without_a_behavior_replicas_double_at_most_and_shrink_after_five_minutes() -> None:
    plain = Controller(least=1.0, most=50.0)
    assert course(plain, [9.0, 30.0, 30.0], 1.0) == [4.0, 8.0, 16.0]
    after = course(plain, [2.0] * 22, 16.0)
    # the last 30 is exactly 300 s old at the 20th sync after it, and still counts; growth goes on until then
    assert after[:2] == [30.0, 30.0]
    assert after.index(2.0) == 20


def test_with_a_behavior_a_recommendation_counts_while_it_is_younger_than_the_window() -> None:
    down = ScalingRules(window_s=60.0, policies=(percent(100, 15.0),))
    assert course(controller(down=down), [8.0, 2.0, 2.0, 2.0, 2.0], 8.0) == [8.0, 8.0, 8.0, 8.0, 2.0]


def test_both_windows_bound_what_the_other_left() -> None:
    up = ScalingRules(window_s=60.0, policies=(percent(900, 15.0),))
    down = ScalingRules(window_s=60.0, policies=(percent(100, 15.0),))
    # an old 3 must not pull five down to three while ten is asked for
    assert course(controller(up, down), [5.0, 3.0, 10.0], 5.0) == [5.0, 5.0, 5.0]


def test_the_default_behavior_adds_four_or_doubles_in_15_s() -> None:
    assert course(controller(), [100.0] * 4, 1.0) == [5.0, 10.0, 20.0, 40.0]


def test_what_came_within_the_period_counts_against_the_rate() -> None:
    up = ScalingRules(window_s=0.0, policies=(pods(4, 60.0),))
    assert course(controller(up), [100.0] * 6, 1.0) == [5.0, 5.0, 5.0, 5.0, 9.0, 9.0]


def test_min_takes_the_least_change_and_disabled_none() -> None:
    policies = (pods(4, 15.0), percent(10, 15.0))
    up = ScalingRules(window_s=0.0, policies=policies, select=Select.MIN)
    assert course(controller(up), [100.0, 100.0], 10.0) == [11.0, 13.0]
    down = ScalingRules(window_s=0.0, policies=policies, select=Select.MIN)
    assert course(controller(down=down), [1.0, 1.0], 30.0) == [27.0, 24.0]
    assert course(controller(up=ScalingRules(window_s=0.0, policies=(), select=Select.DISABLED)), [9.0], 3.0) == [3.0]


def test_what_went_within_the_period_may_come_back() -> None:
    up = ScalingRules(window_s=0.0, policies=(pods(1, 60.0),))
    down = ScalingRules(window_s=0.0, policies=(pods(3, 60.0),))
    assert course(controller(up, down), [7.0, 20.0], 10.0) == [7.0, 11.0]  # 7 + 3 that went + 1


def test_bounds_come_before_everything_else() -> None:
    assert course(Controller(least=3.0, most=8.0), [20.0], 12.0) == [8.0]
    assert course(Controller(least=3.0, most=8.0), [1.0], 2.0) == [3.0]
    assert course(Controller(least=1.0, most=8.0), [5.0], 0.0) == [0.0]  # scaling is off at zero


def test_failed_metrics_change_nothing_and_are_not_remembered() -> None:
    assert course(Controller(least=1.0, most=50.0), [np.nan, 6.0], 5.0) == [5.0, 6.0]


@given(
    st.lists(st.tuples(st.integers(0, 50), st.booleans()), min_size=1, max_size=60),
    st.lists(st.lists(st.integers(0, 12), min_size=3, max_size=3), min_size=1, max_size=4),
)
def test_a_recent_extreme_is_that_of_the_last_values_that_are_known(
    pushed: list[tuple[int, bool]], windows: list[list[int]]
) -> None:
    recent = RecentExtremes(np.array(windows, dtype=np.float64), 1.0, np.maximum)
    for at, (value, is_known) in enumerate(pushed):
        values = np.full((len(windows), 3), float(value))
        found = recent.push(values, None if is_known else np.zeros(values.shape, dtype=np.bool_))
        for row, of_row in enumerate(windows):
            for column, steps in enumerate(of_row):
                last = pushed[max(at + 1 - max(steps, 1), 0) : at + 1]
                assert found[row, column] == max((each for each, counts in last if counts), default=-np.inf)


@given(
    st.lists(st.integers(0, 10**9), min_size=1, max_size=20),
    st.lists(st.sampled_from([0.0, 1.0, 3.0, 7.0, 49.0, 250.0, np.inf, np.nan]), min_size=1, max_size=4),
)
def test_whole_quotients_by_whole_counts_are_exact(totals: list[int], counts: list[float]) -> None:
    every = np.concatenate([np.array(totals) / 7.0, np.array(totals, dtype=np.float64), [0.1 * 3.0, np.inf, np.nan]])
    close = np.concatenate([np.nextafter(every, 0.0), every, np.nextafter(every, np.inf), -every])[:, None]
    with np.errstate(all="ignore"):
        expected = np.floor_divide(close, np.array(counts))
    np.testing.assert_array_equal(whole_quotient(close, np.array(counts)), expected)


@settings(deadline=None, max_examples=25)
@given(st.integers(0, 10_000))
def test_settings_and_models_side_by_side_are_as_each_alone(seed: int) -> None:
    draw = np.random.default_rng(seed)  # noqa: TID251 - a case a seed
    targets, windows = np.array([[0.5], [0.8], [0.9]]), np.array([[60.0], [300.0], [30.0]])

    def build(row: slice) -> HorizontalPodAutoscaler:
        down = ScalingRules(window_s=windows[row], policies=(percent(50, 60.0), pods(2, 30.0)))
        metric = Metric(signal="running", kind=MetricKind.PODS, target=targets[row])
        return HorizontalPodAutoscaler(metrics=[metric], most=30.0, behavior=Behavior(down=down))

    every, replicas = build(slice(None)), np.full((3, 2), 4.0)
    alone, counts = [build(slice(row, row + 1)) for row in range(3)], [np.full((1, 2), 4.0) for _ in range(3)]
    for step in range(40):
        running = draw.uniform(0.0, 20.0, 2)

        def seen(at: np.ndarray, running: np.ndarray = running, step: int = step) -> Seen:
            return Seen(
                at_s=15.0 * step,
                replicas=at,
                ready=np.maximum(at - 1, 1.0),
                load=running,
                running=running,
                waiting=np.zeros(2),
            )

        replicas = every.decide(seen(replicas))
        counts = [each.decide(seen(at)) for each, at in zip(alone, counts, strict=True)]
        assert replicas.tolist() == np.concatenate(counts).tolist()
