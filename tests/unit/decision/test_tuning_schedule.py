"""When autoscalers are looked at, from the time and from merged pull requests alone."""

from typing import Any

import pytest

from reconciler.domain.identity import ResourceKey
from reconciler.domain.proposals import Promise, ProposalState
from reconciler.domain.records import replace
from reconciler.domain.scalers import ResolvedMetric, Scaler, Signal, TunedScaler
from reconciler.domain.units import DAY_S
from reconciler.tuning.schedule import MOST_ASKED, SPAN_S, Look, TuningMerges, looks

RUN_S = 600.0


class Tuned:
    """A cluster of variants whose autoscalers are tuned, one group."""

    def __init__(self, fleet: Any, make: Any, count: int) -> None:
        self.make, self.fleet = make, fleet
        self.keys = [fleet.add(f"m{number:03}", replicas=3) for number in range(count)]
        snapshot = fleet.snapshot()
        self.settings = replace(snapshot.settings, run_interval_s=RUN_S)
        self.now_s = 2000 * DAY_S + 10 * 3600.0
        document = snapshot.variants[0].document
        metric = ResolvedMetric(promql="sum(a)", signal=Signal.RUNNING, source="its own query")
        self.variants = tuple(
            replace(
                each,
                current=replace(each.current, replicas=1, scaling="b"),
                tuned=TunedScaler(
                    scaler=Scaler(
                        key=each.key,
                        document=document,
                        place=each.place,
                        hpa_name=each.key.name,
                        metrics=(),
                        least=1,
                        most=9,
                    ),
                    metric=metric,
                ),
            )
            for each in snapshot.variants
        )
        self.proposals: list[Any] = []

    def merged(self, name: str, at_s: float, reverts: int | None = None) -> None:
        plain = self.make.change(name, "1 x H100", "1 x H100")
        promise = Promise(resource=plain.resource, unit="req/s", reverts=reverts)
        self.proposals.append(
            self.fleet.propose(
                replace(plain, scaling_before="a", scaling_after="b"),
                state=ProposalState.MERGED,
                opened_at_s=at_s - 60,
                closed_at_s=at_s,
                promises=(promise,),
            )
        )

    def looks(self, now_s: float, *, is_asked: bool = False) -> Look | None:
        found = looks(self.settings, self.variants, self.proposals, now_s, is_asked=is_asked)
        return next(iter(found.values()), None)

    def day(self) -> list[tuple[float, set[ResourceKey]]]:
        """What each run of a day looks at."""
        begun_s = self.now_s // DAY_S * DAY_S
        runs = (begun_s + RUN_S * turn for turn in range(round(DAY_S / RUN_S)))
        return [(at_s, set(look.scalers)) for at_s in runs if (look := self.looks(at_s)) is not None]


def test_every_autoscaler_is_looked_at_in_one_run_of_a_day(fleet: Any, make: Any) -> None:
    tuned = Tuned(fleet, make, 2 * MOST_ASKED + 20)
    runs = tuned.day()
    assert [len(keys) for _, keys in runs] == [MOST_ASKED, MOST_ASKED, 20]
    assert set().union(*(keys for _, keys in runs)) == set(tuned.keys)


def test_a_plan_that_a_person_asks_for_waits_for_no_turn(fleet: Any, make: Any) -> None:
    tuned = Tuned(fleet, make, 2)
    assert tuned.looks(tuned.now_s) is None
    look = tuned.looks(tuned.now_s, is_asked=True)
    assert look is not None
    assert (set(look.scalers), look.since_s) == (set(tuned.keys), tuned.now_s - SPAN_S)


def test_where_no_change_is_possible_nothing_is_asked(fleet: Any, make: Any) -> None:
    tuned = Tuned(fleet, make, 2)
    tuned.merged("m000", tuned.now_s - 3600.0)
    assert tuned.looks(tuned.now_s, is_asked=True) is None  # a change of a group a day


def test_a_change_is_scored_from_its_first_whole_day_on(fleet: Any, make: Any) -> None:
    tuned = Tuned(fleet, make, 1)
    tuned.merged("m000", tuned.now_s - DAY_S)
    assert tuned.looks(tuned.now_s, is_asked=True) is None
    look = tuned.looks(tuned.now_s + DAY_S, is_asked=True)
    assert look is not None
    assert look.since_s == tuned.now_s // DAY_S * DAY_S - 3 * 3600.0


@pytest.mark.parametrize(("reverts", "remembered_s", "days"), [(None, 30 * DAY_S, 7), (3, 30 * DAY_S, 30), (3, 0.0, 7)])
def test_what_was_taken_back_is_remembered(
    fleet: Any, make: Any, reverts: int | None, remembered_s: float, days: int
) -> None:
    tuned = Tuned(fleet, make, 1)
    tuned.merged("m000", tuned.now_s, reverts)
    settings = replace(tuned.settings, pull_requests=replace(tuned.settings.pull_requests, reopen_after_s=remembered_s))
    for after_s, is_paused in ((days * DAY_S - 1, True), (days * DAY_S, False)):
        merges = TuningMerges(tuned.proposals, tuned.variants, settings, tuned.now_s + after_s)
        assert (merges.pause(tuned.keys[0]) is not None) is is_paused
