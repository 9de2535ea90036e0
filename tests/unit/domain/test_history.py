"""Series over time as arrays: put together, added up, divided."""

import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from reconciler.domain.history import (
    CONTRADICTED,
    NOTHING,
    Bools,
    Floats,
    Grid,
    History,
    LoadHistory,
    added,
    agreed,
    grid_of,
    known_lengths,
    moments_of,
    ratio,
)

NAN = math.nan
Row = Sequence[float]


def history(moments: int = 3) -> History[str]:
    return History(times_s=np.arange(float(moments)))


def rows(*values: Row) -> Floats:
    return np.array(values, dtype=np.float64)


def numbers(values: Floats | None) -> list[float | None]:
    """None for NaN, which differs from itself."""
    assert values is not None
    return [None if math.isnan(value) else value for value in values.tolist()]


def summed(*values: Row, is_net: bool = False) -> list[float | None]:
    of = history(len(values[0]))
    names = [f"s{number}" for number in range(len(values))]
    of.add(names, rows(*values), 0, added)
    sums, is_any = of.summed([names], is_net=is_net)
    assert is_any.tolist() == [True]
    return numbers(sums[0])


def test_a_time_has_the_index_of_the_moment_that_it_is_near() -> None:
    grid = Grid(start_s=60.0, step_s=60.0, count=3)
    times_s = [60.0, 120.5, 120.7, 180.0, 0.0, 240.0, NAN, math.inf, -math.inf, 1e308]
    assert grid.places(np.array(times_s)).tolist() == [0, 1, -1, 2, -1, -1, -1, -1, -1, -1]


def test_moments_of_several_grids_need_not_be_evenly_spaced() -> None:
    day, week_ago = grid_of(1200.0, 2400.0, 600.0), grid_of(0.0, 600.0, 600.0)
    assert moments_of([day, week_ago]).tolist() == [0.0, 600.0, 1200.0, 1800.0, 2400.0]
    assert moments_of([]).tolist() == []


def test_blocks_of_one_owner_are_put_together_by_time() -> None:
    of = history()
    of.add(["a", "b"], rows([1.0, 2.0], [3.0, NAN]), 0, agreed)
    of.add(["c", "a"], rows([4.0], [5.0]), 2, agreed)
    assert [numbers(of.of(name)) for name in "abc"] == [[1.0, 2.0, 5.0], [3.0, None, None], [None, None, 4.0]]
    assert of.of("d") is None


def test_rows_of_nobody_are_left_out() -> None:
    of = history(1)
    of.add([None, "a", None], rows([1.0], [2.0], [3.0]), 0, added)
    assert (of.rows, of.values.tolist()) == ({"a": 0}, [[2.0]])


def test_several_series_of_one_owner_are_added_or_must_agree() -> None:
    block = rows([1.0, NAN, 3.0], [1.0, 2.0, NAN], [5.0, NAN, 1.0])
    for join, expected in ((added, [7.0, 2.0, 4.0]), (agreed, [CONTRADICTED, 2.0, CONTRADICTED])):
        of = history()
        of.add(["a", "a", "a"], block, 0, join)
        assert numbers(of.of("a")) == expected


def test_thousands_of_series_of_one_owner_are_added() -> None:
    of = history(2)
    of.add(["a", "b"] * 5000, np.ones((10_000, 2)), 0, added)
    assert of.values.tolist() == [[5000.0, 5000.0], [5000.0, 5000.0]]


def test_a_series_before_its_birth_is_no_gap_and_a_gap_makes_the_sum_unknown() -> None:
    assert summed([4.0, 4.0, 4.0, 4.0], [NAN, 1.0, NAN, 1.0]) == [4.0, 5.0, None, 5.0]
    assert summed([NAN, NAN, 4.0], [NAN, 1.0, 1.0]) == [None, 1.0, 5.0]


@pytest.mark.parametrize("value", [-1.0, 1e12, math.inf, -math.inf])
def test_what_cannot_be_reckoned_with_is_not_known(value: float) -> None:
    assert summed([4.0, value]) == [4.0, None]
    assert summed([4.0, value], [1.0, 1.0]) == [5.0, None]


def test_a_net_sum_may_be_negative() -> None:
    assert summed([-4.0, 1.0], [1.0, -1e12], is_net=True) == [-3.0, None]


def test_a_group_without_any_series_has_none() -> None:
    of = history(2)
    of.add(["a"], rows([1.0, 2.0]), 0, added)
    sums, is_any = of.summed([["b"], ["a", "b"], []])
    assert is_any.tolist() == [False, True, False]
    assert [numbers(each) for each in sums] == [[None, None], [1.0, 2.0], [None, None]]


@given(st.lists(st.lists(st.floats(0, 1e11), min_size=4, max_size=4), min_size=1, max_size=6))
@hypothesis_settings(deadline=None)
def test_a_sum_is_the_exact_one_rounded(values: list[list[float]]) -> None:
    exact = [math.fsum(column) for column in zip(*values, strict=True)]
    assert summed(*values) == pytest.approx(exact, rel=3e-16, abs=0)


@given(st.lists(st.floats(0, 1e11), min_size=2, max_size=2))
@hypothesis_settings(deadline=None)
def test_a_sum_of_two_is_the_exact_one(values: list[float]) -> None:
    assert summed(values[:1], values[1:]) == [math.fsum(values)]


def test_a_ratio_is_unknown_where_the_divisor_is_not_above_zero() -> None:
    parts, wholes = rows([4.0, 4.0, 4.0, NAN, 0.0]), rows([2.0, 0.0, NAN, 1.0, 2.0])
    assert numbers(ratio(parts, wholes)[0]) == [2.0, None, None, None, 0.0]


ODD_LENGTHS = st.sampled_from([math.nan, math.inf, -1.0, 0.0, 3.0, 40.0, 500.0])


@given(
    st.lists(st.lists(ODD_LENGTHS, min_size=4, max_size=4), min_size=1, max_size=5),
    st.lists(st.floats(0, 5), min_size=5, max_size=5),
)
def test_lengths_of_many_are_those_of_each(rows: list[list[float]], until_s: list[float]) -> None:
    times = [np.arange(4, dtype=np.float64), np.arange(4, dtype=np.float64) / 2]  # of two clusters
    histories = {
        number: LoadHistory(
            times_s=times[number % 2], step_s=1.0, window_s=1.0, rates_per_s=NOTHING, output_tokens=np.array(row)
        )
        for number, row in enumerate(rows)
    }
    histories[99] = LoadHistory(times_s=times[0], step_s=1.0, window_s=1.0, rates_per_s=NOTHING)

    def is_before(times_s: Floats, owners: Sequence[int]) -> Bools:
        return np.asarray(times_s < np.array([[until_s[owner]] for owner in owners]))

    told = {
        owner: [
            length
            for time_s, length in zip(each.times_s, each.output_tokens, strict=False)
            if time_s < until_s[owner] and 0 < length < math.inf
        ]
        for owner, each in histories.items()
        if owner != 99
    }
    expected = {owner: (min(lengths), max(lengths)) for owner, lengths in told.items() if lengths}
    assert known_lengths(histories, lambda each: each.output_tokens, is_before) == expected
