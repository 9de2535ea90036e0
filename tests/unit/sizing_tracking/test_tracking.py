"""From targets to outcomes: what history a decision may rest on, and what bad input does to it."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reconciler.domain.metric_targets import (
    DEFAULT_BEHAVIOR,
    Backend,
    Behavior,
    MetricTarget,
    Panic,
    Rate,
    RatioRange,
    Select,
)
from reconciler.sizing.tracking import TrackedOutcome, track
from reconciler.sizing.tracking_loads import (
    KTHENA_V0,
    KTHENA_V0_CORRECTED,
    KTHENA_V1,
    TRACKING,
    PodHistory,
    Target,
    TrackingRule,
)
from reconciler.sizing.tracking_replay import RolePair

NAN, INF = float("nan"), float("inf")
MakeTarget = Callable[..., Target]
RULES = [TRACKING, KTHENA_V1, KTHENA_V0, KTHENA_V0_CORRECTED]
EVERY_RULE = pytest.mark.parametrize("rule", RULES, ids=["ours", "v1", "v0", "v0-corrected"])
# A quarter of an hour: longer than any warm-up here.
TICKS = 60
QUICK = Behavior(
    down=Rate(instances=1, percent=100, period_s=15.0, stabilization_s=30.0),
    up=Rate(instances=2, percent=100, period_s=15.0, stabilization_s=0.0),
    panic=Panic(percent=200, period_s=5.0, threshold_percent=200, hold_s=30.0),
)


def decide(target: Target, rule: TrackingRule = TRACKING) -> TrackedOutcome:
    ticks = target.history.replicas.shape[0]
    return track([target], np.arange(0.0, 15.0 * ticks, 15.0), rule)[0]


# -- history -------------------------------------------------------------------------------------------------------


@EVERY_RULE
def test_a_short_history_shrinks_nothing(make_target: MakeTarget, rule: TrackingRule) -> None:
    short = decide(make_target([20.0] * 30, behavior=DEFAULT_BEHAVIOR, replicas=9), rule)
    assert short.replicas == (9,)
    assert short.reasons == ("not shrunk: 435 s of history, and windows need 600 s",)
    assert short.trail is not None


def test_a_full_history_shrinks_to_what_is_needed(make_target: MakeTarget) -> None:
    full = decide(make_target([20.0] * TICKS, behavior=DEFAULT_BEHAVIOR, replicas=9))
    assert full.replicas == (2,)
    assert full.reasons == ()
    assert (full.start, full.covered_s, full.needed_s) == (9, 885.0, 600.0)


@EVERY_RULE
def test_a_short_history_may_grow(make_target: MakeTarget, rule: TrackingRule) -> None:
    assert decide(make_target([70.0] * 3, behavior=DEFAULT_BEHAVIOR), rule).replicas == (7,)


@EVERY_RULE
def test_a_gap_in_the_metrics_shrinks_nothing_while_a_window_remembers(
    make_target: MakeTarget, rule: TrackingRule
) -> None:
    load = [20.0] * TICKS
    load[-3] = NAN
    outcome = decide(make_target(load, behavior=DEFAULT_BEHAVIOR, replicas=9), rule)
    assert outcome.replicas == (9,)
    assert outcome.reasons == ("not shrunk: a metric was missing 30 s ago",)


@EVERY_RULE
def test_without_any_metric_now_everything_is_held(make_target: MakeTarget, rule: TrackingRule) -> None:
    outcome = decide(make_target([*[90.0] * 60, NAN], behavior=DEFAULT_BEHAVIOR), rule)
    assert outcome.replicas is None
    assert outcome.reasons == ("no metric could be read now: m",)


@EVERY_RULE
def test_a_metric_that_went_missing_keeps_what_it_asked_for(make_target: MakeTarget, rule: TrackingRule) -> None:
    """Two metrics, of which the demanding one is no longer there: the other alone would shrink."""
    target = make_target([20.0] * TICKS, replicas=9, behavior=QUICK)
    demanding = PodHistory(
        total=np.array([[90.0]] * 30 + [[NAN]] * 30),
        reporting=np.ones((TICKS, 1)),
        missing=np.zeros((TICKS, 1)),
    )
    both = replace(
        target,
        policy=replace(target.policy, metrics=(*target.policy.metrics, MetricTarget(name="q", per_replica=10.0))),
        history=replace(target.history, pods={**target.history.pods, "q": demanding}),
    )
    outcome = decide(both, rule)
    assert outcome.replicas == (9,)
    assert outcome.trail is not None
    assert outcome.trail.votes[1].total is None


def test_pods_that_do_not_report_keep_a_target_from_shrinking(make_target: MakeTarget) -> None:
    assert decide(make_target([20.0] * TICKS, missing=2)).replicas == (5,)
    assert decide(make_target([90.0] * TICKS, missing=2)).replicas == (9,)


def test_counts_that_were_never_recorded_hold_a_target(make_target: MakeTarget) -> None:
    outcome = decide(make_target([20.0] * TICKS, replicas=NAN))
    assert outcome.replicas is None
    assert outcome.reasons == ("how many replicas run was never recorded",)


def test_the_loop_begins_where_counts_do(make_target: MakeTarget) -> None:
    counts = [*[NAN] * 20, *[9.0] * 40]
    outcome = decide(make_target([20.0] * TICKS, replicas=counts, behavior=DEFAULT_BEHAVIOR))
    assert (outcome.start, outcome.covered_s) == (9, 585.0)
    assert outcome.replicas == (9,)


def test_ticks_that_go_back_are_left_out(make_target: MakeTarget) -> None:
    load = [20.0] * TICKS
    ticks_s = np.arange(0.0, 15.0 * TICKS, 15.0)
    ticks_s[10], ticks_s[50], ticks_s[51] = 3.0, NAN, ticks_s[49]
    load[10] = load[50] = load[51] = 200.0
    outcome = track([make_target(load, replicas=2)], ticks_s, TRACKING)[0]
    assert outcome.replicas == (2,)
    assert outcome.notes == ("3 ticks went back in time or had none and are left out",)


def test_a_hole_in_the_clock_starts_the_history_anew(make_target: MakeTarget) -> None:
    ticks_s = np.arange(0.0, 15.0 * TICKS, 15.0)
    ticks_s[40:] += 1_800.0
    outcome = track([make_target([20.0] * TICKS, replicas=9, behavior=DEFAULT_BEHAVIOR)], ticks_s, TRACKING)[0]
    assert outcome.covered_s == 285.0
    assert outcome.replicas == (9,)


@pytest.mark.parametrize("ticks_s", [[], [NAN], [INF], [0.0], [1e300]])
def test_hardly_any_clock_is_no_error(make_target: MakeTarget, ticks_s: list[float]) -> None:
    target = make_target([20.0] * len(ticks_s), behavior=DEFAULT_BEHAVIOR)
    outcome = track([target], np.array(ticks_s), TRACKING)[0]
    assert outcome.total in (None, 5)
    assert outcome.reasons


def test_no_targets_have_no_outcomes() -> None:
    assert track([], np.arange(0.0, 60.0, 15.0), TRACKING) == ()


# -- zero ----------------------------------------------------------------------------------------------------------


@EVERY_RULE
def test_at_zero_pod_metrics_cannot_wake_a_target(make_target: MakeTarget, rule: TrackingRule) -> None:
    outcome = decide(make_target([NAN] * TICKS, replicas=0, minimum=0), rule)
    assert outcome.replicas is None
    assert outcome.reasons == ("at zero replicas no pod reports m: only a metric from elsewhere can wake it",)


@EVERY_RULE
def test_at_zero_an_external_metric_wakes_a_target(make_target: MakeTarget, rule: TrackingRule) -> None:
    waking = make_target([*[0.0] * TICKS, 25.0], replicas=0, minimum=0, external=True, behavior=DEFAULT_BEHAVIOR)
    assert decide(waking, rule).replicas == (3,)
    asleep = make_target([0.0] * TICKS, replicas=0, minimum=0, external=True, behavior=DEFAULT_BEHAVIOR)
    assert decide(asleep, rule).replicas == (0,)


@EVERY_RULE
def test_a_target_below_its_minimum_needs_no_metric_to_grow(make_target: MakeTarget, rule: TrackingRule) -> None:
    assert decide(make_target([NAN] * TICKS, replicas=0, minimum=2), rule).replicas == (2,)


def test_the_last_replica_waits_for_its_grace_period(make_target: MakeTarget) -> None:
    load = [50.0] * 20 + [0.0] * 40
    waiting = make_target(load, minimum=0, behavior=QUICK, grace_s=900.0)
    assert decide(waiting).replicas == (1,)
    assert decide(waiting, KTHENA_V1).replicas == (0,)
    assert decide(make_target(load, minimum=0, behavior=QUICK, grace_s=300.0)).replicas == (0,)
    assert decide(make_target(load, minimum=0, behavior=QUICK)).replicas == (0,)


def test_arrivals_that_nobody_counted_are_arrivals(make_target: MakeTarget) -> None:
    idle = [0.0] * TICKS
    arrivals = [0.0] * TICKS
    assert decide(make_target(idle, minimum=0, grace_s=300.0, arrivals_per_s=arrivals)).replicas == (0,)
    arrivals[-5] = NAN
    assert decide(make_target(idle, minimum=0, grace_s=300.0, arrivals_per_s=arrivals)).replicas == (1,)
    arrivals[-5] = 0.1
    assert decide(make_target(idle, minimum=0, grace_s=300.0, arrivals_per_s=arrivals)).replicas == (1,)


def test_a_grace_period_longer_than_the_history_has_not_passed(make_target: MakeTarget) -> None:
    outcome = decide(make_target([0.0] * 40, minimum=0, replicas=1, grace_s=1_800.0))
    assert outcome.replicas == (1,)


# -- roles ---------------------------------------------------------------------------------------------------------

PAIR = RolePair(numerator=0, denominator=1, ratio=RatioRange(minimum=0.25, maximum=1.0))


def test_roles_are_held_together(make_target: MakeTarget) -> None:
    ticks_s = np.arange(0.0, 15.0 * TICKS, 15.0)
    prefill, blind = make_target([60.0] * TICKS, name="prefill"), make_target([*[60.0] * 59, NAN], name="decode")
    for outcome in track([prefill, blind], ticks_s, TRACKING, [PAIR]):
        assert outcome.replicas is None
    broken = make_target([60.0] * TICKS, minimum=9, maximum=3)
    outcomes = track([prefill, broken], ticks_s, TRACKING, [PAIR])
    assert outcomes[0].reasons == ("the other role of the ratio cannot be decided",)


def test_roles_that_cannot_keep_their_ratio_are_held(make_target: MakeTarget) -> None:
    ticks_s = np.arange(0.0, 15.0 * TICKS, 15.0)
    prefill = make_target([60.0] * TICKS, minimum=3, maximum=6)
    roles = [prefill, make_target([60.0] * TICKS, minimum=1, maximum=2, replicas=2)]
    for outcome in track(roles, ticks_s, TRACKING, [PAIR]):
        assert outcome.replicas is None
        assert "no whole numbers" in outcome.reasons[0]


@pytest.mark.parametrize(
    "pair",
    [
        RolePair(numerator=0, denominator=0, ratio=None),
        RolePair(numerator=0, denominator=7, ratio=None),
        RolePair(numerator=0, denominator=1, ratio=RatioRange(minimum=NAN, maximum=1.0)),
        RolePair(numerator=0, denominator=1, ratio=RatioRange(minimum=2.0, maximum=1.0)),
        RolePair(numerator=0, denominator=1, ratio=RatioRange(minimum=0.0, maximum=1e-300)),
        RolePair(numerator=0, denominator=1, ratio=RatioRange(minimum=1e300, maximum=1e301)),
    ],
)
def test_a_ratio_that_makes_no_sense_holds_its_roles(make_target: MakeTarget, pair: RolePair) -> None:
    outcomes = track([make_target([60.0] * 3)] * 2, np.arange(0.0, 45.0, 15.0), TRACKING, [pair])
    assert outcomes[0].replicas is None
    assert outcomes[0].reasons


# -- bad input -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"minimum": 9, "maximum": 3}, "min replicas 9 is above max replicas 3"),
        ({"minimum": -1}, "min replicas must be from 0 to 1e+06, got -1"),
        ({"maximum": 10**12}, "max replicas must be from 1 to 1e+06"),
        ({"per_replica": 0.0}, "metric m: the target must be above 0 and finite, got 0.0"),
        ({"per_replica": -1.0}, "above 0 and finite"),
        ({"per_replica": NAN}, "above 0 and finite"),
        ({"per_replica": INF}, "above 0 and finite"),
        ({"tolerance_percent": -1}, "tolerance percent must be from 0 to 100"),
        ({"grace_s": INF}, "grace period must be from 0 to 1800"),
        ({"behavior": replace(QUICK, down=replace(QUICK.down, period_s=NAN))}, "scale down period must be from 0"),
        ({"behavior": replace(QUICK, up=replace(QUICK.up, stabilization_s=1e9))}, "scale up stabilization window"),
        ({"behavior": replace(QUICK, up=replace(QUICK.up, percent=10**30))}, "scale up percent must be from 0"),
        ({"behavior": replace(QUICK, panic=replace(QUICK.panic, hold_s=-1.0))}, "panic hold must be from 0"),
    ],
)
def test_a_policy_that_makes_no_sense_holds_its_target(
    make_target: MakeTarget, changes: dict[str, float], reason: str
) -> None:
    sound, broken = make_target([70.0] * 3), make_target([70.0] * 3, **changes)
    outcomes = track([broken, sound], np.arange(0.0, 45.0, 15.0), TRACKING)
    assert outcomes[0].replicas is None
    assert reason in outcomes[0].reasons[0]
    assert outcomes[0].steps()[0].reason == outcomes[0].reasons[0]
    assert outcomes[1].replicas == (7,)


def test_series_of_another_length_hold_their_target(make_target: MakeTarget) -> None:
    outcome = track([make_target([70.0] * 3)], np.arange(0.0, 60.0, 15.0), TRACKING)[0]
    assert outcome.replicas is None
    assert "has shape (3, 1), expected (4, 1)" in outcome.reasons[0]


def test_a_metric_named_twice_holds_its_target(make_target: MakeTarget) -> None:
    target = make_target([70.0])
    twice = replace(target, policy=replace(target.policy, metrics=target.policy.metrics * 2))
    assert decide(twice).reasons == ("metric m is named twice",)


@pytest.mark.parametrize("load", [-5.0, INF, -INF])
@EVERY_RULE
def test_unusable_readings_are_missing_and_counted(make_target: MakeTarget, load: float, rule: TrackingRule) -> None:
    outcome = decide(make_target([*[60.0] * 59, load]), rule)
    assert outcome.replicas is None
    assert "1 readings were negative or infinite and count as missing" in outcome.notes


@EVERY_RULE
def test_a_huge_reading_asks_for_all_there_is(make_target: MakeTarget, rule: TrackingRule) -> None:
    assert decide(make_target([1e308] * TICKS), rule).replicas == (20,)


def test_what_can_never_move_is_noted(make_target: MakeTarget) -> None:
    slow = replace(QUICK, down=replace(QUICK.down, percent=10, select=Select.AND))
    assert decide(make_target([70.0], behavior=slow)).notes == (
        "scale down does not move below 10 replicas: 10 % of fewer is less than one",
    )
    never = replace(QUICK, up=replace(QUICK.up, instances=0, select=Select.AND))
    assert "scale up can never move" in decide(make_target([70.0], behavior=never)).notes[0]


def test_a_share_over_a_group_is_noted(make_target: MakeTarget) -> None:
    target = make_target([0.7] * 3, external=True)
    name = "kv_cache_usage"
    group = replace(
        target,
        policy=replace(target.policy, metrics=(MetricTarget(name=name, per_replica=0.8),)),
        backends=(*target.backends, replace(target.backends[0], name="other")),
        history=replace(
            target.history,
            replicas=np.ones((3, 2)),
            unready=np.zeros((3, 2)),
            external={name: np.full((3, 2), 0.7)},
        ),
    )
    assert f"{name} is averaged over backends" in decide(group).notes[0]


# -- invariants ----------------------------------------------------------------------------------------------------

readings = st.one_of(
    st.floats(min_value=0.0, max_value=300.0),
    st.sampled_from([NAN, INF, -1.0, 0.0, 10.0, 1e308, 5e-324]),
)
percents, instances = st.integers(0, 1000), st.integers(0, 30)
lengths_s = st.sampled_from([0.0, 5.0, 15.0, 30.0, 60.0, 300.0])
rates = st.builds(
    Rate,
    instances=instances,
    percent=percents,
    period_s=lengths_s,
    stabilization_s=lengths_s,
    select=st.sampled_from(list(Select)),
)
panics = st.builds(
    Panic, percent=percents, period_s=lengths_s, threshold_percent=st.none() | st.integers(110, 1000), hold_s=lengths_s
)
behaviors = st.builds(Behavior, down=rates, up=rates, panic=panics)
any_rule = st.sampled_from(RULES)


@settings(max_examples=100, deadline=None)
@given(st.data(), any_rule, behaviors)
def test_whatever_is_read_the_answer_is_within_bounds_and_missing_data_shrinks_nothing(
    make_target: MakeTarget, data: st.DataObject, rule: TrackingRule, behavior: Behavior
) -> None:
    load = data.draw(st.lists(readings, min_size=1, max_size=80))
    minimum = data.draw(st.integers(0, 5))
    maximum = data.draw(st.integers(max(minimum, 1), 30))
    count = data.draw(st.integers(0, 40))
    external = data.draw(st.booleans())
    target = make_target(
        load, behavior=behavior, minimum=minimum, maximum=maximum, replicas=count, external=external, unready=count % 3
    )
    outcome = decide(target, rule)
    assert (outcome.replicas is None) <= bool(outcome.reasons)
    if outcome.replicas is None:
        return
    assert minimum <= outcome.replicas[0] <= maximum
    unsure = outcome.covered_s < outcome.needed_s or not np.isfinite(load[-1]) or load[-1] < 0
    assert outcome.replicas[0] >= min(count, maximum) or not unsure
    assert all(step.reason for step in outcome.steps())


@settings(max_examples=10, deadline=None)
@given(
    st.lists(st.tuples(st.lists(readings, min_size=30, max_size=30), behaviors, st.integers(0, 25)), min_size=2),
    any_rule,
)
def test_targets_do_not_know_of_each_other(
    make_target: MakeTarget, drawn: list[tuple[list[float], Behavior, int]], rule: TrackingRule
) -> None:
    targets = [make_target(load, behavior=behavior, replicas=count) for load, behavior, count in drawn]
    together = track(targets, np.arange(0.0, 450.0, 15.0), rule)
    assert list(together) == [decide(target, rule) for target in targets]


@settings(max_examples=15, deadline=None)
@given(
    st.lists(st.floats(min_value=12.0, max_value=190.0), min_size=6, max_size=6),
    st.sampled_from([TRACKING, KTHENA_V1, KTHENA_V0]),
    st.sampled_from(
        [DEFAULT_BEHAVIOR, replace(DEFAULT_BEHAVIOR, up=replace(DEFAULT_BEHAVIOR.up, period_s=15.0)), QUICK]
    ),
    st.integers(1, 20),
    st.integers(1, 20),
)
def test_after_the_warm_up_the_start_is_forgotten(
    make_target: MakeTarget, levels: list[float], rule: TrackingRule, behavior: Behavior, one: int, other: int
) -> None:
    """Half an hour in steps of five minutes; without tolerance, which holds whatever count it has."""
    load = np.repeat(levels, 20).tolist()
    targets = [make_target(load, behavior=behavior, replicas=start, tolerance_percent=0) for start in (one, other)]
    outcomes = track(targets, np.arange(0.0, 15.0 * len(load), 15.0), rule)
    assert outcomes[0].replicas == outcomes[1].replicas
    assert not outcomes[0].depends_on_start


def test_a_start_that_the_windows_keep_is_said(make_target: MakeTarget) -> None:
    steady = make_target([95.0] * TICKS, behavior=DEFAULT_BEHAVIOR, replicas=9)
    assert decide(steady).depends_on_start  # within the tolerance of nine replicas, and of ten
    falling = make_target([*[150.0] * 20, *[25.0] * 40], behavior=QUICK, replicas=2)
    assert decide(falling, KTHENA_V0_CORRECTED).depends_on_start
    assert decide(falling, KTHENA_V0_CORRECTED).replicas == (15,)
    assert "begun with the 2 replicas recorded first" in decide(falling, KTHENA_V0_CORRECTED).notes[0]
    assert not decide(falling, KTHENA_V0).depends_on_start
    assert decide(falling, KTHENA_V0).replicas == (3,)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.floats(min_value=0.0, max_value=250.0), min_size=45, max_size=45), st.integers(1, 20))
def test_more_load_never_means_fewer_replicas(make_target: MakeTarget, load: list[float], count: int) -> None:
    loads = (load, [1.3 * each for each in load])
    targets = [make_target(each, behavior=DEFAULT_BEHAVIOR, replicas=count, tolerance_percent=0) for each in loads]
    less, more = track(targets, np.arange(0.0, 675.0, 15.0), TRACKING)
    assert (less.total or 0) <= (more.total or 0)


def test_the_way_to_the_answer_can_be_told(make_target: MakeTarget) -> None:
    load = [*[20.0] * 40, *[150.0] * 20]
    outcome = decide(make_target(load, behavior=DEFAULT_BEHAVIOR, replicas=2))
    steps = {step.stage: step for step in outcome.steps()}
    assert outcome.trail is not None
    assert outcome.trail.recommended == 15
    assert outcome.replicas == (15,)
    assert steps == {}
    climbing = decide(make_target(load[:43], behavior=DEFAULT_BEHAVIOR, replicas=2))
    steps = {step.stage: step for step in climbing.steps()}
    assert steps["metrics"].reason == "m 150 at 10 a replica asks for 15"
    assert steps["rate"].reason == "from 2 within the period to 6 at most"
    assert (steps["rate"].before, steps["rate"].after) == ("15", "6")


def test_backends_of_a_group_are_all_kept_while_anything_is_missing(make_target: MakeTarget) -> None:
    one = make_target([60.0] * TICKS, behavior=QUICK)
    series = PodHistory(total=np.full((TICKS, 2), 30.0), reporting=np.ones((TICKS, 2)), missing=np.zeros((TICKS, 2)))
    series.total[-2, 1] = NAN
    group = replace(
        one,
        backends=(
            Backend(name="large", min_replicas=0, max_replicas=5, cost=100),
            Backend(name="small", min_replicas=0, max_replicas=8, cost=30),
        ),
        history=replace(
            one.history, replicas=np.full((TICKS, 2), 3.0), unready=np.zeros((TICKS, 2)), pods={"m": series}
        ),
    )
    assert decide(group).replicas == (3, 3)
    series.total[:, 0] = 60.0
    assert decide(group).total == 9
    assert min(decide(group).replicas or (0,)) >= 3
    whole = replace(series, total=np.full((TICKS, 2), 30.0))
    steady = replace(group, history=replace(group.history, pods={"m": whole}))
    assert decide(steady).replicas is not None
    assert decide(steady).total == 6
