"""What is shipped of priors against measured points; the last third of them was fitted to by nothing."""

from functools import cache

import pytest

from reconciler.sizing.prior.estimate import CALIBRATIONS, DENSE, EXPERTS
from reconciler.sizing.prior.shapes import SHAPES
from tests.bench.priors import MEASURED, Point, Verdict, calibrate, fit, named_right, read_points, verdicts


@cache
def points() -> tuple[Point, ...]:
    return tuple(read_points())


@cache
def judged() -> dict[tuple[str, bool], Verdict]:
    return {(each.kind, each.is_carried): each for each in verdicts(points())}


@pytest.mark.parametrize("kind", CALIBRATIONS)
def test_what_is_shipped_is_what_the_points_give(kind: str) -> None:
    fitted = [each for each in points() if each.kind == kind and not each.is_kept]
    shipped = CALIBRATIONS[kind]
    assert shipped.points == len(fitted)
    assert fit(fitted) == pytest.approx(shipped.efficiency, rel=0.01)
    assert calibrate(fitted) == pytest.approx((shipped.alone, shipped.carried), abs=0.002)


def test_there_are_enough_points_and_shapes() -> None:
    assert len(MEASURED.read_text().splitlines()) > 2_000
    assert len(SHAPES) >= 30
    assert sum(each.is_kept for each in points()) > len(points()) / 4


@pytest.mark.parametrize(("kind", "is_carried"), [(DENSE, False), (DENSE, True), (EXPERTS, False), (EXPERTS, True)])
def test_bands_hold_what_they_say_on_the_kept_third(kind: str, is_carried: bool) -> None:
    assert 0.88 <= judged()[kind, is_carried].coverage <= 0.95


@pytest.mark.parametrize("kind", CALIBRATIONS)
def test_carried_over_errors_are_small_on_the_kept_third(kind: str) -> None:
    verdict = judged()[kind, True]
    assert verdict.points > 100
    assert verdict.itl <= 0.12
    assert verdict.throughput <= 0.12
    assert verdict.itl < judged()[kind, False].itl


@pytest.mark.parametrize("kind", CALIBRATIONS)
def test_the_cheaper_accelerator_is_named_on_the_kept_third(kind: str) -> None:
    right, compared = named_right(points(), kind)
    assert compared > 100
    assert right >= 0.9 * compared
