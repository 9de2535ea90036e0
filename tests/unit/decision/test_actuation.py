"""How long a change takes until it serves: given, else measured, else built in."""

import pytest

from reconciler.decision.actuation import ActuationDelays, delay_figures
from reconciler.domain.proposals import Part, ProposalState
from tests.unit.decision.conftest import CLUSTER, DAY_S, NAMESPACE, Fleet

MINUTE_S = 60.0


def merges(fleet: Fleet, *minutes: float, group: str = f"{CLUSTER}/{NAMESPACE}", ago_s: float = DAY_S) -> None:
    """Pull requests of a group that were merged after so many minutes."""
    for open_min in minutes:
        closed_s = fleet.now_s - ago_s
        fleet.propose(
            group=group,
            part=Part.AUTO,
            state=ProposalState.MERGED,
            opened_at_s=closed_s - open_min * MINUTE_S,
            closed_at_s=closed_s,
        )


def told(fleet: Fleet) -> dict[str, tuple[str, str]]:
    """What `explain` shows of the parts of the delay."""
    figures = delay_figures(ActuationDelays(fleet.snapshot()), fleet.variant())
    return {each.name.removeprefix("delay of "): (str(each.value), each.reason) for each in figures}


def test_merges_of_the_group_are_measured_as_quantiles(fleet: Fleet) -> None:
    fleet.add()
    merges(fleet, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11)
    merges(fleet, 600, 600, 600, 600, 600, group="us-east/other")
    assert told(fleet)["merge"] == ("6m (2m to 10m)", "measured: 11 merges of its group in 30 days")


def test_merges_of_today_change_no_delay_that_is_measured_already(fleet: Fleet) -> None:
    fleet.add()
    merges(fleet, *range(1, 12))
    merges(fleet, *[50] * 11, ago_s=0)
    assert told(fleet)["merge"] == ("6m (2m to 10m)", "measured: 11 merges of its group in 30 days")


def test_a_group_with_few_merges_takes_as_long_as_all_do(fleet: Fleet) -> None:
    fleet.add()
    merges(fleet, 1)
    merges(fleet, 30, 30, 30, 30, group="us-east/other")
    assert told(fleet)["merge"] == ("30m (13m to 30m)", "measured: 5 merges of all groups in 30 days")


def test_few_merges_measure_nothing_and_automatic_ones_are_expected_soon(fleet: Fleet) -> None:
    fleet.add()
    merges(fleet, 1, 1, 1, 1)
    merges(fleet, 1, 1, 1, 1, ago_s=31 * DAY_S)
    assert told(fleet)["merge"] == ("15m (5m to 1h)", "built-in: 4 merges in 30 days, 5 are needed to measure it")
    fleet.set(pull_requests=type(fleet.settings.pull_requests)(auto_merge=True))
    assert told(fleet)["merge"][0] == "2m (1m to 5m)"


def test_what_is_given_goes_before_what_is_measured(fleet: Fleet) -> None:
    fleet.add()
    merges(fleet, *range(1, 12))
    fleet.default(**{"actuationDelay.merge": 600.0, "actuationDelay.start": 240.0})
    assert told(fleet) == {
        "merge": ("10m", "reconciler.yaml:70"),
        "sync": ("3m", "built-in"),
        "start": ("4m", "reconciler.yaml:70"),
    }


@pytest.mark.parametrize(("opened_s", "closed_s"), [(None, 0.0), (0.0, None), (10.0, 0.0)])
def test_times_that_nobody_knows_or_believes_measure_nothing(
    fleet: Fleet, opened_s: float | None, closed_s: float | None
) -> None:
    fleet.add()
    for _ in range(6):
        fleet.propose(
            state=ProposalState.MERGED,
            opened_at_s=None if opened_s is None else fleet.now_s - DAY_S + opened_s,
            closed_at_s=None if closed_s is None else fleet.now_s - DAY_S + closed_s,
        )
    assert told(fleet)["merge"][1].startswith("built-in: 0 merges")
