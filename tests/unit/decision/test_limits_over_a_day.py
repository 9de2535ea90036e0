"""A smooth fleet in closed loop with the default limits: no model waits, and few pull requests are opened.

`python -m tests.bench.day` plays a whole day of 100 models.
"""

import pytest

from tests.bench.day import Day

MOST_A_DAY = 120


@pytest.mark.parametrize("delay_s", [0.0, 1200.0, None])
@pytest.mark.parametrize(("since", "hours"), [(1.0, 5.0), (14.0, 5.0)], ids=["rising", "falling"])
def test_the_default_limits_cost_no_target_and_open_few_pull_requests(
    delay_s: float | None, since: float, hours: float
) -> None:
    """Without a delay what rules allow is merged by itself."""
    day = Day(delay_s=delay_s or 0.0, models=60, since=since, merges_itself=delay_s is None)
    day.live(hours)
    assert day.least > 0.995
    at_first = day.fleet.settings.pull_requests.created_per_hour  # before limits bind every group opens its own
    assert day.pull_requests.opened <= MOST_A_DAY * hours / 24 + at_first
    assert any("several groups" in each.group for each in day.fleet.proposals), "the limits were never tight"
    assert day.replica_hours < 1.04 * day.needed_hours
