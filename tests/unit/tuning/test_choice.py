"""Which setting a group gets, and why it gets none."""

from collections.abc import Callable

import numpy as np
import pytest

from reconciler.domain.records import replace
from reconciler.domain.scalers import Signal
from reconciler.tuning.choice import Choice, Goal, Unchanged, Unmoved, choose
from reconciler.tuning.groups import Group, two_digits
from tests.unit.tuning.conftest import RATE, with_desired

GOAL = Goal(attainment=0.99)
Build = Callable[..., Group]


def test_a_target_far_below_capacity_is_raised_and_money_saved(group: Build) -> None:
    found = choose(group(), GOAL)
    assert isinstance(found, Choice)
    assert found.saving.low > 0.1
    assert found.left_out_after.attainment >= 0.99
    assert all(1.2 < float(each.metrics[0].target) <= 2.0 for each in found.settings.values())


def test_numbers_have_two_digits(group: Build) -> None:
    found = choose(group(), GOAL)
    assert isinstance(found, Choice)
    for setting in found.settings.values():
        value = float(setting.metrics[0].target)
        assert value == two_digits(value)


def test_the_same_history_gives_the_same_choice(group: Build) -> None:
    assert choose(group(), GOAL) == choose(group(), GOAL)


def test_too_few_days_prove_nothing(group: Build) -> None:
    found = choose(group(days=5.0), GOAL)
    assert isinstance(found, Unchanged)
    assert found.reason is Unmoved.FEW_DAYS


def test_a_fleet_that_is_not_what_ran_is_held(group: Build) -> None:
    found = choose(with_desired(group(), 2.0), GOAL)
    assert isinstance(found, Unchanged)
    assert found.reason is Unmoved.CONTRADICTED


def test_a_metric_that_is_not_known_to_follow_the_load_is_not_tuned(group: Build) -> None:
    found = choose(group(replace(RATE, signal=Signal.OTHER), at_capacity=(2.0,)), GOAL)
    assert isinstance(found, Unchanged)
    assert found.reason is Unmoved.UNKNOWN


@pytest.mark.parametrize(("number", "expected"), [(7.49, 7.5), (123.0, 120.0), (0.0723, 0.072), (1.09, 1.1), (0, 0)])
def test_rounding_keeps_two_digits(number: float, expected: float) -> None:
    assert two_digits(number) == pytest.approx(expected)


def test_rounding_down_never_rounds_up() -> None:
    for number in np.geomspace(0.01, 1000, 97).tolist():
        assert two_digits(number, rounds_down=True) <= number + 1e-12
