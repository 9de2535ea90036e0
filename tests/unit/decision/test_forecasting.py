"""Replicas for the load that a change will serve, where a forecast has proven better than the load of now."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from reconciler.aftermerge import judge_merges, promise_of
from reconciler.decision.forecasting import Forecasts, forecast_loads
from reconciler.decision.formulation import ModelDemand
from reconciler.decision.load_variation import LoadForecast, StabilizedDemand
from reconciler.domain.history import DemandHistory
from reconciler.domain.holds import HoldKind
from reconciler.domain.identity import ModelKey
from reconciler.domain.proposals import ProposalState
from reconciler.domain.settings import Event
from reconciler.forecast.series import Window
from tests.bench.loads import START_S, Offered, bursty, smooth
from tests.unit.decision.conftest import CLUSTER, DAY_S, NAMESPACE, Fleet, Make, key, new_fleet, service_class

STEP_S, MODELS = 600.0, 24
SCALE = 5.0
"""The made load is for replicas of 2 requests a second; a replica of this fleet carries 9.99."""
HOUR_S = 3600.0
MONDAY_9 = START_S + 14 * DAY_S + 9 * 3600.0


def model_of(number: int) -> ModelKey:
    return ModelKey(cluster=CLUSTER, namespace=NAMESPACE, model_id=f"m{number}")


def offered(load: Offered) -> Any:
    """Rates of models by step of ten minutes."""
    return load.coarse(STEP_S).per_s * SCALE


@pytest.fixture(scope="module")
def smooth_load() -> Any:
    return offered(smooth(models=MODELS, days=15))


def fleet_under(rates: Any, now_s: float, *, since_s: float = START_S) -> Fleet:
    """A fleet whose models get these rates, and that knows what came before now; the array says what comes after."""
    fleet = new_fleet()
    fleet.now_s = now_s
    fleet.default(headroom=0.2, **{"actuationDelay.merge": 600.0, "actuationDelay.start": 360.0})
    index = round((now_s - START_S) / STEP_S) - 1
    history = DemandHistory(
        models=tuple(model_of(number) for number in range(len(rates))),
        start_s=START_S + STEP_S,
        step_s=STEP_S,
        per_s=np.where(START_S + STEP_S * np.arange(1, rates.shape[1] + 1) > since_s, rates, np.nan),
    )
    fleet.observed = replace(fleet.observed, demand=(history,))
    for number in range(len(rates)):
        now = float(rates[number, index])
        fleet.add(f"m{number}", model_id=f"m{number}", replicas=math.ceil(now * 1.2 / 9.99))
        fleet.offer(now, f"m{number}")
        hour = tuple(np.repeat(rates[number, index - 6 : index + 1], 10)[-61:].tolist())
        fleet.remember(*hour, model_id=f"m{number}")
    return fleet


def forecasts(fleet: Fleet, capacity: float = 9.99) -> Forecasts:
    """What is forecast of the fleet."""
    members: dict[ModelKey, list[Any]] = {}
    for variant in fleet.variants():
        members.setdefault(variant.model, []).append(variant)
    return forecast_loads(fleet.snapshot(), members, dict.fromkeys(members, capacity))


def test_a_smooth_fleet_gets_what_will_arrive_and_less_than_a_headroom_of_now(smooth_load: Any) -> None:
    fleet = fleet_under(smooth_load, MONDAY_9)
    found = forecasts(fleet)
    assert not found.why_not
    index = round((MONDAY_9 - START_S) / STEP_S) - 1
    will_be = smooth_load[:, index + 2 : index + 4].max(axis=1)
    quantiles = np.array([found.of[model_of(number)].quantiles[0.9] for number in range(MODELS)])
    asked = np.array([found.of[model_of(number)].grow_per_s for number in range(MODELS)])
    assert np.mean(quantiles >= will_be) > 0.75
    assert np.mean(asked >= 0.95 * will_be) > 0.9
    assert quantiles.sum() < 1.06 * will_be.sum()
    assert asked.sum() < 1.2 * will_be.sum()
    decisions = fleet.plan().decisions
    steps = [step for each in decisions for step in each.steps if step.stage == "demand"]
    assert all(step.reason.startswith("load expected between 09:10 and 09:30 UTC: at most ") for step in steps)
    assert "for 99 % inside the targets" in steps[0].reason
    assert "one in a hundred above" in steps[0].reason


def test_what_comes_later_changes_nothing(smooth_load: Any) -> None:
    now = forecasts(fleet_under(smooth_load, MONDAY_9))
    changed = smooth_load.copy()
    changed[:, round((MONDAY_9 - START_S) / STEP_S) :] *= 7
    later = forecasts(fleet_under(changed, MONDAY_9))
    assert now == later
    unknown = smooth_load[:, : round((MONDAY_9 - START_S) / STEP_S)]
    assert forecasts(fleet_under(unknown, MONDAY_9)) == now


def test_the_same_history_gives_the_same_plan(smooth_load: Any) -> None:
    assert fleet_under(smooth_load, MONDAY_9).plan() == fleet_under(smooth_load.copy(), MONDAY_9).plan()


def test_nothing_goes_that_the_next_hour_may_need(smooth_load: Any) -> None:
    fleet = fleet_under(smooth_load, MONDAY_9)
    found = forecasts(fleet)
    for each in found.of.values():
        assert each.keep_per_s >= each.grow_per_s
    number = max(range(MODELS), key=lambda each: found.of[model_of(each)].grow_per_s)
    forecast = found.of[model_of(number)]
    kept = math.ceil(forecast.keep_per_s / 9.99)
    fleet.set_replicas(f"m{number}", kept + 9)
    decision = fleet.decision(f"m{number}")
    assert decision.desired.replicas == kept


def test_a_price_is_held_against_how_often_a_replica_is_needed(smooth_load: Any, make: Make) -> None:
    """A replica costs 6 an hour and carries 9.99 requests a second: at full use one is worth 6 / 35,964 a request."""
    fleet = fleet_under(smooth_load, MONDAY_9)
    fleet.price(H100=6.0)
    number = max(range(MODELS), key=lambda each: smooth_load[each].mean())
    forecast = forecasts(fleet).of[model_of(number)]
    fleet.set_replicas(f"m{number}", 1)

    def replicas(times: float) -> int:
        """Those where a request is worth so many times as much."""
        worth = times * 6.0 / (9.99 * HOUR_S)
        fleet.set(service_classes=(make.service_class(unserved_cost_per_request=worth),))
        return int(fleet.decision(f"m{number}").desired.replicas)

    low, high, rare = (math.floor(forecast.quantiles[level] / 9.99) for level in (0.25, 0.75, 0.9))
    assert replicas(1.2) == low
    assert replicas(2.5) in (high, high + 1)
    assert rare <= replicas(6.5) <= math.ceil(forecast.grow_per_s / 9.99)
    assert replicas(1000.0) == math.ceil(forecast.grow_per_s / 9.99)


def test_what_waits_is_certain_whatever_the_price() -> None:
    """It is there: only what is forecast may stay away."""
    forecast = LoadForecast(
        grow_per_s=160.0,
        keep_per_s=160.0,
        quantiles={0.25: 60.0, 0.75: 80.0, 0.9: 100.0, 0.99: 120.0},
        window=Window(from_s=600.0, until_s=1800.0),
        margin=1.1,
        goal=0.99,
        at_s=0.0,
        days=5.0,
        moved_by=(),
        why="",
        covered=None,
        covered_of_all=0.9,
        waiting_per_s=50.0,
    )
    stabilized = StabilizedDemand(amount_per_s=160.0, kept_per_s=160.0)
    demand = ModelDemand(rate_per_s=160.0, headroom=0.0, stabilized=stabilized, forecast=forecast)
    assert [(each.amount, round(each.probability, 3)) for each in demand.segments(1.0)] == [
        (110.0, 1.0),
        (20.0, 0.5),
        (20.0, 0.175),
        (10.0, 0.1),
    ]


def test_of_what_a_merge_added_few_do_not_go_for_three_hours(smooth_load: Any, make: Make) -> None:
    fleet = fleet_under(smooth_load, MONDAY_9)
    kept = math.ceil(forecasts(fleet).of[model_of(0)].keep_per_s / 9.99)
    fleet.set_replicas("m0", kept + 1)
    assert fleet.decision("m0").desired.replicas == kept
    added = make.change("m0", "1 x H100", f"{kept + 1} x H100")
    fleet.propose(added, state=ProposalState.MERGED, closed_at_s=MONDAY_9 - 40 * 60)
    decision = fleet.decision("m0")
    assert decision.desired.replicas == kept + 1
    words = "kept: replicas were added 40m ago: fewer than 25% of all, or than 2, do not go for 3h"
    assert any(step.reason == words for step in decision.steps)
    fleet.proposals[:] = [replace(fleet.proposals[0], closed_at_s=MONDAY_9 - 3 * 3600)]
    assert fleet.decision("m0").desired.replicas == kept


def test_more_replicas_come_while_the_last_ones_start(smooth_load: Any) -> None:
    fleet = fleet_under(smooth_load, MONDAY_9)
    variant = key("m0")
    needed = math.ceil(forecasts(fleet).of[model_of(0)].grow_per_s / 9.99)
    fleet.set_replicas("m0", needed - 1)
    fleet.observations[variant] = replace(fleet.observations[variant], replicas_reporting=needed - 2)
    fleet.committed_s = MONDAY_9 - 60
    assert fleet.decision("m0").desired.replicas == needed
    fleet.observed = replace(fleet.observed, unschedulable={variant: 1})
    holds = [fleet.decision("m0").hold]
    fleet.observed = replace(fleet.observed, unschedulable={}, demand=())
    fleet.offer(10.0 * needed, "m0")
    holds.append(fleet.decision("m0").hold)
    assert [hold and hold.kind for hold in holds] == [HoldKind.GROWTH_UNPROVEN] * 2


def test_after_the_merge_it_is_told_what_came_of_what_was_expected(smooth_load: Any, make: Make) -> None:
    before = fleet_under(smooth_load, MONDAY_9 - HOUR_S)
    before.set_replicas("m0", 1)
    plan = before.plan()
    promise = promise_of(before.decision("m0"), plan.expected[model_of(0)])
    assert promise.expected_since_s == MONDAY_9 - HOUR_S + 600.0
    after = round(promise.expected_until_s or 0.0)

    def outcomes(now_s: float, rates: Any) -> list[str]:
        fleet = fleet_under(rates, now_s, since_s=now_s - DAY_S)
        fleet.set_replicas("m0", 20)
        fleet.observations[key("m0")] = replace(fleet.observations[key("m0")], replicas_reporting=20)
        change = make.change("m0", "1 x H100", "20 x H100")
        fleet.propose(
            replace(change, resource=promise.resource),
            promises=(promise,),
            state=ProposalState.MERGED,
            closed_at_s=MONDAY_9 - HOUR_S,
        )
        found = judge_merges(fleet.snapshot(), fleet.plan())
        return [each.words for outcome in found for each in outcome.changes]

    assert outcomes(after - 600.0, smooth_load) == []
    (words,) = outcomes(after + 600.0, smooth_load)
    first, last = (round((each - START_S) / STEP_S) for each in (promise.expected_since_s or 0.0, after))
    came, most = smooth_load[0, first:last].max(), promise.expected_per_s
    told = f"{came:.3g} req/s at most arrived between 08:10 and 08:30 UTC"
    assert f"{told}, at most {most:.3g} were expected, nine times in ten" in words
    gaps = smooth_load.copy()
    gaps[0, first] = np.nan
    assert "were expected" not in outcomes(after + 600.0, gaps)[0]


def test_many_go_although_some_were_added_lately(smooth_load: Any, make: Make) -> None:
    fleet = fleet_under(smooth_load, MONDAY_9)
    kept = math.ceil(forecasts(fleet).of[model_of(0)].keep_per_s / 9.99)
    many = 2 * kept + 2
    fleet.set_replicas("m0", many)
    fleet.propose(
        make.change("m0", f"{kept} x H100", f"{many} x H100"),
        state=ProposalState.MERGED,
        closed_at_s=MONDAY_9 - 40 * 60,
    )
    assert fleet.decision("m0").desired.replicas == kept


@pytest.mark.parametrize("is_forecast", [True, False])
def test_replicas_are_there_when_an_event_begins(smooth_load: Any, *, is_forecast: bool) -> None:
    fleet = fleet_under(smooth_load, MONDAY_9)
    if not is_forecast:
        fleet.observed = replace(fleet.observed, demand=())
    without = fleet.decision("m0").desired.replicas

    def planned(from_min: float, until_min: float, model: str = "m0") -> int:
        event = Event(
            name="launch",
            model=model,
            from_s=MONDAY_9 + 60 * from_min,
            until_s=MONDAY_9 + 60 * until_min,
            factor=3.0,
        )
        fleet.set(events=(event,))
        return fleet.decision("m0").desired.replicas

    assert 3 * (without - 1) < planned(25, 300) <= 3 * without
    words = next(step.reason for step in fleet.decision("m0").steps if step.stage == "demand")
    assert words.endswith("event launch: 3 times as much")
    assert planned(300, 600) == planned(-60, -10) == planned(25, 300, model="m1") == without
    assert planned(-60, 300) == without  # it is in the load of now


@pytest.mark.parametrize(
    ("since_s", "words"),
    [
        (START_S + 12 * DAY_S, "too few series and days to learn from"),
    ],
)
def test_the_load_of_now_decides_where_little_is_known(smooth_load: Any, since_s: float, words: str) -> None:
    fleet = fleet_under(smooth_load, MONDAY_9, since_s=since_s)
    found = forecasts(fleet)
    assert not found.of
    assert "not known" in next(iter(found.why_not.values())) or words in found.why_not.values()
    fleet_now = fleet_under(smooth_load, MONDAY_9)
    fleet_now.observed = replace(fleet_now.observed, demand=())
    assert [each.desired for each in fleet.plan().decisions] == [each.desired for each in fleet_now.plan().decisions]


def test_the_load_of_now_decides_on_a_bursty_fleet() -> None:
    found = forecasts(fleet_under(offered(bursty()), START_S + 13 * DAY_S + 9 * 3600.0))
    assert not found.of
    assert "a forecast would have needed" in found.why_not[model_of(0)]


def test_a_class_that_promises_more_gets_more(smooth_load: Any) -> None:
    fleet = fleet_under(smooth_load, MONDAY_9)
    less = forecasts(fleet).of[model_of(3)]
    fleet.set(service_classes=(service_class(attainment=0.95),))
    assert forecasts(fleet).of[model_of(3)].grow_per_s < less.grow_per_s


def test_a_run_between_two_moments_of_the_grid_knows_the_last_minutes(smooth_load: Any) -> None:
    fleet = fleet_under(smooth_load, MONDAY_9)
    before = forecasts(fleet).of[model_of(0)]
    rates = fleet.past[model_of(0)].rates_per_s
    fleet.now_s += 300.0
    fleet.remember(*(2 * rates).tolist(), model_id="m0")
    assert forecasts(fleet).of[model_of(0)].grow_per_s > 1.3 * before.grow_per_s
