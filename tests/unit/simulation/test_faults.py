"""What goes wrong in a simulated fleet is drawn once for everybody."""

import numpy as np
import pytest

from reconciler.simulation.draws import Spread, random_generator
from reconciler.simulation.faults import LATE_S, LATE_SHARE, LOST, SHORT, SILENT, draw_faults

STEPS = 1620


def test_faults_are_those_of_the_seed_and_the_day() -> None:
    first, again, other = (draw_faults(seed, 0.0, 5, STEPS, 60.0) for seed in (1, 1, 2))
    assert np.array_equal(first.waits, again.waits)
    assert np.array_equal(first.silent, again.silent)
    assert np.array_equal(first.lost_share, again.lost_share)
    assert not np.array_equal(first.waits, other.waits)


def test_faults_come_as_often_as_they_say() -> None:
    days = [draw_faults(1, 86_400.0 * day, 20, 1440, 60.0) for day in range(40)]
    assert np.mean([each.lost_share.astype(bool).sum() / 20 for each in days]) == pytest.approx(LOST.per_day, rel=0.2)
    begins = [(np.diff(each.waits, prepend=0, axis=1) > 0).sum() / 20 for each in days]
    assert np.mean(begins) == pytest.approx(SHORT.per_day, rel=0.2)
    assert np.mean([each.silent.mean() for each in days]) * 1440 * 60 == pytest.approx(
        SILENT.per_day * SILENT.lasts.median_s * 1.75, rel=0.3
    )


def test_what_is_to_start_waits_until_the_shortage_ends() -> None:
    waits = draw_faults(3, 0.0, 20, STEPS, 60.0).waits
    begun = np.flatnonzero(waits.any(axis=1))[0]
    row = waits[begun]
    first = int(np.flatnonzero(row)[0])
    until = first + int(row[first])
    assert until >= STEPS or all(step + row[step] >= until for step in range(first, until))


def test_some_merges_are_late() -> None:
    usual = Spread.always(600.0)
    late = Spread(low_s=600.0, median_s=600.0, high_s=600.0, late_share=LATE_SHARE, late_s=LATE_S)
    drawn = late.draw(random_generator(1, "merge"), (4000,))
    assert set(np.round(drawn)) == {600.0, 600.0 + LATE_S}
    assert np.mean(drawn > 600.5) == pytest.approx(LATE_SHARE, rel=0.2)
    assert set(usual.draw(random_generator(1, "merge"), (100,))) == {600.0}
