"""What the engine does better: each test shows a reproduction's answer beside the engine's, on the same readings."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from reconciler.domain.inventory import Allocation
from reconciler.domain.observed import ReplicaMetrics, Role, Trace, UpstreamQueue
from reconciler.domain.requirements import Bounds, Candidate, Problem
from reconciler.optimizer.separable import SeparableSolver
from reconciler.sizing.saturation import Flow, SaturationAnswer, ZeroRule, size_saturation
from reconciler.sizing.saturation_memory import replay_bounds
from reconciler.sizing.saturation_readings import StoredCapacity, VariantFacts, WorkloadKey, layer_thresholds
from reconciler.upstream.wva import UpstreamReadings, reproduce_percent, reproduce_tokens
from reconciler.upstream.wva_limits import DeviceBudget, Quota
from tests.histories import arrays

Replicas = Callable[..., tuple[ReplicaMetrics, ...]]
Variant = Callable[..., VariantFacts]
Readings = Callable[..., UpstreamReadings]
Counts = dict[str, int]

# Memory for 10 000 tokens at the threshold of 0.8.
SIZED: dict[str, Any] = {"total_kv_tokens": 12500.0, "input_tokens": 100.0, "output_tokens": 100.0}


def named(replicas: Any) -> Counts:
    return {key.name: count for key, count in sorted(replicas.items())}


def v1(readings: UpstreamReadings) -> Counts:
    return named(reproduce_percent([readings])[0].requirements[0].fixed)


def v2(readings: UpstreamReadings) -> Counts:
    return named(reproduce_tokens([readings])[0].requirements[0].fixed)


def chosen(readings: UpstreamReadings) -> Counts:
    """The engine's requirements, solved at least cost within bounds, floors and what is held."""
    answer = size_saturation(readings)
    current = {
        each.key: Allocation(accelerator=each.accelerator, replicas=each.current_replicas) for each in readings.variants
    }
    problem = Problem(
        requirements=answer.requirements,
        candidates=tuple(
            Candidate(key=each.key.on(each.accelerator), weight=each.cost, cost_per_hour=None)
            for each in readings.variants
        ),
        current=current,
        current_weights={each.key: each.cost for each in readings.variants},
        bounds={each.key: bounds_of(each, answer) for each in readings.variants},
        pinned={key: current[key] for key in answer.held},
    )
    return named({key: each.replicas for key, each in SeparableSolver().solve(problem).allocations.items()})


def bounds_of(variant: VariantFacts, answer: SaturationAnswer) -> Bounds:
    return Bounds(minimum=max(variant.floor, answer.floors.get(variant.key, 0)), maximum=variant.max_replicas)


def test_a_surge_is_answered_in_one_step(variant: Variant, replicas: Replicas, readings: Readings) -> None:
    surge = readings(variant("v", current_replicas=2), replicas=replicas("v", ".95/20, .95/20"))

    assert v1(surge) == {"v": 3}
    assert chosen(surge) == {"v": 4}


def test_saturated_replicas_are_not_averaged_away(variant: Variant, replicas: Replicas, readings: Readings) -> None:
    hidden = readings(variant("v", current_replicas=3), replicas=replicas("v", ".85/2, .50/6, .60/2"))

    assert v1(hidden) == {"v": 3}
    assert chosen(hidden) == {"v": 4}


def test_a_stuck_queue_does_not_keep_a_pair_for_ever(variant: Variant, replicas: Replicas, readings: Readings) -> None:
    stuck = readings(variant("v", current_replicas=2), replicas=replicas("v", ".1/6, .1/0", **SIZED))

    assert v1(stuck) == {"v": 2}
    assert chosen(stuck) == {"v": 1}


def test_an_idle_fleet_shrinks_in_one_step(variant: Variant, replicas: Replicas, readings: Readings) -> None:
    idle = readings(variant("v", current_replicas=4), replicas=replicas("v", ".10/0, .10/0, .10/0, .10/0"))

    assert v1(idle) == {"v": 3}
    assert chosen(idle) == {"v": 1}


