"""Which setting a group gets, and why it gets none."""

import math
from collections.abc import Callable

import numpy as np
import pytest

from reconciler.domain.metric_targets import DEFAULT_BEHAVIOR
from reconciler.domain.records import replace
from reconciler.domain.scalers import DOWN, AutoscalerSetting, Behavior, Controller, Signal
from reconciler.tuning.choice import SLOW, Choice, Goal, Unchanged, Unmoved, _Search, _Variant, choose
from reconciler.tuning.groups import Group, alike, two_digits
from reconciler.tuning.trial import Request, recorded_days, run
from tests.unit.tuning.conftest import RATE, RUNNING, WAITING, daily, target, with_desired

GOAL = Goal(attainment=0.99)
Build = Callable[..., Group]


def test_a_target_far_below_capacity_is_raised_and_money_saved(group: Build) -> None:
    (found,) = choose([(group(), GOAL)])
    assert isinstance(found, Choice)
    assert found.saving.low > 0.1
    assert found.left_out_after.attainment >= 0.99
    assert all(1.2 < float(each.metrics[0].target) <= 2.0 for each in found.settings.values())


def test_numbers_have_two_digits(group: Build) -> None:
    (found,) = choose([(group(), GOAL)])
    assert isinstance(found, Choice)
    for setting in found.settings.values():
        value = float(setting.metrics[0].target)
        assert value == two_digits(value)


def test_the_same_history_gives_the_same_choice(group: Build) -> None:
    assert choose([(group(), GOAL)]) == choose([(group(), GOAL)])


def test_a_target_that_is_rounded_up_is_chosen_whole() -> None:
    assert [two_digits(each, is_whole=True) for each in (0.4, 5.6, 17.4, 123.0)] == [1.0, 6.0, 17.0, 120.0]
    assert two_digits(5.6, is_whole=True, rounds_down=True) == 5.0


def test_groups_chosen_for_together_are_as_each_alone(group: Callable[..., Group]) -> None:
    cases = [
        (group(), GOAL),
        (group(days=9.0), Goal(attainment=0.95, has_tolerance=True)),
        (group(replace(RUNNING, target=26.0)), GOAL),
        (group(days=5.0), GOAL),
    ]
    assert choose(cases) == [found for case in cases for found in choose([case])]


def test_windows_that_differ_by_setting_and_target_are_simulated_as_each_alone(group: Build) -> None:
    days = recorded_days(group(days=3.0))
    setting = days.group.targets[0].setting
    settings = [
        [replace(setting, behavior=Behavior(down=replace(DOWN, window_s=window_s))) for window_s in windows]
        for windows in ((300.0, 900.0), (60.0, 300.0), (1800.0, 1800.0), (900.0, 60.0), (300.0, 0.0))
    ]
    three, five = [Request(days=days, settings=settings[:count], seed=1) for count in (3, 5)]

    together = run([three, five])
    alone = [run([Request(days=days, settings=[each], seed=1)])[0] for each in settings]

    for name in ("kept", "cost", "starts"):
        expected = np.concatenate([getattr(each, name) for each in alone])
        assert getattr(together[1], name).tolist() == expected.tolist()
        assert getattr(together[0], name).tolist() == expected[:3].tolist()


@pytest.mark.parametrize("floors", [{}, {"least_allowed": 2.0}])
def test_what_was_tried_coarsely_is_not_simulated_again(group: Build, floors: dict[str, float]) -> None:
    built = group(days=3.0, **floors)
    if floors:
        lifted = [replace(each, setting=replace(each.setting, least=8)) for each in built.targets]
        built = Group(targets=tuple(lifted))
    days = recorded_days(built)
    search = _Search(built, days, len(days.begin_s), GOAL)
    sweep = search._swept(0.995)

    first = next(sweep)
    coarse = run([first])[0]
    second = sweep.send(coarse)
    with pytest.raises(StopIteration) as ended:
        sweep.send(run([second])[0])

    tried, trial = ended.value.value
    assert second.settings
    assert not [each for each in second.settings if each in first.settings]
    assert len(second.settings) < len(tried)
    alone = run([search._request(days, tried)])[0]
    for name in ("offered", "kept", "cost", "starts"):
        assert getattr(trial, name).tolist() == getattr(alone, name).tolist()


def test_too_few_days_prove_nothing(group: Build) -> None:
    (found,) = choose([(group(days=5.0), GOAL)])
    assert isinstance(found, Unchanged)
    assert found.reason is Unmoved.FEW_DAYS


