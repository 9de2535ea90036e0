"""How long a change takes until it serves: given, else measured, else built in."""

from dataclasses import replace

import numpy as np
import pytest

from reconciler.decision.actuation import ActuationDelays, delay_figures, office_hours
from reconciler.domain.history import DemandHistory
from reconciler.domain.observed import LiveReplicas
from reconciler.domain.proposals import Part, ProposalState
from tests.unit.decision.conftest import CLUSTER, DAY_S, NAMESPACE, Fleet, Make, key

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
        "sync": ("3m", "built-in: 0 arrivals seen in 7 days, 5 are needed to measure it"),
        "start": ("4m", "reconciler.yaml:70"),
        "run interval": ("10m", "built-in"),
    }


def counts(start_s: float, *stretches: tuple[int, float]) -> LiveReplicas:
    """So many replicas for so many minutes, one stretch after the other."""
    values = np.concatenate([np.full(minutes, float(count)) for minutes, count in stretches])
    return LiveReplicas(start_s=start_s, step_s=MINUTE_S, counts=values)


def test_arrivals_and_starts_after_merges_are_measured(fleet: Fleet, make: Make) -> None:
    fleet.add(replicas=7)
    start_s = fleet.now_s // DAY_S * DAY_S - DAY_S
    asked, ready = [(10, 1.0)], [(10, 1.0)]
    for number in range(1, 7):  # a merge each two hours, there after 2 to 7 minutes, ready 10 minutes later
        merged_s = start_s + (number * 120 - 110) * MINUTE_S
        change = make.change("llama", f"{number} x H100", f"{number + 1} x H100")
        fleet.propose(change, state=ProposalState.MERGED, opened_at_s=merged_s - 60, closed_at_s=merged_s)
        asked += [(number + 1, float(number)), (119 - number, number + 1.0)]
        ready += [(number + 11, float(number)), (109 - number, number + 1.0)]
    fleet.observed = replace(
        fleet.observed,
        merged={key("llama"): counts(start_s, *asked)},
        started={key("llama"): counts(start_s, *ready)},
    )
    found = told(fleet)
    assert found["sync"] == ("4m (2m to 6m)", "measured: 6 arrivals of this variant in 7 days")
    assert found["start"] == ("10m", "measured: 6 starts of this variant in 7 days")
    fleet.default(**{"actuationDelay.sync": 240.0})
    assert told(fleet)["sync"] == ("4m", "reconciler.yaml:70")


def test_a_number_that_somebody_else_wrote_measures_nothing(fleet: Fleet, make: Make) -> None:
    fleet.add(replicas=3)
    start_s = fleet.now_s // DAY_S * DAY_S - DAY_S
    for number in range(6):
        change = make.change("llama", "2 x H100", "3 x H100")
        fleet.propose(
            change, state=ProposalState.MERGED, opened_at_s=start_s, closed_at_s=start_s + (60 * number + 5) * MINUTE_S
        )
    fleet.observed = replace(fleet.observed, merged={key("llama"): counts(start_s, (600, 5.0), (600, 3.0))})
    assert told(fleet)["sync"][1].startswith("built-in: 0 arrivals")


def merged_at(fleet: Fleet, *hours: float) -> None:
    """Merges at so many hours after a Thursday's midnight three weeks ago."""
    start_s = (fleet.now_s // (7 * DAY_S) - 3) * 7 * DAY_S
    for hour in hours:
        at_s = start_s + hour * 3600.0
        fleet.propose(state=ProposalState.MERGED, opened_at_s=at_s - 60, closed_at_s=at_s)


def test_what_people_who_merge_at_their_hours_cost_is_known(fleet: Fleet) -> None:
    fleet.add(replicas=4)
    start_s = (fleet.now_s // (7 * DAY_S) - 2) * 7 * DAY_S
    hours = np.arange(14 * 24)
    load = np.where((hours % 24 >= 9) & (hours % 24 < 17), 30.0, 10.0)  # a third of what the day needs, at night
    history = DemandHistory(models=(fleet.variant().model,), start_s=start_s, step_s=3600.0, per_s=load[np.newaxis])
    fleet.observed = replace(fleet.observed, demand=(history,))
    assert office_hours(fleet.snapshot()) is None
    merged_at(fleet, *(24 * day + hour for day in (0, 1, 4, 5, 6, 7, 8) for hour in (10.5, 13.5, 15.5)))
    found = office_hours(fleet.snapshot())
    assert found is not None
    assert (found.words, found.merges) == ("Thu, Fri, Mon, Tue, Wed between 10:00 and 16:00 UTC", 21)
    at_once, held = 14 * (9 * 30 + 15 * 10), 14 * 24 * 30  # each night and weekend keeps what the day needs
    assert found.more == pytest.approx(held / at_once - 1, rel=0.02)
    merged_at(fleet, *(24 * day + hour for day in range(7) for hour in (2.5, 8.5, 20.5)))
    assert office_hours(fleet.snapshot()) is None


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