@pytest.mark.parametrize("loads", [".40/0, -/0, -/0", ".40/0, .40/0", ".40/-, .40/-, .40/-"])
def test_missing_is_unknown_and_never_idle_in_percent(
    variant: Variant, replicas: Replicas, readings: Readings, loads: str
) -> None:
    partial = readings(variant("v", current_replicas=3), replicas=replicas("v", loads))

    assert v1(partial) == ({"v": 3} if loads == ".40/0, .40/0" else {"v": 2})
    assert chosen(partial) == {"v": 3}
    assert "report" in next(iter(size_saturation(partial).reasons.values()))


def test_missing_is_unknown_and_never_idle_in_tokens(variant: Variant, replicas: Replicas, readings: Readings) -> None:
    partial = readings(variant("v", current_replicas=5), replicas=replicas("v", ".1/0, .1/0, .1/0", **SIZED))

    assert v2(partial) == {"v": 3}
    assert chosen(partial) == {"v": 5}


def test_missing_slows_a_rise_and_does_not_stop_it(variant: Variant, replicas: Replicas, readings: Readings) -> None:
    partial = readings(variant("v", current_replicas=3), replicas=replicas("v", ".70/30, .70/30", **SIZED))

    assert chosen(partial)["v"] > 3


def test_without_any_metric_everything_is_held(variant: Variant, readings: Readings) -> None:
    blind = readings(variant("v", current_replicas=3), zero_rule=ZeroRule(is_enabled=True, requests=0.0))

    assert v1(blind) == {"v": 0}
    assert size_saturation(blind).requirements == ()
    assert chosen(blind) == {"v": 3}


def test_a_variant_at_zero_takes_what_spills_over(variant: Variant, replicas: Replicas, readings: Readings) -> None:
    short = readings(
        variant("dear", cost=15.0),
        variant("cheap", cost=5.0, current_replicas=0, stored=StoredCapacity(capacity_tokens=10000.0)),
        replicas=replicas("dear", ".7/20", **SIZED),
    )

    assert v2(short) == {"cheap": 0, "dear": 2}
    assert chosen(short) == {"cheap": 2, "dear": 0}


def test_only_the_cheapest_variant_wakes(variant: Variant, readings: Readings) -> None:
    asleep = readings(
        variant("dear", cost=15.0, current_replicas=0),
        variant("cheap", cost=5.0, current_replicas=0),
        queue=UpstreamQueue(num_waiting=1.0),
    )

    assert v1(asleep) == v2(asleep) == {"cheap": 1, "dear": 1}
    assert chosen(asleep) == {"cheap": 1, "dear": 0}


def test_a_model_at_zero_sleeps_on_when_nothing_waits_or_nobody_knows(variant: Variant, readings: Readings) -> None:
    own = variant("v", current_replicas=0)

    assert chosen(readings(own, queue=UpstreamQueue(num_waiting=0.0))) == {"v": 0}
    assert size_saturation(readings(own, queue=UpstreamQueue(reason="the query failed"))).held == {
        own.key: "at zero, and it is not known whether requests wait"
    }


def test_a_model_at_zero_wakes_when_requests_arrive(variant: Variant, readings: Readings) -> None:
    arriving = readings(variant("v", current_replicas=0), queue=UpstreamQueue(num_waiting=None))

    assert chosen(replace(arriving, arriving_per_s=20.0)) == {"v": 1}


def test_pending_replicas_count_and_do_not_block(variant: Variant, replicas: Replicas, readings: Readings) -> None:
    def growing(current: int, pending: int) -> UpstreamReadings:
        own = variant("v", current_replicas=current, pending_replicas=pending)
        return readings(own, replicas=replicas("v", ".95/20, .95/20"))

    assert v1(growing(3, 1)) == {"v": 3}
    assert chosen(growing(3, 1)) == {"v": 4}
    assert chosen(growing(4, 2)) == {"v": 4}


