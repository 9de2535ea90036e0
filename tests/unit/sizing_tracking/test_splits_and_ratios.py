"""What holds for every split of a group and every ratio of two roles."""

from collections.abc import Callable

import numpy as np
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from reconciler.domain.metric_targets import Backend, RatioRange
from reconciler.sizing.tracking import track
from reconciler.sizing.tracking_loads import TRACKING, Target, distribute, keep_at_least, scaling_order
from reconciler.sizing.tracking_replay import RoleBounds, RolePair, repair_exactly


@st.composite
def backends(draw: st.DrawFn) -> tuple[Backend, ...]:
    sizes = draw(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 8), st.integers(0, 200)), min_size=1, max_size=4))
    return tuple(
        Backend(name=str(index), min_replicas=least, max_replicas=least + room, cost=cost)
        for index, (least, room, cost) in enumerate(sizes)
    )


@given(backends(), st.integers(0, 400), st.integers(-3, 70))
def test_a_split_adds_up_and_grows_without_taking_anything_away(
    params: tuple[Backend, ...], rate: int, total: int
) -> None:
    order = scaling_order(params, rate)
    split, larger = distribute(params, order, total), distribute(params, order, total + 1)
    least, most = sum(each.min_replicas for each in params), sum(each.max_replicas for each in params)
    assert sum(split) == min(max(total, least), most)
    assert all(each.min_replicas <= count <= each.max_replicas for each, count in zip(params, split, strict=True))
    assert all(before <= after for before, after in zip(split, larger, strict=True))


@given(backends(), st.integers(0, 100), st.integers(0, 70))
def test_below_a_hundred_percent_the_cheapest_fills_first(params: tuple[Backend, ...], rate: int, total: int) -> None:
    at_most, exactly = scaling_order(params, rate), scaling_order(params, 100)
    assert distribute(params, at_most, total) == distribute(params, exactly, total)


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=4))
def test_what_is_kept_is_never_below_its_floor(pairs: list[tuple[int, int]]) -> None:
    split, floor = [wanted for wanted, _ in pairs], [least for _, least in pairs]
    kept = keep_at_least(split, floor)
    assert all(count >= least for count, least in zip(kept, floor, strict=True))
    assert sum(kept) == max(sum(split), sum(floor))


bounds = st.builds(
    lambda n, n_room, d, d_room: RoleBounds(numerator=(n, n + n_room), denominator=(d, d + d_room)),
    st.integers(0, 6),
    st.integers(1, 10),
    st.integers(0, 6),
    st.integers(1, 10),
)
ratios = st.tuples(st.integers(0, 40), st.integers(1, 40)).map(
    lambda ends: RatioRange(minimum=min(ends) / 10, maximum=max(ends) / 10)
)


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 20), st.integers(0, 20), bounds, ratios)
def test_a_repair_takes_least_then_adds_least_of_all_pairs_that_keep_the_ratio(
    n: int, d: int, limits: RoleBounds, ratio: RatioRange
) -> None:
    start = limits.clip(n, d)
    assume(start.numerator > 0 and start.denominator > 0)
    got = repair_exactly(n, d, limits, ratio)

    def price(pair: tuple[int, int]) -> tuple[int, int]:
        moves = (pair[0] - start.numerator, pair[1] - start.denominator)
        return sum(max(-move, 0) for move in moves), sum(max(move, 0) for move in moves)

    low, high = round(ratio.minimum * 10), round(ratio.maximum * 10)
    possible = [
        (numerator, denominator)
        for numerator in range(max(limits.numerator[0], 1), limits.numerator[1] + 1)
        for denominator in range(max(limits.denominator[0], 1), limits.denominator[1] + 1)
        if low * denominator <= 10 * numerator <= high * denominator
    ]
    if not possible:
        assert got.reason
    else:
        assert (got.numerator, got.denominator) in possible
        assert price((got.numerator, got.denominator)) == min(map(price, possible))


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.tuples(st.floats(0.0, 250.0), st.floats(0.0, 250.0)), min_size=5, max_size=5), st.integers(1, 9), ratios
)
def test_two_roles_always_keep_their_ratio(
    make_target: Callable[..., Target], loads: list[tuple[float, float]], count: int, ratio: RatioRange
) -> None:
    roles = [
        make_target([load[role] for load in loads for _ in range(4)], replicas=count, minimum=1, maximum=20)
        for role in range(2)
    ]
    pair = RolePair(numerator=0, denominator=1, ratio=ratio)
    first, second = track(roles, np.arange(0.0, 300.0, 15.0), TRACKING, [pair])
    if first.total is None or second.total is None:
        assert "no whole numbers" in first.reasons[0]
        assert first.total is second.total
    else:
        assert round(ratio.minimum * 10) * second.total <= 10 * first.total
        assert 10 * first.total <= round(ratio.maximum * 10) * second.total