def test_a_fleet_that_is_not_what_ran_is_held(group: Build) -> None:
    (found,) = choose([(with_desired(group(), 2.0), GOAL)])
    assert isinstance(found, Unchanged)
    assert found.reason is Unmoved.CONTRADICTED


def test_a_metric_that_is_not_known_to_follow_the_load_is_not_tuned(group: Build) -> None:
    (found,) = choose([(group(replace(RATE, signal=Signal.OTHER), at_capacity=(2.0,)), GOAL)])
    assert isinstance(found, Unchanged)
    assert found.reason is Unmoved.UNKNOWN


def test_waiting_requests_alone_give_way_to_the_arrival_rate(group: Build) -> None:
    (search,) = choose([(with_desired(group(WAITING), 5.8), GOAL)])  # it cycles: nobody waits or hundreds do
    assert isinstance(search, Choice)
    assert all(each.metrics[0].signal is Signal.ARRIVALS for each in search.settings.values())
    assert search.steps[1].words == "scaled by arrival rate"
    assert search.left_out_before.attainment < 0.6
    assert search.repairs


def test_a_metric_that_saturates_shrinks_slowly(group: Build) -> None:
    (found,) = choose([(with_desired(group(replace(RUNNING, target=26.0)), 0.7), GOAL)])
    assert isinstance(found, Choice)
    assert all(
        isinstance(each.behavior, Behavior) and each.behavior.down.policies == (SLOW,)
        for each in found.settings.values()
    )
    assert found.left_out_after.starts_per_day < found.left_out_before.starts_per_day


@pytest.mark.parametrize("controller", [Controller.SCALED_OBJECT, Controller.POLICY])
def test_other_controllers_are_tuned_as_well(group: Build, controller: Controller) -> None:
    behavior = DEFAULT_BEHAVIOR if controller is Controller.POLICY else None
    setting = AutoscalerSetting(controller=controller, metrics=(RATE,), most=1000, behavior=behavior)
    (found,) = choose([(group(setting=setting), GOAL)])
    assert isinstance(found, Choice)
    for each in found.settings.values():
        assert each.controller is controller
        assert 1.2 < float(each.metrics[0].target) <= 2.0


def test_floors_of_more_than_two_that_cost_are_lowered(group: Build) -> None:
    setting = AutoscalerSetting(controller=Controller.HPA, metrics=(RATE,), least=14, most=1000)
    (found,) = choose([(with_desired(group(setting=setting, least_allowed=1), 1.15), GOAL)])
    assert isinstance(found, Choice)
    assert {each.least for each in found.settings.values()} == {2.0}
    assert found.steps[-1].words == "lower floors"


def test_what_all_have_already_is_no_step(group: Build) -> None:
    """The chosen window is of half an hour: where that is what they have, only the target changes."""
    steps = {}
    for window_s in (300.0, 1800.0):
        behavior = Behavior(down=replace(DOWN, window_s=window_s))
        setting = AutoscalerSetting(controller=Controller.HPA, metrics=(RATE,), most=1000, behavior=behavior)
        (found,) = choose([(group(setting=setting), GOAL)])
        assert isinstance(found, Choice)
        assert {float(each.window_s) for each in found.settings.values()} == {1800.0}
        steps[window_s] = [each.words for each in found.steps]
    assert steps == {
        300.0: ["as it is", "scale-down window 30 min", "target"],
        1800.0: ["as it is", "target"],
    }


def test_floors_that_nobody_would_write_are_not_counted_as_lowered(group: Build) -> None:
    """What is proposed is simulated: whose bounds stay saves only what its target and window save."""
    setting = AutoscalerSetting(controller=Controller.HPA, metrics=(RATE,), least=14, most=1000)
    (found,) = choose([(with_desired(group(setting=setting), 1.15), GOAL)])
    settings = found.settings.values() if isinstance(found, Choice) else ()
    assert all(each.least == 14 for each in settings)
    assert all("floors" not in each.words for each in found.frontier)


def test_a_ceiling_that_binds_is_raised_as_far_as_allowed(group: Build) -> None:
    setting = AutoscalerSetting(controller=Controller.HPA, metrics=(RATE,), most=6)
    (found,) = choose([(with_desired(group(setting=setting, most_allowed=100), 0.5), GOAL)])
    assert isinstance(found, Choice)
    assert found.repairs
    assert all(6 < each.most < 30 for each in found.settings.values())