def test_nothing_shrinks_while_replicas_are_pending(variant: Variant, replicas: Replicas, readings: Readings) -> None:
    idle = readings(variant("v", current_replicas=5, pending_replicas=1), replicas=replicas("v", ".1/0," * 4, **SIZED))

    assert v2(idle) == {"v": 2}
    assert chosen(idle) == {"v": 5}


def test_the_dear_replica_goes_even_when_it_is_larger_than_the_spare(
    variant: Variant, replicas: Replicas, readings: Readings
) -> None:
    steady = readings(
        variant("dear", cost=15.0),
        variant("cheap", cost=5.0),
        replicas=(
            *replicas("dear", ".42/0", **{**SIZED, "total_kv_tokens": 25000.0}),
            *replicas("cheap", "0/0", **SIZED),
        ),
    )

    assert v2(steady) == {"cheap": 0, "dear": 1}
    assert chosen(steady) == {"cheap": 2, "dear": 0}


def test_a_compute_bound_that_was_learned_too_low_is_corrected(
    variant: Variant, replicas: Replicas, readings: Readings
) -> None:
    learned = {WorkloadKey(accelerator="A100", devices=1, bucket="medium"): (4000.0,)}
    busy = readings(variant("v"), replicas=replicas("v", ".64/0", **SIZED), history=learned)

    assert v2(busy) == {"v": 3}
    assert chosen(busy) == {"v": 1}


def test_a_ramp_up_leaves_no_low_capacity_behind(variant: Variant, replicas: Replicas, readings: Readings) -> None:
    own = variant("v", current_replicas=2)
    loads = replicas("v", ".3/0, .3/0", **SIZED)
    warming = Trace(
        pod="v-0",
        variant=own.key,
        start_s=0.0,
        step_s=15.0,
        series=arrays(
            {
                "kv_cache_usage": (0.05, 0.10, 0.20, 0.60),
                "num_waiting": (9.0, 9.0, 9.0, 0.0),
                "output_tokens": (100.0,) * 4,
            }
        ),
    )

    def remembering(*, corrects_history: bool) -> UpstreamReadings:
        thresholds = layer_thresholds().thresholds
        history = replay_bounds([warming], {"v-0": 12500.0}, [own], thresholds, corrects_history=corrects_history)
        return readings(own, replicas=loads, history=history)

    assert v2(remembering(corrects_history=False)) == {"v": 7}
    assert chosen(remembering(corrects_history=True)) == {"v": 2}


def test_a_burst_before_a_replica_is_full_does_not_shrink_what_it_can_hold(
    variant: Variant, replicas: Replicas, readings: Readings
) -> None:
    held_before = {WorkloadKey(accelerator="A100", devices=1, bucket="medium"): (8000.0,) * 10}
    burst = readings(variant("v"), replicas=replicas("v", ".05/6", **SIZED), history=held_before)

    assert v2(burst) == {"v": 4}
    assert chosen(burst) == {"v": 1}


def test_a_load_that_queues_at_a_low_usage_is_not_taken_for_idle(
    variant: Variant, replicas: Replicas, readings: Readings
) -> None:
    """Long prompts are bound by their rate: the cache stays nearly empty while requests queue."""
    prompts = {**SIZED, "input_tokens": 1000.0, "output_tokens": 100.0}
    own = variant("v", current_replicas=3)
    key = WorkloadKey(accelerator="A100", devices=1, bucket="medium")
    lull = readings(own, replicas=replicas("v", ".1/0, .1/0, .1/0", **prompts), history={key: (2000.0,) * 10})

    assert chosen(readings(own, replicas=replicas("v", ".16/9, .16/9, .16/9", **prompts)))["v"] > 3
    assert chosen(lull) == {"v": 3}
    assert v2(replace(lull, history={})) == {"v": 1}


def test_one_replica_stays_unless_zero_is_allowed_and_known(
    variant: Variant, replicas: Replicas, readings: Readings
) -> None:
    def idle(rule: ZeroRule) -> Counts:
        own = variant("v", current_replicas=2)
        return chosen(readings(own, replicas=replicas("v", "0/0, 0/0", **SIZED), zero_rule=rule))

    assert idle(ZeroRule()) == {"v": 1}
    assert idle(ZeroRule(is_enabled=True, requests=None, reason="the query failed")) == {"v": 1}
    assert idle(ZeroRule(is_enabled=True, requests=3.0)) == {"v": 1}
    assert idle(ZeroRule(is_enabled=True, requests=0.0)) == {"v": 0}


