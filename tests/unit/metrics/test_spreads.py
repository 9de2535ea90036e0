"""How far prompts differ, read off the buckets of a histogram."""

import math
import random

import pytest

from reconciler.metrics.loads import LARGEST_SPREAD, USUAL_SPREAD, WORTH, spread_of

WINDOW_S = 300.0
BOUNDS = [float(digit * 10**power) for power in range(6) for digit in (1, 2, 5)]
"""As vLLM has them."""


def buckets_of(lengths: list[float], per_s: float) -> dict[float, float]:
    each = per_s / len(lengths)
    return {bound: each * sum(length <= bound for length in lengths) for bound in (*BOUNDS, math.inf)}


@pytest.mark.parametrize("true", [0.05, 0.3, 1.0, 4.0])
def test_the_spread_of_many_requests_is_theirs(true: float) -> None:
    draw, variance = random.Random(1), math.log(1 + true)  # noqa: S311 - the same requests in every run
    lengths = [2000 * draw.lognormvariate(-variance / 2, math.sqrt(variance)) for _ in range(20_000)]
    assert spread_of(buckets_of(lengths, per_s=1e4), WINDOW_S) == pytest.approx(true, rel=0.15, abs=0.07)


def test_few_requests_say_little() -> None:
    """A spread of next to none, told by so many as the expectation weighs, counts half."""
    even = buckets_of([150.0 + index / 100 for index in range(100)], per_s=WORTH / WINDOW_S)
    assert spread_of(even, WINDOW_S) == pytest.approx(USUAL_SPREAD / 2, rel=0.1)
    few = {bound: rate / 100 for bound, rate in even.items()}
    assert spread_of(few, WINDOW_S) == pytest.approx(USUAL_SPREAD, rel=0.02)


@pytest.mark.parametrize(
    "buckets",
    [
        {},
        {100.0: 1.0},
        {math.inf: 1.0},
        {100.0: 0.0, math.inf: 0.0},
        {100.0: 2.0, 200.0: 1.0, math.inf: 2.0},
        {100.0: 1.0, math.inf: math.inf},
        {1e200: 1.0, math.inf: 2.0},
        {math.nan: 1.0},
        {-5.0: 1.0},
    ],
)
def test_buckets_that_contradict_each_other_tell_none(buckets: dict[float, float]) -> None:
    assert spread_of(buckets, WINDOW_S) is None


def test_no_spread_is_larger_than_anybody_ever_saw() -> None:
    lone = {1.0: 1e6 - 1, 1e6: 1e6, math.inf: 1e6}
    assert spread_of(lone, WINDOW_S) == pytest.approx(LARGEST_SPREAD, rel=0.01)
