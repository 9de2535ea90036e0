"""Upstream's own unit tests, row by row: `row-17` is row 17 of the reference's tables (section 6)."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from reconciler.domain.answers import Answer, AnswerStatus, HeldBody
from reconciler.domain.identity import ResourceKey
from reconciler.domain.metric_targets import (
    Backend,
    Behavior,
    Generation,
    MetricTarget,
    Panic,
    Policy,
    PrometheusMetric,
    Rate,
    RatioRange,
    Select,
    TrackedBackend,
    TrackedTarget,
)
from reconciler.domain.settings import ClusterSettings, PrometheusSettings, Settings
from reconciler.metrics.tracked_histories import read_tracked
from reconciler.metrics.tracked_queries import percentile_since, references, tracking_queries
from reconciler.sizing.tracking import track
from reconciler.sizing.tracking_loads import (
    KTHENA_V0,
    KTHENA_V0_CORRECTED,
    KTHENA_V1,
    TRACKING,
    Aims,
    Best,
    Extreme,
    LineWindow,
    RecordWindow,
    Target,
    TickReadings,
    TrackingRule,
    aggregate_external,
    distribute,
    is_share,
    recommend,
    scaling_order,
    stack_loads,
)
from reconciler.sizing.tracking_replay import (
    Past,
    RoleBounds,
    RolePair,
    Tick,
    UncorrectedReplicas,
    correct,
    repair_exactly,
    repair_upstream,
    replay,
    stack_behaviors,
    stack_course,
)

NAN, INF = float("nan"), float("inf")
MakeTarget = Callable[..., Target]
NUMBERED: set[int] = set()


def rows(table: Mapping[int | tuple[int, str], Any]) -> pytest.MarkDecorator:
    """A test for each numbered row; a row of several cases has a letter after its number."""
    named = {(key, "") if isinstance(key, int) else key: row for key, row in table.items()}
    NUMBERED.update(number for number, _ in named)
    return pytest.mark.parametrize("row", named.values(), ids=[f"row-{number}{letter}" for number, letter in named])


def loop(targets: list[Target], start: list[int], rule: TrackingRule, pairs: tuple[RolePair, ...] = ()) -> list[Tick]:
    ticks = targets[0].history.replicas.shape[0]
    loads, course = stack_loads(targets, ticks, rule), stack_course(targets, rule)
    return list(replay(15_000 * np.arange(ticks), loads, course, np.array(start), rule, pairs))


# -- 6.1 recommendation --------------------------------------------------------------------------------------------

Units = Sequence[Mapping[str, float]]
Numbers = Mapping[str, float]
SKIP = None


def of(value: float, times: int) -> list[dict[str, float]]:
    return [{"a": value}] * times


# MIN, MAX, current, tolerance, targets, unready, ready units, external totals, expected
RECOMMENDATIONS: dict[int | tuple[int, str], tuple[int, int, int, float, Numbers, int, Units, Numbers, int | None]] = {
    1: (5, 10, 4, 0.1, {}, 4, [], {}, 5),
    2: (5, 10, 11, 0.1, {}, 0, [], {}, 10),
    3: (5, 10, 7, 0.1, {"a": 0.5, "b": 8}, 7, [], {}, SKIP),
    4: (1, 10**6, 3, 0, {"a": 3, "b": 5, "c": 4}, 0, [{"a": 6, "b": 500, "c": 20}] * 3, {}, 300),
    5: (1, 100, 1, 0, {"a": 0}, 0, of(1, 1), {}, 100),
    6: (1, 100, 1, 0, {"a": 1e-100}, 0, of(1e100, 1), {}, 100),
    7: (1, 100, 3, 0, {"a": 1}, 0, [{"a": 19.1}, {"a": 3.1}, {"a": 7.1}], {}, 30),
    8: (5, 20, 10, 0, {"a": 1}, 0, of(0.1, 10), {}, 5),
    9: (5, 20, 10, 0, {"a": 1}, 0, of(3, 10), {}, 20),
    10: (1, 100, 9, 0.5, {"a": 1}, 0, of(0.51, 10), {}, 9),
    11: (1, 100, 9, 0.5, {"a": 1}, 0, of(0.49, 10), {}, 5),
    12: (1, 100, 9, 0.5, {"a": 1}, 0, of(1.49, 10), {}, 9),
    13: (1, 100, 9, 0.5, {"a": 1}, 0, of(1.51, 10), {}, 16),
    14: (1, 100, 58, 0, {"a": 1}, 50, of(0.15, 8), {}, 2),
    15: (1, 100, 18, 0, {"a": 1}, 10, of(3.9, 8), {}, 32),
    16: (1, 100, 58, 0, {"a": 1}, 50, of(3.9, 8), {}, 58),
    17: (1, 100, 10, 0, {"a": 1}, 0, [{}, {}, *of(0.5, 8)], {}, 6),
    18: (1, 100, 10, 0, {"a": 1}, 0, [{}, {}, *of(2.9, 8)], {}, 24),
    19: (1, 100, 58, 0, {"a": 1}, 0, [*[{}] * 50, *of(2.9, 8)], {}, 58),
    20: (1, 100, 58, 0, {"a": 1}, 0, [*[{}] * 4, *of(2.9, 8)], {}, 58),
    21: (1, 100, 10, 0.51, {"a": 3}, 0, [], {"a": 14.9}, 10),
    22: (1, 100, 10, 0.49, {"a": 3}, 0, [], {"a": 14.9}, 5),
    (23, "a"): (1, 100, 10, 0.51, {"a": 3}, 0, [], {"a": 44.9}, 10),
    (23, "b"): (1, 100, 10, 0.49, {"a": 3}, 0, [], {"a": 44.9}, 15),
    (24, "a"): (1, 100, 1, 0, {"a": 0}, 0, [], {"a": 1}, 100),
    (24, "b"): (1, 100, 1, 0, {"a": 1e-100}, 0, [], {"a": 1e100}, 100),
}


@rows(RECOMMENDATIONS)
def test_metrics_ask_for_a_count(row: Any) -> None:
    minimum, maximum, current, tolerance, targets, unready, ready, external, expected = row

    def column(values: Sequence[float]) -> Any:
        return np.array(values, dtype=np.float64).reshape(len(targets), 1)

    reporting = column([sum(metric in unit for unit in ready) for metric in targets])
    missing = len(ready) - reporting
    totals = [external.get(metric, sum(unit.get(metric, 0.0) for unit in ready)) for metric in targets]
    answer = recommend(
        TickReadings(
            total=column(totals),
            reporting=reporting,
            missing=missing,
            external=np.array([metric in external for metric in targets], dtype=np.bool_).reshape(len(targets), 1),
            partial=missing > 0,
            unready=np.array([float(unready)]),
        ),
        Aims(
            per_replica=column(list(targets.values())),
            tolerance=np.array([tolerance]),
            minimum=np.array([minimum]),
            maximum=np.array([maximum]),
        ),
        np.array([current]),
        KTHENA_V1,
    )
    assert (SKIP if answer.skipped[0] else int(answer.replicas[0])) == expected


# -- 6.2 correction ------------------------------------------------------------------------------------------------

OR, AND, OTHER = Select.OR, Select.AND, Select.NEITHER
DOWN, UP = (2, 20, OR), (2, 100, OR)
# panic, MIN, MAX, current, recommended, down, up, panic percent, what windows hold, expected
CORRECTIONS: dict[int | tuple[int, str], Any] = {
    25: (False, 1, 20, 7, 7, DOWN, UP, 1000, {}, 7),
    26: (False, 1, 20, 10, 5, (1, 40, OR), UP, 1000, {}, 6),
    27: (False, 1, 20, 10, 5, (1, 40, AND), UP, 1000, {}, 9),
    28: (False, 1, 20, 10, 5, (1, 40, OTHER), UP, 1000, {}, 5),
    29: (False, 1, 20, 10, 5, DOWN, UP, 1000, {"max_recommendation": 9}, 9),
    30: (False, 1, 20, 10, 3, (3, 25, OR), UP, 1000, {"down_corrected": 12}, 9),
    31: (False, 1, 100, 5, 20, DOWN, (3, 100, OR), 1000, {}, 10),
    32: (False, 1, 100, 5, 20, DOWN, (3, 100, AND), 1000, {}, 8),
    33: (False, 1, 100, 5, 20, DOWN, (3, 100, OTHER), 1000, {}, 20),
    34: (False, 1, 100, 5, 20, DOWN, (3, 100, OR), 1000, {"min_recommendation": 12}, 10),
    35: (False, 1, 100, 10, 50, DOWN, (2, 50, OR), 1000, {"min_corrected_stable": 6}, 10),
    36: (True, 1, 100, 5, 15, DOWN, UP, 1000, {}, 15),
    37: (True, 1, 100, 5, 15, DOWN, UP, 100, {}, 10),
    38: (True, 1, 100, 10, 30, DOWN, UP, 100, {"min_corrected_panic": 6}, 12),
    39: (True, 0, 100, 0, 5, DOWN, UP, 100, {}, 5),
    40: (True, 0, 100, 0, 5, DOWN, UP, 100, {"min_corrected_panic": 0}, 5),
    41: (True, 1, 100, 10, 3, DOWN, UP, 1000, {}, 10),
    42: (False, 8, 20, 5, 5, DOWN, UP, 1000, {}, 8),
    43: (False, 1, 10, 15, 15, DOWN, UP, 1000, {}, 10),
}


def corrected(row: Any, rule: TrackingRule) -> int:
    panic, minimum, maximum, current, recommended, down, up, panic_percent, held, _ = row

    def record(name: str) -> Best:
        return Best(value=np.array([held.get(name, 0)]), known=np.array([name in held]))

    def line(name: str) -> Best:
        return Best(value=np.array([held.get(name, current)]), known=np.array([True]))

    behavior = Behavior(
        down=Rate(instances=down[0], percent=down[1], period_s=1.0, stabilization_s=1.0, select=down[2]),
        up=Rate(instances=up[0], percent=up[1], period_s=1.0, stabilization_s=1.0, select=up[2]),
        panic=Panic(percent=panic_percent, period_s=1.0, threshold_percent=200, hold_s=1.0),
    )
    answer = correct(
        UncorrectedReplicas(
            recommended=np.array([recommended]),
            current=np.array([current]),
            panic=np.array([panic]),
            minimum=np.array([minimum]),
            maximum=np.array([maximum]),
        ),
        stack_behaviors([behavior]),
        Past(
            max_recommendation=record("max_recommendation"),
            min_recommendation=record("min_recommendation"),
            down_corrected=line("down_corrected"),
            min_corrected_stable=line("min_corrected_stable"),
            min_corrected_panic=line("min_corrected_panic"),
        ),
        panics_from_zero=rule.panics_from_zero,
    )
    return int(answer.corrected[0])


@rows(CORRECTIONS)
def test_windows_rates_and_bounds_leave_a_count(row: Any) -> None:
    assert corrected(row, KTHENA_V1) == row[-1]


@pytest.mark.parametrize("number", [39, 40])
def test_before_the_fourth_generation_a_panic_did_not_leave_zero(number: int) -> None:
    assert corrected(CORRECTIONS[number], KTHENA_V0) == 0


# -- 6.3 windows ---------------------------------------------------------------------------------------------------

YES = np.array([True])
# kind, values at 1, 3, 5 and 7 s, questions: time, current count, answer
WINDOWS: dict[int | tuple[int, str], Any] = {
    44: (Extreme.LARGEST, "record", (6, 3, 5, 2), [(7, 0, 6), (12, 0, 5), (14, 0, 5), (16, 0, 2), (18, 0, None)]),
    45: (Extreme.SMALLEST, "record", (6, 3, 5, 7), [(7, 0, 3), (12, 0, 3), (14, 0, 5), (16, 0, 7), (18, 0, None)]),
    46: (
        Extreme.LARGEST,
        "line",
        (6, 3, 5, 2),
        [(7, 0, 6), (12, 0, 6), (14, 0, 5), (16, 0, 5), (18, 0, 2), (18, 3, 3), (26, 0, 2), (28, 0, 0)],
    ),
    47: (
        Extreme.SMALLEST,
        "line",
        (6, 3, 9, 4),
        [(7, 10, 3), (12, 10, 3), (14, 10, 3), (16, 10, 4), (18, 10, 4), (18, 2, 2), (26, 10, 4), (28, 10, 10)],
    ),
}


@rows(WINDOWS)
def test_a_window_answers_with_what_is_alive(row: Any) -> None:
    extreme, kind, values, questions = row
    record, line = RecordWindow(extreme, np.array([10]), 4), LineWindow(extreme, np.array([10]), 4)
    assert line.best(0, np.array([6])).value.tolist() == [6]
    for now, value in zip((1, 3, 5, 7), values, strict=True):
        record.append(now, np.array([value]), YES)
        line.append(now, np.array([value]), YES)
    for now, current, expected in questions:
        best = record.best(now) if kind == "record" else line.best(now, np.array([current]))
        assert (int(best.value[0]) if best.known[0] else None) == expected


@rows({48: [(7, None), (12, 0), (14, 1), (16, 2), (18, 3), (21, 3), (23, None)]})
def test_a_snapshot_is_no_longer_fresh_and_has_not_expired(row: Any) -> None:
    for now, expected in row:
        times_ms = 1000 * np.array([1, 3, 5, 7, now])
        present = np.ones((1, times_ms.size), dtype=np.bool_)
        found = int(references(times_ms, present, fresh_ms=10_000, expiry_ms=15_000)[0, -1])
        assert (None if found < 0 else found) == expected


@rows({49: None})
@pytest.mark.parametrize("extreme", list(Extreme))
def test_a_window_without_length_has_no_answer(extreme: Extreme, row: None) -> None:
    assert row is None
    record, line = RecordWindow(extreme, np.array([0]), 1), LineWindow(extreme, np.array([0]), 1)
    record.append(5, np.array([3]), YES)
    line.append(5, np.array([3]), YES)
    assert not record.best(5).known[0]
    assert not line.best(5, np.array([3])).known[0]
    assert references(np.array([0, 20_000]), np.array([[True, True]]), fresh_ms=0, expiry_ms=99_000)[0, -1] == -1


@rows(
    {
        (50, "-G4"): (KTHENA_V1, 8),
        (50, "-ours"): (TRACKING, 8),
        (50, "-G3"): (KTHENA_V0, 3),
        (50, "-G1"): (KTHENA_V0_CORRECTED, 3),
    }
)
def test_the_down_rate_counts_from_the_highest_count_since_the_fourth_generation(
    make_target: MakeTarget, free_behavior: Behavior, row: tuple[TrackingRule, int]
) -> None:
    an_hour = replace(free_behavior, down=replace(free_behavior.down, period_s=3_600.0, select=Select.NEITHER))
    ticks = loop([make_target([30.0, 80.0, 50.0, 50.0], behavior=an_hour)], [3], row[0])
    assert [int(tick.replicas[0]) for tick in ticks[:3]] == [3, 8, 5]
    assert ticks[-1].past.down_corrected.value.tolist() == [row[1]]


# -- 6.4 histograms ------------------------------------------------------------------------------------------------

EARLIER = {0.5: 2, 0.75: 4, INF: 5}
# percentile, buckets now, buckets before, expected; NaN is upstream's error
HISTOGRAMS: dict[int | tuple[int, str], Any] = {
    51: (95, {0.5: 2, INF: 4}, {0.5: 2, INF: 5}, NAN),
    52: (95, {0.5: 2, INF: 5}, {0.5: 2, INF: 5}, 0.0),
    53: (95, {0.5: 2, 0.75: 4, INF: 8}, {0.5: 2, INF: 5}, NAN),
    54: (95, {0.5: 4, 0.75: 5, INF: 8}, EARLIER, NAN),
    55: (100, {0.5: 4, 0.75: 8, INF: 10}, EARLIER, 1.5),
    56: (95, {0.5: 2, 0.75: 4, INF: 8}, None, 1.5),
    57: (1, {0.5: 3, 0.75: 8, INF: 10}, EARLIER, 0.5),
    58: (50, {0.5: 2, 0.75: 9, INF: 10}, EARLIER, 0.65),
    59: (95, {1.0: 1, INF: 1}, None, 1.0),
}


@rows(HISTOGRAMS)
def test_a_percentile_is_of_what_was_observed_between_two_looks(row: Any) -> None:
    percentile, now, past, expected = row
    before = dict.fromkeys(now, 0) if past is None else past
    counts = [np.array([each.get(bound, NAN) for bound in now], dtype=np.float64) for each in (now, before)]
    got = float(percentile_since(np.array(list(now)), counts[0], counts[1], percentile))
    assert got == pytest.approx(expected, rel=1e-12, nan_ok=True)


# -- 6.5 optimizer -------------------------------------------------------------------------------------------------


def backends(*params: tuple[int, int, int]) -> tuple[Backend, ...]:
    return tuple(
        Backend(name=str(index), cost=cost, min_replicas=least, max_replicas=most)
        for index, (cost, least, most) in enumerate(params)
    )


# (cost, min, max) of each backend, rate, total, expected split
SPLITS: dict[int | tuple[int, str], Any] = {
    60: (((10, 1, 4), (5, 1, 3)), 100, 5, [2, 3]),
    61: (((10, 2, 5),), 100, 0, [2]),
    62: (((10, 1, 3),), 100, 999, [3]),
    63: (((10, 1, 4),), 100, 4, [4]),
    64: (((100, 1, 3), (60, 2, 5)), 100, 8, [3, 5]),
}


@rows(SPLITS)
def test_a_total_is_split_by_cost(row: Any) -> None:
    params, rate, total, expected = row
    order = scaling_order(backends(*params), rate)
    assert list(distribute(backends(*params), order, total)) == expected


@rows({65: (((10, 2, 6), (5, 1, 4)), 3, 10)})
def test_a_groups_bounds_are_sums(make_target: MakeTarget, row: Any) -> None:
    group = replace(make_target([1.0]), backends=backends(*row[0]))
    assert (group.minimum, group.maximum) == row[1:]


# (cost, min, max), rate, blocks as (backend, replicas)
BLOCKS: dict[int | tuple[int, str], Any] = {
    66: (((10, 5, 5),), 100, []),
    67: (((10, 1, 4), (5, 1, 3)), 100, [(1, 2), (0, 3)]),
    68: (((10, 1, 5),), 50, [(0, 1)] * 4),
}


@rows(BLOCKS)
def test_a_group_grows_in_blocks(row: Any) -> None:
    params, rate, expected = row
    assert [(block.index, block.replicas) for block in scaling_order(backends(*params), rate)] == expected


@rows({69: (5, 4)})
def test_a_group_is_sized_as_one_and_then_split(make_target: MakeTarget, row: tuple[int, int]) -> None:
    one = make_target([100.0], per_replica=1.0, tolerance_percent=0)
    series = replace(
        one.history.pods["m"],
        total=np.array([[100.0, 200.0]]),
        reporting=np.array([[1.0, 2.0]]),
        missing=np.zeros((1, 2)),
    )
    group = replace(
        one,
        backends=backends((10, 1, 5), (20, 2, 4)),
        cost_expansion_percent=100,
        history=replace(one.history, replicas=np.array([[1.0, 2.0]]), unready=np.zeros((1, 2)), pods={"m": series}),
    )
    assert track([group], np.array([0.0]), KTHENA_V1)[0].replicas == row


@rows({70: (10,)})
def test_one_pod_with_everything_fills_its_target(make_target: MakeTarget, row: tuple[int]) -> None:
    target = make_target([10.0], per_replica=1.0, maximum=10, replicas=1)
    assert track([target], np.array([0.0]), KTHENA_V1)[0].replicas == row


# -- 6.6 ratio repair ----------------------------------------------------------------------------------------------

WIDE, QUARTER = ((0, 8), (0, 16)), RatioRange(minimum=0.25, maximum=1.0)
# counts, bounds, expected counts, adjusted, ratio text
RATIOS: dict[int | tuple[int, str], Any] = {
    71: ((2, 4), WIDE, (2, 4), False),
    72: ((1, 8), WIDE, (2, 8), True),
    73: ((6, 2), WIDE, (6, 6), True),
    74: ((2, 20), ((0, 3), (0, 20)), (3, 12), True),
    75: ((0, 4), WIDE, (1, 4), True),
    76: ((4, 0), WIDE, (4, 4), True),
    77: ((0, 0), WIDE, (0, 0), False),
}


@rows(RATIOS)
def test_a_ratio_is_repaired(row: Any) -> None:
    (n, d), (numerator, denominator), expected, adjusted = row
    bounds = RoleBounds(numerator=numerator, denominator=denominator)
    for got in (repair_upstream(n, d, bounds, QUARTER), repair_exactly(n, d, bounds, QUARTER)):
        assert (got.numerator, got.denominator, got.adjusted) == (*expected, adjusted)


@rows({78: ((10, 4), (8, 4))})
def test_without_a_range_roles_only_keep_their_bounds(row: Any) -> None:
    got = RoleBounds(numerator=WIDE[0], denominator=WIDE[1]).clip(*row[0])
    assert (got.numerator, got.denominator, got.adjusted) == (*row[1], False)


@rows({(79, "-G4"): KTHENA_V1, (79, "-ours"): TRACKING})
def test_prefill_and_decode_are_sized_and_then_balanced(
    make_target: MakeTarget, free_behavior: Behavior, row: TrackingRule
) -> None:
    def role(load: float, least: int, most: int) -> Target:
        return make_target([load], minimum=least, maximum=most, per_replica=1.0, behavior=free_behavior)

    pair = RolePair(numerator=0, denominator=1, ratio=QUARTER)
    tick = loop([role(6.0, 1, 8), role(2.0, 2, 16)], [1, 2], row, (pair,))[0]
    assert tick.correction.corrected.tolist() == [6, 2]
    assert tick.replicas.tolist() == [6, 6]


@rows({80: [5, 2, 1]})
def test_a_role_of_fixed_size_needs_no_metrics(make_target: MakeTarget, row: list[int]) -> None:
    for start in row:
        fixed = make_target([NAN], minimum=2, maximum=2, replicas=start)
        assert loop([fixed], [start], KTHENA_V1)[0].replicas.tolist() == [2]
        nameless = replace(fixed, policy=replace(fixed.policy, metrics=()))
        assert track([nameless], np.array([0.0]), KTHENA_V1)[0].replicas == (2,)


# -- 6.7 metrics from elsewhere ------------------------------------------------------------------------------------

# metric, values of backends, their replicas, expected
EXTERNAL: dict[int | tuple[int, str], Any] = {
    81: ("queue_length", [100, 200], [3, 1], 300),
    82: ("request_rate", [50, 70], [1, 1], 120),
    83: ("gpu_utilization", [60, 70], [3, 1], 62.5),
    84: ("gpu_utilization", [60, 70], [4, 6], 66),
    85: ("cache_usage", [60, 80], [0, 0], 70),
    86: ("gpu_utilization", [60, 80], [0, 5], 80),
}


@rows(EXTERNAL)
def test_a_metric_of_all_backends_is_a_sum_or_a_mean(row: Any) -> None:
    metric, values, replicas, expected = row
    arrays = [np.array([each], dtype=np.float64) for each in (values, replicas)]
    assert float(aggregate_external(metric, *arrays)[0]) == pytest.approx(expected, rel=1e-12)


@rows({87: "gpu_utilization_rate"})
def test_a_rate_is_an_amount_whatever_it_is_a_rate_of(row: str) -> None:
    assert not is_share(row)
    assert is_share("Cache_Usage")


NOW_S = 1_790_000_000.0
SERVER = "http://prometheus:9090"
CLUSTER = ClusterSettings(name="prod", prometheus=PrometheusSettings(url=SERVER))
QUERY = "sum(queue_depth)"


def tracked(source: PrometheusMetric | None, generation: Generation = Generation.G4) -> TrackedTarget:
    target = ResourceKey(cluster="prod", namespace="llm", kind="Deployment", name="server")
    return TrackedTarget(
        key=replace(target, kind="AutoscalingPolicy", name="policy"),
        policy=Policy(metrics=(MetricTarget(name="m", per_replica=10.0),)),
        backends=(
            TrackedBackend(
                backend=Backend(name="server", min_replicas=1, max_replicas=9),
                scale_target=target,
                sources={} if source is None else {"m": source},
            ),
        ),
        generation=generation,
    )


def answered(
    quantity: str, body: Mapping[str, Any], status: AnswerStatus = AnswerStatus.OK, reason: str = ""
) -> Answer:
    """An answer to the first query of that quantity, as `tracking_queries` asks it."""
    target = tracked(PrometheusMetric(query=QUERY, server_url=SERVER) if "query" in quantity else None)
    asked = tracking_queries(CLUSTER, [target], NOW_S)
    query = next(each for each in asked if each.quantity.startswith(quantity))
    content = json.dumps(body).encode()
    return Answer(query=query, status=status, body=HeldBody(content=content), reason=reason)


def matrix(*series: tuple[Mapping[str, str], float]) -> dict[str, Any]:
    result = [{"metric": labels, "values": [[NOW_S, str(value)]]} for labels, value in series]
    return {"status": "success", "data": {"resultType": "matrix", "result": result}}


def external_now(answer: Answer) -> tuple[float, tuple[str, ...]]:
    target = tracked(PrometheusMetric(query=QUERY, server_url=SERVER))
    history = read_tracked([target], [answer], NOW_S, Settings(clusters=(CLUSTER,)))[target.key]
    return history.backends[0].external["m"][-1], history.reasons


@rows({(88, "-scalar"): (matrix(({}, 42.5)), 42.5), (88, "-vector"): (matrix(({"job": "x"}, 7.0)), 7.0)})
def test_a_query_answers_with_one_number(row: Any) -> None:
    body, expected = row
    value, _ = external_now(answered("tracked_query", body))
    assert value == expected


FAILED = AnswerStatus.FAILED
UNANSWERED: dict[int | tuple[int, str], Any] = {
    (89, "-empty"): ((matrix(),), "returned 0 elements now, expected one"),
    (89, "-two-elements"): ((matrix(({"a": "1"}, 1.0), ({"a": "2"}, 2.0)),), "returned 2 elements now, expected one"),
    (89, "-matrix"): (({}, FAILED, 'HTTP 400: invalid expression type "range vector"'), "range vector"),
    (89, "-http-400"): (({}, FAILED, "HTTP 400: parse error"), "HTTP 400"),
    (89, "-slow"): (({}, FAILED, "no answer within 60 s"), "no answer within"),
    (89, "-refused"): (({}, FAILED, "connection refused"), "connection refused"),
}


@rows(UNANSWERED)
def test_a_query_that_answers_otherwise_has_no_vote(row: Any) -> None:
    (body, *rest), words = row
    value, reasons = external_now(answered("tracked_query", body, *rest))
    assert np.isnan(value)
    assert any(words in reason for reason in reasons), reasons


def pod_history(*answers: Answer, generation: Generation = Generation.G4) -> Any:
    target = tracked(None, generation)
    return read_tracked([target], answers, NOW_S, Settings(clusters=(CLUSTER,)))[target.key]


def pod(name: str) -> dict[str, str]:
    return {"namespace": "llm", "pod": f"server-6d4b75cb6d-{name}"}


@rows({(90, "-counter"): ((2.0, 3.0), 5.0), (90, "-gauge"): ((4.0, 6.0), 10.0)})
def test_label_sets_of_one_metric_are_added_up(row: Any) -> None:
    """By Prometheus, which is asked for the sum by pod; how many there were is asked beside."""
    values, expected = row
    metric = next(each for each in tracking_queries(CLUSTER, [tracked(None)], NOW_S) if each.quantity.endswith(" m"))
    assert metric.text == 'sum by (namespace, pod, instance, metrics_path, job) (m{namespace="llm"})'
    history = pod_history(answered("tracked_metric", matrix((pod("bbbbb"), sum(values)))))
    assert history.backends[0].pods["m"].total[-1] == expected


@rows({91: (1.0, 40.0)})
def test_a_pod_that_is_not_ready_is_counted_and_not_read(row: Any) -> None:
    history = pod_history(
        answered("tracked_ready", matrix((pod("bbbbb"), 1.0), (pod("ccccc"), 0.0))),
        answered("tracked_metric", matrix((pod("bbbbb"), 40.0), (pod("ccccc"), 9.0))),
    )
    backend = history.backends[0]
    assert (backend.unready[-1], backend.pods["m"].total[-1]) == row
    assert (backend.pods["m"].reporting[-1], backend.pods["m"].missing[-1]) == (1.0, 0.0)


def test_every_row_of_the_reference_has_a_test() -> None:
    assert set(range(1, 92)) == NUMBERED