def test_prefill_and_decode_are_sized_each_for_itself(variant: Variant, replicas: Replicas, readings: Readings) -> None:
    pair = readings(
        variant("p", role=Role.PREFILL),
        variant("d", role=Role.DECODE, current_replicas=2),
        replicas=(*replicas("p", ".7/100", **SIZED), *replicas("d", ".2/0, .2/0", **SIZED)),
    )

    answer = size_saturation(pair)

    assert [requirement.model.role for requirement in answer.requirements] == ["decode", "prefill"]
    assert chosen(pair) == {"d": 1, "p": 3}


def test_a_steady_model_is_left_as_it_is(variant: Variant, replicas: Replicas, readings: Readings) -> None:
    steady = readings(variant("v", current_replicas=3), replicas=replicas("v", ".62/0, .62/0, .62/0", **SIZED))

    assert chosen(steady) == v2(steady) == {"v": 3}


@pytest.mark.parametrize("reported", [{}, SIZED], ids=["in replicas", "in tokens"])
def test_a_ripple_moves_nothing(
    variant: Variant, replicas: Replicas, readings: Readings, reported: dict[str, Any]
) -> None:
    """What was just enough for two stays enough: the same load, a tenth more or less, on one and on two replicas."""

    def settled(current: int, load: float) -> int:
        own = variant("v", current_replicas=current)
        usages = ", ".join([f"{load / current}/0"] * current)
        return chosen(readings(own, replicas=replicas("v", usages, **reported)))["v"]

    for load in (0.64, 0.70, 0.77):
        enough = max(settled(1, load), settled(2, load))
        assert settled(enough, load * 0.95) == enough
        assert settled(enough, load * 1.02) == enough


def test_capacity_is_bought_where_it_is_cheap_not_where_a_replica_is(
    variant: Variant, replicas: Replicas, readings: Readings
) -> None:
    """Upstream's first analyzer takes the cheapest replica, though it holds a tenth."""
    short = readings(
        variant("large", cost=15.0, current_replicas=2),
        variant("small", cost=5.0),
        replicas=(
            *replicas("large", ".75/4, .75/4", **{**SIZED, "total_kv_tokens": 125000.0}),
            *replicas("small", ".75/4", **SIZED),
        ),
    )

    assert v1(short) == {"large": 2, "small": 2}
    assert chosen(short)["large"] == 3


def test_every_number_and_threshold_behind_an_answer_is_told(
    variant: Variant, replicas: Replicas, readings: Readings
) -> None:
    steady = readings(variant("v", current_replicas=3), replicas=replicas("v", ".62/0, .62/0, .62/0", **SIZED))

    figures = {(figure.subject, figure.name): figure for figure in size_saturation(steady).figures}

    assert figures["threshold", "scale_up"].value == 0.85
    assert str(figures["threshold", "scale_up"].source) == "built-in"
    assert figures["chat/v", "capacity of a replica"].value == 10000
    assert figures["chat/v", "capacity of a replica"].reason == "what its KV cache holds"
    assert figures["both", "has"].value == 30000
    assert figures["both", "wanted"].value == pytest.approx(3 * 7750 / 0.85)


def test_e6_a_queued_request_wakes_a_model(variant: Variant, readings: Readings) -> None:
    asleep = readings(variant("v", current_replicas=0, min_replicas=0), queue=UpstreamQueue(num_waiting=1.0))

    assert v1(asleep) == v2(asleep) == chosen(asleep) == {"v": 1}


def test_e8_decisions_resume_with_the_metrics(variant: Variant, replicas: Replicas, readings: Readings) -> None:
    own = variant("v", current_replicas=2)
    busy = readings(own, replicas=replicas("v", ".95/0, .95/0"))

    before, during, after = chosen(busy), chosen(readings(own)), chosen(busy)

    assert (before, during, after) == ({"v": 3}, {"v": 2}, {"v": 3})


