"""Which rule the last days would have chosen, and with which margin."""

import gc
import weakref
from typing import Any

import numpy as np
import pytest

from reconciler.forecast.forecaster import fit
from reconciler.forecast.series import DAY_S, Rates, Window
from reconciler.simulation.rehearsal import MARGINS, Rehearsal, Rules, rehearse
from tests.bench.loads import START_S, bursty, smooth

STEP_S, DAY = 600.0, 144


def rehearsed(per_s: Any, day: int = 13, goal: float = 0.99) -> Rehearsal:
    return rehearsed_of(Rates(start_s=START_S + STEP_S, step_s=STEP_S, per_s=per_s), day, goal)


def rehearsed_of(rates: Rates, day: int = 13, goal: float = 0.99) -> Rehearsal:
    models = len(rates.per_s)
    return rehearse(
        rates,
        tuple(range(models)),
        (2.0,) * models,
        Window(from_s=780.0, until_s=2340.0),
        (780.0, 360.0),
        Rules(goal=goal, headroom=0.2),
        START_S + day * DAY_S,
    )


@pytest.fixture(scope="module")
def smooth40() -> Any:
    return smooth(40).coarse(STEP_S).per_s


def test_the_same_rates_are_replayed_once_and_kept_no_longer_than_they_are_used(smooth40: Any) -> None:
    rates = Rates(start_s=START_S + STEP_S, step_s=STEP_S, per_s=smooth40.copy())
    assert rehearsed_of(rates) is rehearsed_of(rates)
    weeks = weakref.ref(rates.per_s)
    del rates
    gc.collect()
    assert weeks() is None


def test_a_day_later_only_the_new_day_of_the_trial_is_learned_from(
    smooth40: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    learned: list[float] = []

    def counted(*asked: Any) -> Any:
        learned.append(asked[3])
        return fit(*asked)

    monkeypatch.setattr("reconciler.simulation.rehearsal.fit", counted)
    rates = Rates(start_s=START_S + STEP_S, step_s=STEP_S, per_s=smooth40.copy())
    rehearsed_of(rates, day=12)
    assert len(learned) == 2 * 5, "what may be asked for and what must stay, of five days"
    later = rehearsed_of(rates, day=13)
    assert learned[10:] == [START_S + 12 * DAY_S] * 2
    assert later == rehearsed(smooth40, day=13)


def test_a_smooth_load_is_forecast_for_fewer_replicas_at_what_both_keep(smooth40: Any) -> None:
    found = rehearsed(smooth40)
    assert found.margin is not None
    assert found.gain > 0.1
    assert abs(found.coverage - 0.9) < 0.03


def test_a_higher_goal_takes_a_wider_margin(smooth40: Any) -> None:
    margins = [rehearsed(smooth40, goal=goal).margin for goal in (0.9, 0.95, 0.99, 0.996)]
    known = [margin for margin in margins if margin is not None]
    assert known == sorted(known)
    assert len(known) == 4
    assert known[0] < known[-1]


def test_no_margin_costs_more_than_the_load_of_now_did(smooth40: Any) -> None:
    found = rehearsed(smooth40, goal=0.996)
    assert found.margin is not None
    assert found.margin < MARGINS[-1]


@pytest.mark.parametrize("name", ["m_large", "m_mid", "m_small"])
def test_the_load_of_now_stays_where_no_forecast_gains(name: str) -> None:
    found = rehearsed(bursty(name=name).coarse(STEP_S).per_s, goal=0.95)
    assert found.margin is None
    assert "fewer replicas" in found.words or "more replicas" in found.words


def test_what_is_not_known_decides_nothing(smooth40: Any) -> None:
    assert rehearsed(smooth40, day=2).words == "2.0 days of history, fewer than 3"
    gaps = smooth40.copy()
    gaps[:, ::5] = np.nan
    assert rehearsed(gaps).words == "20% of the last 13 days are not known"
    assert rehearsed(smooth40[:2], day=4).words == "too few series and days to learn from"


def test_days_unlike_those_before_are_not_forecast(smooth40: Any) -> None:
    restless = smooth40.copy()
    wave = 1 + 0.9 * ((np.arange(3 * DAY) // 4) % 2)
    restless[:, 10 * DAY : 13 * DAY] *= wave
    found = rehearsed(restless)
    assert found.margin is None
    assert "drifted" in found.words
