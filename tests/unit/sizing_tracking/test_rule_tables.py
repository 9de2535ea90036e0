"""What the reference states in prose: tolerances, splits and closed loops that were run with the original code."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from reconciler.domain.metric_targets import DEFAULT_BEHAVIOR, Backend, Behavior, Panic, Rate, RatioRange
from reconciler.sizing.tracking import track
from reconciler.sizing.tracking_loads import (
    KTHENA_V0,
    KTHENA_V0_CORRECTED,
    KTHENA_V1,
    TRACKING,
    Target,
    TrackingRule,
    distribute,
    scaling_order,
    stack_loads,
)
from reconciler.sizing.tracking_replay import (
    RoleBounds,
    RolePair,
    Tick,
    repair_exactly,
    repair_upstream,
    replay,
    stack_course,
)

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


def loop(targets: list[Target], start: list[int], rule: TrackingRule, pairs: tuple[RolePair, ...] = ()) -> list[Tick]:
    ticks = targets[0].history.replicas.shape[0]
    loads, course = stack_loads(targets, ticks, rule), stack_course(targets, rule)
    return list(replay(15_000 * np.arange(ticks), loads, course, np.array(start), rule, pairs))


# -- recommendation ------------------------------------------------------------------------------------------------


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


# -- groups --------------------------------------------------------------------------------------------------------


def backends(*params: tuple[int, int, int]) -> tuple[Backend, ...]:
    return tuple(
        Backend(name=str(index), cost=cost, min_replicas=least, max_replicas=most)
        for index, (cost, least, most) in enumerate(params)
    )


def split(params: tuple[Backend, ...], rate: int, total: int) -> list[int]:
    return list(distribute(params, scaling_order(params, rate), total))


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


# -- roles ---------------------------------------------------------------------------------------------------------


def test_rounding_leaves_the_range_upstream_and_not_here() -> None:
    bounds, half = RoleBounds(numerator=(1, 10), denominator=(1, 10)), RatioRange(minimum=0.5, maximum=0.5)
    theirs, ours = repair_upstream(1, 3, bounds, half), repair_exactly(1, 3, bounds, half)
    assert (theirs.numerator, theirs.denominator) == (2, 3)
    assert (ours.numerator, ours.denominator) == (2, 4)


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
def test_the_worked_loops_agree(make_target: MakeTarget, behavior: Behavior, rule: TrackingRule, expected: str) -> None:
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
    make_target: MakeTarget, rule: TrackingRule, expected: tuple[int, int]
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
