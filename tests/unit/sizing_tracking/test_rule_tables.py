"""Rows that the reference states in prose or in upstream's own unit tests, and no golden table holds."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from reconciler.sizing.tracking import (
    DEFAULT_BEHAVIOR,
    KTHENA_V0,
    KTHENA_V0_CORRECTED,
    KTHENA_V1,
    TRACKING,
    Backend,
    Behavior,
    Histogram,
    Measured,
    Panic,
    PodReading,
    Rate,
    RatioRange,
    RoleBounds,
    RolePair,
    Rule,
    Select,
    Target,
    distribute,
    quantile_since,
    read_external,
    read_pods,
    recent_quantile,
    repair_exactly,
    repair_upstream,
    scaling_order,
    sync_period_s,
    track,
    warm_up_s,
)
from reconciler.sizing.tracking.correct import Past, Wish, correct, stack_behaviors
from reconciler.sizing.tracking.groups import is_share
from reconciler.sizing.tracking.loads import stack_loads
from reconciler.sizing.tracking.recommend import Aims, Readings, recommend
from reconciler.sizing.tracking.replay import Tick, replay, stack_course
from reconciler.sizing.tracking.windows import Best, Extreme, LineWindow, RecordWindow

INF = float("inf")
MakeTarget = Callable[..., Target]

PROMETHEUS_EXAMPLE = Behavior(
    down=Rate(instances=1, percent=100, period_s=15.0, stabilization_s=30.0),
    up=Rate(instances=2, percent=100, period_s=15.0, stabilization_s=0.0),
    panic=Panic(percent=200, period_s=5.0, threshold_percent=200, hold_s=30.0),
)
USER_GUIDE = Behavior(
    down=Rate(instances=1, percent=100, period_s=60.0, stabilization_s=300.0),
    up=Rate(instances=1, percent=100, period_s=30.0, stabilization_s=60.0),
    panic=Panic(percent=1000, period_s=30.0, threshold_percent=150, hold_s=300.0),
)
CRD_DEFAULT = Behavior(
    down=Rate(instances=1, percent=100, period_s=15.0, stabilization_s=300.0),
    up=Rate(instances=1, percent=100, period_s=15.0, stabilization_s=0.0),
    panic=Panic(percent=1000, period_s=5.0, threshold_percent=200, hold_s=60.0),
)


def loop(targets: list[Target], start: list[int], rule: Rule, pairs: tuple[RolePair, ...] = ()) -> list[Tick]:
    ticks = targets[0].history.replicas.shape[0]
    loads, course = stack_loads(targets, ticks, rule), stack_course(targets, rule)
    return list(replay(15_000 * np.arange(ticks), loads, course, np.array(start), rule, pairs))


# -- recommendation ------------------------------------------------------------------------------------------------


def recommended(
    *,
    bounds: tuple[int, int] = (1, 100),
    current: int,
    tolerance: float = 0.0,
    per_replica: float = 1.0,
    unready: int = 0,
    ready: list[float | None] | None = None,
    external: float | None = None,
) -> int | None:
    units = ready or []
    values = [value for value in units if value is not None]
    missing = np.array([[float(len(units) - len(values))]])
    answer = recommend(
        Readings(
            total=np.array([[sum(values) if external is None else external]]),
            reporting=np.array([[float(len(values))]]),
            missing=missing,
            external=np.array([[external is not None]]),
            partial=missing > 0,
            unready=np.array([float(unready)]),
        ),
        Aims(
            per_replica=np.array([[per_replica]]),
            tolerance=np.array([tolerance]),
            minimum=np.array([bounds[0]]),
            maximum=np.array([bounds[1]]),
        ),
        np.array([current]),
        KTHENA_V1,
    )
    return None if answer.skipped[0] else int(answer.replicas[0])


def test_a_count_outside_its_bounds_needs_no_metric() -> None:
    assert recommended(bounds=(5, 10), current=4, unready=4) == 5
    assert recommended(bounds=(5, 10), current=11) == 10
    assert recommended(bounds=(5, 10), current=7, unready=7) is None


def test_targets_of_nothing_ask_for_everything() -> None:
    assert recommended(current=1, per_replica=0.0, ready=[1.0]) == 100
    assert recommended(current=1, per_replica=1e-100, ready=[1e100]) == 100
    assert recommended(current=1, per_replica=0.0, external=1.0) == 100
    assert recommended(current=1, per_replica=1e-100, external=1e100) == 100


def test_the_mean_of_units_is_multiplied_and_rounded_up() -> None:
    assert recommended(current=3, ready=[19.1, 3.1, 7.1]) == 30
    assert recommended(bounds=(5, 20), current=10, ready=[0.1] * 10) == 5
    assert recommended(bounds=(5, 20), current=10, ready=[3.0] * 10) == 20


@pytest.mark.parametrize(("each", "expected"), [(0.51, 9), (0.49, 5), (1.49, 9), (1.51, 16)])
def test_within_the_tolerance_nothing_moves(each: float, expected: int) -> None:
    assert recommended(current=9, tolerance=0.5, ready=[each] * 10) == expected


def test_unready_and_missing_units_are_idle_when_growing_and_on_target_when_shrinking() -> None:
    assert recommended(current=58, unready=50, ready=[0.15] * 8) == 2
    assert recommended(current=18, unready=10, ready=[3.9] * 8) == 32
    assert recommended(current=58, unready=50, ready=[3.9] * 8) == 58
    assert recommended(current=10, ready=[None, None, *[0.5] * 8]) == 6
    assert recommended(current=10, ready=[None, None, *[2.9] * 8]) == 24
    assert recommended(current=58, ready=[*[None] * 50, *[2.9] * 8]) == 58
    assert recommended(current=58, ready=[*[None] * 4, *[2.9] * 8]) == 58


@pytest.mark.parametrize(
    ("tolerance", "value", "expected"), [(0.51, 14.9, 10), (0.49, 14.9, 5), (0.51, 44.9, 10), (0.49, 44.9, 15)]
)
def test_an_external_total_is_held_against_the_total_of_targets(tolerance: float, value: float, expected: int) -> None:
    assert recommended(current=10, tolerance=tolerance, per_replica=3.0, external=value) == expected


def test_the_largest_vote_wins() -> None:
    column = np.array([[18.0], [1500.0], [60.0]])
    answer = recommend(
        Readings(
            total=column,
            reporting=np.full((3, 1), 3.0),
            missing=np.zeros((3, 1)),
            external=np.zeros((3, 1), dtype=np.bool_),
            partial=np.zeros((3, 1), dtype=np.bool_),
            unready=np.zeros(1),
        ),
        Aims(
            per_replica=np.array([[3.0], [5.0], [4.0]]),
            tolerance=np.zeros(1),
            minimum=np.array([1]),
            maximum=np.array([1_000_000]),
        ),
        np.array([3]),
        KTHENA_V1,
    )
    assert answer.replicas[0] == 300
    assert answer.votes[:, 0].tolist() == [6, 300, 15]


@pytest.mark.parametrize(
    ("load", "unready", "upstream", "ours"),
    [
        (9.0, 0, 5, 1),
        (9.5, 0, 5, 1),
        (10.0, 0, 5, 1),
        (11.0, 0, 2, 2),
        (11.1, 0, 2, 2),
        (45.0, 0, 5, 5),
        (50.1, 0, 6, 5),
        (52.0, 0, 6, 5),
        (30.0, 2, 5, 3),
        (30.0, 5, 5, 3),
        (80.0, 2, 8, 8),
    ],
)
def test_our_tolerance_is_around_the_target_of_all_replicas(
    make_target: MakeTarget, load: float, unready: int, upstream: int, ours: int
) -> None:
    target = make_target([load], unready=unready)
    assert loop([target], [5], KTHENA_V1)[0].recommendation.replicas.tolist() == [upstream]
    assert loop([target], [5], TRACKING)[0].recommendation.replicas.tolist() == [ours]


def test_the_tolerance_is_a_product_of_doubles(make_target: MakeTarget) -> None:
    assert loop([make_target([45.0], external=True)], [5], TRACKING)[0].recommendation.replicas.tolist() == [5]
    assert loop([make_target([55.0], external=True)], [5], TRACKING)[0].recommendation.replicas.tolist() == [6]


# -- correction ----------------------------------------------------------------------------------------------------


def corrected(
    counts: tuple[int, int],
    *,
    bounds: tuple[int, int] = (1, 100),
    panic: bool = False,
    down: tuple[int, int, Select] = (2, 20, Select.OR),
    up: tuple[int, int, Select] = (2, 100, Select.OR),
    panic_percent: int = 1000,
    rule: Rule = KTHENA_V1,
    **past: int,
) -> int:
    """What becomes of (current, recommended), with nothing in a window but the value named after it."""
    current, wanted = counts

    def record(name: str) -> Best:
        return Best(value=np.array([past.get(name, 0)]), known=np.array([name in past]))

    def line(name: str) -> Best:
        return Best(value=np.array([past.get(name, current)]), known=np.array([True]))

    behavior = Behavior(
        down=Rate(instances=down[0], percent=down[1], period_s=1.0, stabilization_s=1.0, select=down[2]),
        up=Rate(instances=up[0], percent=up[1], period_s=1.0, stabilization_s=1.0, select=up[2]),
        panic=Panic(percent=panic_percent, period_s=1.0, threshold_percent=200, hold_s=1.0),
    )
    answer = correct(
        Wish(
            recommended=np.array([wanted]),
            current=np.array([current]),
            panic=np.array([panic]),
            minimum=np.array([bounds[0]]),
            maximum=np.array([bounds[1]]),
        ),
        stack_behaviors([behavior]),
        Past(
            max_recommendation=record("max_recommendation"),
            min_recommendation=record("min_recommendation"),
            down_corrected=line("max_corrected"),
            min_corrected_stable=line("min_corrected_stable"),
            min_corrected_panic=line("min_corrected_panic"),
        ),
        panics_from_zero=rule.panics_from_zero,
    )
    return int(answer.corrected[0])


def test_shrinking_is_limited_by_rate_and_window() -> None:
    assert corrected((7, 7)) == 7
    assert corrected((10, 5), down=(1, 40, Select.OR)) == 6
    assert corrected((10, 5), down=(1, 40, Select.AND)) == 9
    assert corrected((10, 5), down=(1, 40, Select.NEITHER)) == 5
    assert corrected((10, 5), max_recommendation=9) == 9
    assert corrected((10, 3), down=(3, 25, Select.OR), max_corrected=12) == 9


def test_growing_is_limited_by_rate_and_window() -> None:
    assert corrected((5, 20), up=(3, 100, Select.OR)) == 10
    assert corrected((5, 20), up=(3, 100, Select.AND)) == 8
    assert corrected((5, 20), up=(3, 100, Select.NEITHER)) == 20
    assert corrected((5, 20), up=(3, 100, Select.OR), min_recommendation=12) == 10
    assert corrected((10, 50), up=(2, 50, Select.OR), min_corrected_stable=6) == 10


def test_a_panic_only_grows() -> None:
    assert corrected((5, 15), panic=True) == 15
    assert corrected((5, 15), panic=True, panic_percent=100) == 10
    assert corrected((10, 30), panic=True, panic_percent=100, min_corrected_panic=6) == 12
    assert corrected((10, 3), panic=True) == 10


def test_a_panic_leaves_zero_since_the_fourth_generation() -> None:
    assert corrected((0, 5), bounds=(0, 100), panic=True, panic_percent=100) == 5
    assert corrected((0, 5), bounds=(0, 100), panic=True, panic_percent=100, min_corrected_panic=0) == 5
    assert corrected((0, 5), bounds=(0, 100), panic=True, panic_percent=100, rule=KTHENA_V0) == 0


def test_bounds_have_the_last_word() -> None:
    assert corrected((5, 5), bounds=(8, 20)) == 8
    assert corrected((15, 15), bounds=(1, 10)) == 10


# -- windows -------------------------------------------------------------------------------------------------------

YES = np.array([True])
Answers = list[tuple[int, int | None]]


@pytest.mark.parametrize(
    ("extreme", "last", "answers"),
    [
        (Extreme.LARGEST, 2, [(7, 6), (12, 5), (14, 5), (16, 2), (18, None)]),
        (Extreme.SMALLEST, 7, [(7, 3), (12, 3), (14, 5), (16, 7), (18, None)]),
    ],
)
def test_a_record_window_forgets_what_is_older_than_its_length(extreme: Extreme, last: int, answers: Answers) -> None:
    window = RecordWindow(extreme, np.array([10]), 4)
    for now, value in ((1, 6), (3, 3), (5, 5), (7, last)):
        window.append(now, np.array([value]), YES)
    for now, expected in answers:
        best = window.best(now)
        assert (int(best.value[0]) if best.known[0] else None) == expected


@pytest.mark.parametrize(
    ("extreme", "values", "current", "answers"),
    [
        (
            Extreme.LARGEST,
            (6, 3, 5, 2),
            0,
            [(7, 0, 6), (12, 0, 6), (14, 0, 5), (16, 0, 5), (18, 0, 2), (18, 3, 3), (26, 0, 2), (28, 0, 0)],
        ),
        (
            Extreme.SMALLEST,
            (6, 3, 9, 4),
            10,
            [(7, 10, 3), (12, 10, 3), (14, 10, 3), (16, 10, 4), (18, 10, 4), (18, 2, 2), (26, 10, 4), (28, 10, 10)],
        ),
    ],
)
def test_a_line_window_counts_a_value_until_its_reign_is_over(
    extreme: Extreme, values: tuple[int, ...], current: int, answers: list[tuple[int, int, int]]
) -> None:
    window = LineWindow(extreme, np.array([10]), 4)
    assert window.best(0, np.array([current])).value.tolist() == [current]
    for now, value in zip((1, 3, 5, 7), values, strict=True):
        window.append(now, np.array([value]), YES)
    for now, beside, expected in answers:
        assert window.best(now, np.array([beside])).value.tolist() == [expected]


@pytest.mark.parametrize("extreme", list(Extreme))
def test_a_window_without_length_has_no_answer(extreme: Extreme) -> None:
    record, line = RecordWindow(extreme, np.array([0]), 1), LineWindow(extreme, np.array([0]), 1)
    record.append(5, np.array([3]), YES)
    line.append(5, np.array([3]), YES)
    assert not record.best(5).known[0]
    assert not line.best(5, np.array([3])).known[0]


@pytest.mark.parametrize(
    ("rule", "expected"), [(KTHENA_V1, 8), (TRACKING, 8), (KTHENA_V0, 3), (KTHENA_V0_CORRECTED, 3)]
)
def test_the_down_rate_counts_from_the_highest_count_since_the_fourth_generation(
    make_target: MakeTarget, free_behavior: Behavior, rule: Rule, expected: int
) -> None:
    an_hour = replace(free_behavior, down=replace(free_behavior.down, period_s=3_600.0, select=Select.NEITHER))
    ticks = loop([make_target([30.0, 80.0, 50.0, 50.0], behavior=an_hour)], [3], rule)
    assert [int(tick.replicas[0]) for tick in ticks[:3]] == [3, 8, 5]
    assert ticks[-1].past.down_corrected.value.tolist() == [expected]


# -- histograms ----------------------------------------------------------------------------------------------------


def histogram(*buckets: tuple[float, int], count: int | None = None) -> Histogram:
    return Histogram(count=buckets[-1][1] if count is None else count, buckets=buckets)


EARLIER = histogram((0.5, 2), (0.75, 4), (INF, 5))


@pytest.mark.parametrize(
    ("percentile", "now", "past", "expected"),
    [
        (95, histogram((0.5, 2), (INF, 5)), histogram((0.5, 2), (INF, 5)), 0.0),
        (100, histogram((0.5, 4), (0.75, 8), (INF, 10)), EARLIER, 1.5),
        (95, histogram((0.5, 2), (0.75, 4), (INF, 8)), None, 1.5),
        (1, histogram((0.5, 3), (0.75, 8), (INF, 10)), EARLIER, 0.5),
        (50, histogram((0.5, 2), (0.75, 9), (INF, 10)), EARLIER, 0.65),
        (95, histogram((1.0, 1), (INF, 1)), None, 1.0),
    ],
)
def test_a_percentile_is_interpolated_inside_its_bucket(
    percentile: int, now: Histogram, past: Histogram | None, expected: float
) -> None:
    assert quantile_since(now, past, percentile).value == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(
    ("now", "past", "reason"),
    [
        (histogram((0.5, 2), (INF, 4)), histogram((0.5, 2), (INF, 5)), "the count fell by 1"),
        (histogram((0.5, 2), (0.75, 4), (INF, 8)), histogram((0.5, 2), (INF, 5)), "the buckets changed"),
        (histogram((0.5, 2), (INF, 8)), histogram((0.6, 2), (INF, 5)), "the buckets changed"),
        (histogram((0.5, 4), (0.75, 5), (INF, 8)), EARLIER, "a bucket fell"),
        (Histogram(count=0, buckets=()), None, "no buckets"),
        (histogram((0.5, 1), (0.5, 1), (INF, 1)), None, "repeat or are out of order"),
        (histogram((float("nan"), 1), (INF, 1)), None, "not a number"),
        (histogram((0.5, 1), (INF, 2), count=9), None, "hold 2 of 9"),
    ],
)
def test_a_histogram_that_makes_no_sense_is_a_reason(now: Histogram, past: Histogram | None, reason: str) -> None:
    answer = quantile_since(now, past)
    assert answer.value is None
    assert reason in answer.reason


def test_a_restarted_process_starts_from_nothing() -> None:
    past = Histogram(count=100, buckets=((1.0, 100), (INF, 100)), started_s=1.0)
    now = Histogram(count=1, buckets=((1.0, 1), (INF, 1)), started_s=2.0)
    assert quantile_since(now, past) == Measured(value=1.0)


def test_the_reference_is_older_than_a_minute_and_younger_than_five() -> None:
    looks = [(float(time_s), histogram((1.0, time_s), (INF, time_s))) for time_s in (0, 100, 200, 300, 355)]
    looks += [(360.0, histogram((1.0, 355), (INF, 375)))]
    # Since 200 s: 155 below one second and 20 above, so that the 95th percentile is in the last bucket.
    assert recent_quantile(looks, 360.0).value == pytest.approx(2 - (175 - 167) / 20)
    assert recent_quantile([], 360.0).reason == "the histogram was never read"
    assert "out of order" in recent_quantile([looks[1], looks[0]], 360.0).reason


# -- groups --------------------------------------------------------------------------------------------------------


def backends(*params: tuple[int, int, int]) -> tuple[Backend, ...]:
    return tuple(
        Backend(name=str(index), cost=cost, min_replicas=least, max_replicas=most)
        for index, (cost, least, most) in enumerate(params)
    )


def split(params: tuple[Backend, ...], rate: int, total: int) -> list[int]:
    return list(distribute(params, scaling_order(params, rate), total))


def test_the_cheaper_backend_fills_first() -> None:
    assert split(backends((10, 1, 4), (5, 1, 3)), 100, 5) == [2, 3]
    assert split(backends((10, 2, 5)), 100, 0) == [2]
    assert split(backends((10, 1, 3)), 100, 999) == [3]
    assert split(backends((10, 1, 4)), 100, 4) == [4]
    assert split(backends((100, 1, 3), (60, 2, 5)), 100, 8) == [3, 5]


def test_blocks_follow_room_and_cost() -> None:
    assert scaling_order(backends((10, 5, 5)), 100) == ()
    assert [block.index for block in scaling_order(backends((10, 1, 4), (5, 1, 3)), 100)] == [1, 0]
    assert [block.replicas for block in scaling_order(backends((10, 1, 5)), 50)] == [1, 1, 1, 1]


# Of the user guide (a GPU for 100, a CPU for 30) and of two GPUs (100 and 60): the totals from the sum of minima on.
GUIDE = {
    20: "12 13 14 15 16 17 18 28 38 48 58",
    100: "12 13 14 15 16 17 18 28 38 48 58",
    150: "12 13 14 15 16 17 18 28 38 48 58",
    200: "12 13 14 15 16 17 18 28 38 48 58",
    300: "12 13 14 15 16 17 18 28 38 48 58",
}
TWO_GPUS = {
    50: "01 02 03 04 05 06 07 08 18 28 38 48",
    150: "01 02 03 13 23 24 25 26 27 28 38 48",
    200: "01 02 12 22 23 24 34 44 45 46 47 48",
    300: "01 02 12 13 14 15 16 17 18 28 38 48",
}


@pytest.mark.parametrize("rate", list(GUIDE))
def test_the_user_guide_splits_as_published(rate: int) -> None:
    params = backends((100, 1, 5), (30, 2, 8))
    got = ["".join(map(str, split(params, rate, total))) for total in range(3, 14)]
    assert " ".join(got) == GUIDE[rate]


@pytest.mark.parametrize("rate", list(TWO_GPUS))
def test_larger_rates_interleave_batches(rate: int) -> None:
    params = backends((100, 0, 4), (60, 1, 8))
    got = ["".join(map(str, split(params, rate, total))) for total in range(1, 13)]
    assert " ".join(got) == TWO_GPUS[rate]


def test_names_tell_amounts_from_shares() -> None:
    assert not is_share("gpu_utilization_rate")
    assert is_share("Cache_Usage")


# -- roles ---------------------------------------------------------------------------------------------------------

WIDE = RoleBounds(numerator=(0, 8), denominator=(0, 16))
QUARTER = RatioRange(minimum=0.25, maximum=1.0)


@pytest.mark.parametrize(
    ("counts", "expected", "adjusted", "text"),
    [
        ((2, 4), (2, 4), False, "0.5"),
        ((1, 8), (2, 8), True, "0.25"),
        ((6, 2), (6, 6), True, "1"),
        ((0, 4), (1, 4), True, "0.25"),
        ((4, 0), (4, 4), True, "1"),
        ((0, 0), (0, 0), False, ""),
    ],
)
def test_a_ratio_is_repaired(counts: tuple[int, int], expected: tuple[int, int], adjusted: bool, text: str) -> None:
    for got in (repair_upstream(*counts, WIDE, QUARTER), repair_exactly(*counts, WIDE, QUARTER)):
        assert (got.numerator, got.denominator, got.adjusted, got.ratio_text) == (*expected, adjusted, text)


def test_a_role_at_its_largest_brings_the_other_down() -> None:
    bounds = RoleBounds(numerator=(0, 3), denominator=(0, 20))
    for got in (repair_upstream(2, 20, bounds, QUARTER), repair_exactly(2, 20, bounds, QUARTER)):
        assert (got.numerator, got.denominator, got.adjusted, got.ratio_text) == (3, 12, True, "0.25")


def test_rounding_leaves_the_range_upstream_and_not_here() -> None:
    bounds, half = RoleBounds(numerator=(1, 10), denominator=(1, 10)), RatioRange(minimum=0.5, maximum=0.5)
    theirs, ours = repair_upstream(1, 3, bounds, half), repair_exactly(1, 3, bounds, half)
    assert (theirs.numerator, theirs.denominator) == (2, 3)
    assert (ours.numerator, ours.denominator) == (2, 4)


def test_without_a_range_roles_only_keep_their_bounds() -> None:
    got = WIDE.clip(10, 4)
    assert (got.numerator, got.denominator, got.adjusted) == (8, 4, False)


@pytest.mark.parametrize("rule", [KTHENA_V1, TRACKING])
def test_prefill_and_decode_are_sized_and_then_balanced(
    make_target: MakeTarget, free_behavior: Behavior, rule: Rule
) -> None:
    def role(load: float, least: int, most: int) -> Target:
        return make_target([load], minimum=least, maximum=most, per_replica=1.0, behavior=free_behavior)

    pair = RolePair(numerator=0, denominator=1, ratio=QUARTER)
    tick = loop([role(6.0, 1, 8), role(2.0, 2, 16)], [1, 2], rule, (pair,))[0]
    assert tick.correction.corrected.tolist() == [6, 2]
    assert tick.replicas.tolist() == [6, 6]


def test_a_role_of_fixed_size_needs_no_metrics(make_target: MakeTarget) -> None:
    for start in (5, 2, 1):
        tick = loop([make_target([float("nan")], minimum=2, maximum=2)], [start], KTHENA_V1)[0]
        assert tick.replicas.tolist() == [2]
        assert not tick.skipped[0]


# -- groups and controllers ----------------------------------------------------------------------------------------


def test_a_group_is_sized_as_one_and_then_split(make_target: MakeTarget) -> None:
    one = make_target([100.0], per_replica=1.0, tolerance_percent=0)
    series = {"m": replace(one.history.pods["m"], total=np.array([[100.0, 200.0]]), reporting=np.array([[1.0, 2.0]]))}
    series = {"m": replace(series["m"], missing=np.zeros((1, 2)))}
    group = replace(
        one,
        backends=backends((10, 1, 5), (20, 2, 4)),
        cost_expansion_percent=100,
        history=replace(one.history, replicas=np.array([[1.0, 2.0]]), unready=np.zeros((1, 2)), pods=series),
    )
    assert track([group], np.array([0.0]), KTHENA_V1)[0].replicas == (5, 4)


def test_one_pod_with_everything_fills_its_target(make_target: MakeTarget) -> None:
    target = make_target([10.0], per_replica=1.0, maximum=10, replicas=1)
    assert track([target], np.array([0.0]), KTHENA_V1)[0].replicas == (10,)


def test_the_sync_period_defaults_to_upstreams() -> None:
    assert sync_period_s(0) == 15.0
    assert sync_period_s(5) == 5.0
    assert warm_up_s(DEFAULT_BEHAVIOR) == 600.0


# -- readings ------------------------------------------------------------------------------------------------------


def test_a_query_answers_with_one_number_or_not_at_all() -> None:
    assert read_external([42.5]) == Measured(value=42.5)
    assert read_external([7.0]).value == 7.0
    for elements in ([], [1.0, 2.0], [float("nan")], [INF], [-1.0]):
        answer = read_external(elements)
        assert answer.value is None
        assert answer.reason


def test_label_sets_of_one_metric_are_added_up() -> None:
    assert read_pods([PodReading(pod="a", values=(2.0, 3.0))], KTHENA_V1).total == 5.0
    assert read_pods([PodReading(pod="a", values=(4.0, 6.0))], TRACKING).total == 10.0
    assert read_pods([PodReading(pod="a", values=(4.0, 6.0))], KTHENA_V0).total == 4.0


def test_a_pod_that_is_not_ready_is_counted_and_not_read() -> None:
    pods = [PodReading(pod="a", values=(40.0,)), PodReading(pod="b", ready=False, values=(9.0,))]
    got = read_pods(pods, KTHENA_V1)
    assert (got.total, got.reporting, got.missing, got.unready) == (40.0, 1, 0, 1)
    blind = read_pods(pods, KTHENA_V0)
    assert (blind.reporting, blind.unready) == (0, 1)


def test_pods_that_cannot_be_read_are_missing_with_their_reason() -> None:
    got = read_pods(
        [
            PodReading(pod="a", values=(1.0,)),
            PodReading(pod="b"),
            PodReading(pod="c", values=(float("nan"),)),
            PodReading(pod="d", values=(1.0,)),
            PodReading(pod="d", values=(2.0,)),
            PodReading(pod="e", quantile=quantile_since(Histogram(count=0, buckets=()), None)),
        ],
        TRACKING,
    )
    assert (got.total, got.reporting, got.missing) == (1.0, 1, 4)
    assert [reason.split(":")[0] for reason in got.reasons] == ["pod b", "pod c", "pod d", "pod e"]


# -- closed loops --------------------------------------------------------------------------------------------------

LOADS = [20, 24, 60, 120, 120, 120, 60, 25, 25, 25, 25, 25, 10, 10.5, 12]


@pytest.mark.parametrize(
    ("behavior", "rule", "expected"),
    [
        (PROMETHEUS_EXAMPLE, KTHENA_V1, "2 3 6 12 12 12 12 12 6 3 3 3 3 3 3"),
        (PROMETHEUS_EXAMPLE, KTHENA_V0, "2 3 6 12 12 12 12 12 6 3 3 3 3 3 3"),
        (PROMETHEUS_EXAMPLE, KTHENA_V0_CORRECTED, "2 3 6 12 12 12 12 12 12 12 12 12 12 12 12"),
        (USER_GUIDE, KTHENA_V1, "2 3 6 12 12 12 12 12 12 12 12 12 12 12 12"),
        (DEFAULT_BEHAVIOR, KTHENA_V1, "2 3 6 6 6 6 6 6 6 6 6 6 6 6 6"),
        (CRD_DEFAULT, KTHENA_V1, "2 3 6 12 12 12 12 12 12 12 12 12 12 12 12"),
    ],
)
def test_the_worked_loops_agree(make_target: MakeTarget, behavior: Behavior, rule: Rule, expected: str) -> None:
    ticks = loop([make_target(LOADS, behavior=behavior)], [2], rule)
    assert " ".join(str(tick.replicas[0]) for tick in ticks) == expected


def test_the_same_loop_with_an_external_metric_has_no_frozen_band(make_target: MakeTarget) -> None:
    ticks = loop([make_target(LOADS, behavior=PROMETHEUS_EXAMPLE, external=True)], [2], KTHENA_V1)
    assert [int(tick.recommendation.replicas[0]) for tick in ticks[-3:]] == [1, 2, 2]
    assert ticks[-1].replicas.tolist() == [2]


def test_panic_is_for_ever_at_zero(make_target: MakeTarget) -> None:
    ticks = loop([make_target([0.0] * 9, behavior=CRD_DEFAULT, minimum=0, external=True)], [0], KTHENA_V1)
    assert all(tick.panic[0] for tick in ticks)


@pytest.mark.parametrize(("rule", "expected"), [(KTHENA_V1, (4, 8)), (TRACKING, (2, 2))])
def test_a_group_shrinks_only_where_raw_recommendations_are_recorded(
    make_target: MakeTarget, rule: Rule, expected: tuple[int, int]
) -> None:
    loads = [30.0, 60.0, 150.0, 150.0, *[35.0] * 36]
    one = make_target(loads, behavior=PROMETHEUS_EXAMPLE)
    halves = np.array(loads).reshape(-1, 1) / 2 * np.ones((1, 2))
    two = np.ones_like(halves)
    series = {"m": replace(one.history.pods["m"], total=halves, reporting=two, missing=0 * two)}
    group = replace(
        one,
        backends=backends((100, 0, 4), (60, 1, 8)),
        history=replace(one.history, replicas=two, unready=0 * two, pods=series),
    )
    outcome = track([group], 15.0 * np.arange(len(loads)).astype(np.float64), rule)[0]
    assert outcome.trail is not None
    assert outcome.trail.recommended == 4
    assert outcome.replicas == expected
    assert outcome.depends_on_start == (rule is KTHENA_V1)