def test_a_floor_that_the_days_left_out_need_stays(group: Build, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is proven on the days to choose on alone does not take away what a person wrote."""
    monkeypatch.setattr("reconciler.tuning.choice._Search._needs_no_floor", lambda *_, reaches: not reaches)
    setting = AutoscalerSetting(controller=Controller.HPA, metrics=(RATE,), least=14, most=1000)
    (found,) = choose([(with_desired(group(setting=setting, least_allowed=1), 1.15), GOAL)])
    settings = found.settings.values() if isinstance(found, Choice) else ()
    assert all(each.least == 14 for each in settings)


@pytest.mark.parametrize("least", [0, 1, 2])
def test_a_floor_of_two_or_less_stays(group: Build, least: int) -> None:
    setting = AutoscalerSetting(controller=Controller.HPA, metrics=(RATE,), least=least, most=1000)
    (found,) = choose([(group(setting=setting, least_allowed=0), GOAL)])
    assert isinstance(found, Choice)
    assert {each.least for each in found.settings.values()} == {least}


def test_a_ceiling_that_was_never_reached_stays(group: Build) -> None:
    """Room for a quarter more than ever came is given where a ceiling moves, and is no reason to move it."""
    peaks = [float(np.ceil(each.history.offered_per_s.max() / 1.2)) + 1 for each in group().targets]
    setting = AutoscalerSetting(controller=Controller.HPA, metrics=(RATE,), most=max(peaks))
    (found,) = choose([(group(setting=setting, most_allowed=1000), GOAL)])
    assert isinstance(found, Choice)
    assert {each.most for each in found.settings.values()} == {max(peaks)}
    assert set(found.most_wanted.values()) == {max(peaks)}


def test_a_ceiling_that_may_not_be_raised_is_told(group: Build) -> None:
    setting = AutoscalerSetting(controller=Controller.HPA, metrics=(RATE,), most=6)
    (found,) = choose([(with_desired(group(setting=setting, most_allowed=20), 0.5), GOAL)])
    assert isinstance(found, Choice)
    assert max(each.most for each in found.settings.values()) == 20
    assert max(found.most_wanted.values()) > 20


def test_a_target_with_a_behavior_is_apart_from_one_without(group: Build) -> None:
    first, second = group().targets
    behavior = Behavior(down=replace(DOWN, window_s=1800.0))
    other = replace(second, setting=replace(second.setting, behavior=behavior))
    groups = list(alike((first, other), ("chat", "chat")))
    assert [len(each.targets) for each in groups] == [1, 1]


def test_classes_and_bursty_loads_are_apart(group: Build) -> None:
    first, second = group().targets
    bursty = replace(second, history=replace(second.history, offered_per_s=daily(8.0, noise=0.6)))
    assert len(list(alike((first, second), ("chat", "batch")))) == 2
    assert len(list(alike((first, second), ("chat", "chat")))) == 1
    assert len(list(alike((first, bursty), ("chat", "chat")))) == 2


@pytest.mark.parametrize(("number", "expected"), [(7.49, 7.5), (123.0, 120.0), (0.0723, 0.072), (1.09, 1.1), (0, 0)])
def test_rounding_keeps_two_digits(number: float, expected: float) -> None:
    assert two_digits(number) == pytest.approx(expected)


def test_rounding_down_never_rounds_up() -> None:
    for number in np.geomspace(0.01, 1000, 97).tolist():
        assert two_digits(number, rounds_down=True) <= number + 1e-12


@pytest.mark.parametrize(
    ("noise", "dearer", "window_s"), [(0.5, 0.029, 3600.0), (0.5, 0.031, 1800.0), (0.03, 0.029, 1800.0)]
)
def test_of_what_costs_the_same_on_a_bursty_load_the_longest_window_is_taken(
    noise: float, dearer: float, window_s: float
) -> None:
    """Bursts of another week come back within it; a smooth load gets the cheapest."""
    bursty = Group(targets=(target(daily(7.0, noise=noise)),))
    search = _Search(bursty, recorded_days(bursty), 5, GOAL)
    tried = [_Variant(words="", shares=np.ones((1, 1)), window_s=each) for each in (300.0, 1800.0, 3600.0)]
    row = search._cheapest(tried, np.array([math.inf, 100.0, 100.0 * (1 + dearer)]))
    assert tried[row].window_s == window_s