def test_e9_equal_names_in_two_namespaces_are_independent(
    variant: Variant, replicas: Replicas, readings: Readings
) -> None:
    busy = readings(variant("v"), replicas=replicas("v", ".95/0"))
    idle = readings(variant("v", namespace="other"))

    answers = reproduce_percent([busy, idle])

    assert [named(answer.requirements[0].fixed) for answer in answers] == [{"v": 2}, {"v": 1}]
    assert [chosen(each) for each in (busy, idle)] == [{"v": 2}, {"v": 1}]


def test_replicas_of_a_neighbour_of_that_name_count_for_nothing(
    variant: Variant, replicas: Replicas, readings: Readings
) -> None:
    mine = variant("v", current_replicas=2)
    foreign = [replace(each, variant=variant("v", namespace="other").key) for each in replicas("v", ".9/9, .9/9")]
    own = [replace(each, pod=f"own-{each.pod}") for each in replicas("v", ".4/0, .4/0")]

    mixed = readings(mine, replicas=(*foreign, *own))

    assert chosen(mixed) == chosen(readings(mine, replicas=tuple(own))) == {"v": 2}
    assert sum("belongs to no variant" in finding for finding in size_saturation(mixed).findings) == 2


def test_the_limited_modes_stay_within_their_devices(variant: Variant, replicas: Replicas, readings: Readings) -> None:
    surge = readings(variant("v"), replicas=replicas("v", ".7/900", **SIZED))

    assert named(reproduce_percent([surge], Quota(cluster={"A100": 0}))[0].requirements[0].fixed) == {"v": 1}
    assert named(reproduce_tokens([surge], DeviceBudget({"A100": 3}))[0].requirements[0].fixed) == {"v": 4}
    assert named(reproduce_tokens([surge], DeviceBudget({"A100": 3}), rescales=True)[0].requirements[0].fixed) == {
        "v": 4
    }


FULL = ".8/400, .8/400, .8/400"


@pytest.mark.parametrize(
    ("arriving", "drain_s", "expected"),
    [(10.0, 3600.0, 4), (10.5, 3600.0, 4), (18.0, 3600.0, 7), (30.0, 3600.0, 11), (10.0, 60.0, 9), (0.0, 3600.0, 4)],
)
def test_a_backlog_is_no_standing_demand(
    variant: Variant, replicas: Replicas, readings: Readings, arriving: float, drain_s: float, expected: int
) -> None:
    """Three full replicas finish 10 requests a second, and 1,200 wait."""
    flow = Flow(arriving=arriving, finished=10.0, drain_s=drain_s)
    full = readings(variant("v", current_replicas=3), replicas=replicas("v", FULL, **SIZED), flow=flow)

    assert chosen(full) == {"v": expected}


def test_a_backlog_of_unknown_arrivals_asks_for_as_much_again_at_most(
    variant: Variant, replicas: Replicas, readings: Readings
) -> None:
    full = readings(variant("v", current_replicas=3), replicas=replicas("v", FULL, **SIZED))

    assert chosen(full) == {"v": 8}


@pytest.mark.parametrize("sizes", [SIZED, {}])
def test_replicas_stay_while_some_of_them_have_long_queues(
    variant: Variant, replicas: Replicas, readings: Readings, sizes: dict[str, float]
) -> None:
    """Sticky sessions: two of six replicas are full, with 200 waiting each, and the others are nearly idle."""
    flow = Flow(arriving=10.0, finished=10.0, drain_s=3600.0)
    uneven = readings(
        variant("v", current_replicas=6),
        replicas=replicas("v", ".8/200, .8/200, .1/0, .1/0, .1/0, .1/0", **sizes),
        flow=flow,
    )

    assert chosen(uneven) == {"v": 6}
    assert "400 requests wait" in next(iter(size_saturation(uneven).reasons.values()))
