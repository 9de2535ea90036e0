"""Days of small fleets, replayed with the real `decide`."""

import gc
import math
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from reconciler.backtest import ours
from reconciler.backtest import replayed as module
from reconciler.backtest.comparison import compare, cost_at
from reconciler.backtest.day import coverage, replay_day, what_ran
from reconciler.backtest.ours import DayReplay, OurDay
from reconciler.backtest.replayed import ABLATIONS, STEP_S, WARM_UP_S, Replayed, read_replayed
from reconciler.decision import decide
from reconciler.decision.actuation import ActuationDelays
from reconciler.domain.backtests import AT_ONCE, DELAYED, OURS, RAN
from reconciler.domain.history import DemandHistory
from reconciler.domain.identity import ModelKey
from reconciler.domain.observed import Load
from reconciler.domain.profiles import PerformanceProfile
from reconciler.domain.proposals import Proposal, ProposalState
from reconciler.domain.recording import WrittenCounts
from reconciler.domain.snapshot import Snapshot
from reconciler.policy.files import read_policy
from reconciler.report.backtest import by_cost, sentence
from reconciler.simulation.draws import OfficeHours
from reconciler.simulation.faults import Faults, draw_faults
from reconciler.simulation.policies import POLICIES
from tests.unit.decision.conftest import CLUSTER, NAMESPACE, Fleet, key, learned, new_fleet

DAY_S, HOUR_S, CARRIED = 86_400.0, 3600.0, 9.99
NOW_S = 20_835 * DAY_S + HOUR_S
"""An hour after a midnight."""


ITSELF = b"""apiVersion: reconciler.io/v1alpha1
kind: Policy
rules:
  - {name: itself, autoMerge: {}}
"""


def model(number: int) -> ModelKey:
    return ModelKey(cluster=CLUSTER, namespace=NAMESPACE, model_id=f"m{number}")


def replayed(
    *loads: Any,
    days: int = 2,
    hours: OfficeHours | None = None,
    with_faults: bool = False,
    profiles: tuple[PerformanceProfile, ...] = (),
    annotations: Mapping[str, str] | None = None,
    **changes: Any,
) -> Replayed:
    """Models with the loads of their last days (functions of hours), each with one variant of three replicas."""
    fleet = new_fleet()
    fleet.now_s = NOW_S
    fleet.price(H100=4.0)
    fleet.set(**changes)
    for number in range(len(loads)):
        fleet.add(f"m{number}", model_id=f"m{number}", replicas=3, profiles=profiles, annotations=annotations)
        fleet.offer(20.0, f"m{number}")
    count = int(days * DAY_S / 600.0)
    ends_s = NOW_S - HOUR_S - 600.0 * np.arange(count - 1, -1, -1.0)
    hours_of = (ends_s - 300.0) % DAY_S / HOUR_S
    per_s = np.array([[float(load(each)) for each in hours_of] for load in loads])
    history = DemandHistory(
        models=tuple(model(number) for number in range(len(loads))), start_s=float(ends_s[0]), step_s=600.0, per_s=per_s
    )
    fleet.observed = replace(fleet.observed, demand=(history,))
    return read_replayed(fleet.snapshot(), seed=1, hours=hours, with_faults=with_faults)


def steady(hour: float) -> float:
    return 20.0 + 0.0 * hour


def rising(hour: float) -> float:
    return 20.0 if hour < 12 else 60.0


def test_a_steady_load_is_left_alone_once_it_is_carried() -> None:
    subject = replayed(steady)
    day = DayReplay(subject, subject.days(1)[0], 1).run()
    assert (day.opened, day.merged, day.moves) == (0, 0, ())
    assert set(day.replicas[0]) == {3.0}


def test_a_day_leaves_nothing_in_memory_that_the_next_one_adds_to() -> None:
    subject = replayed(rising, steady, days=4)
    subject = replace(subject, way=replace(subject.way, run_s=3600.0))
    first, second, third = subject.days(3)
    replay_day(subject, first, 1, ())  # what is imported and found once
    gc.collect()
    gc.disable()  # nearly as in a backtest, where a collection comes after a million new objects
    try:
        replay_day(subject, second, 1, ())
        before = len(gc.get_objects())
        replay_day(subject, third, 1, ())
        grown = len(gc.get_objects()) - before
        left = gc.collect()
    finally:
        gc.enable()
    assert left == 0, "something holds itself"
    assert grown < 100, "only what was learned at the midnight before it, which the day after that takes as well"


def test_the_past_is_the_same_however_many_models_are_looked_at_together(monkeypatch: pytest.MonkeyPatch) -> None:
    subject = replayed(rising, steady, rising, days=3)
    day_s = subject.days(1)[0]
    together = subject.before(day_s)
    monkeypatch.setattr(module, "MODELS_AT_ONCE", 2)
    apart = subject.before(day_s)
    assert together.most_per_s.tolist() == apart.most_per_s.tolist() == [60.0, 20.0, 60.0]
    assert together.hourly_per_s.tolist() == apart.hourly_per_s.tolist()
    assert together.hourly_per_s.shape == (3, 7 * 24)
    assert set(together.hourly_per_s[1].tolist()) == {0.0, 20.0}, "before all history nothing is known"


def test_a_learned_profile_sizes_loads_beyond_what_it_has_seen() -> None:
    """Saturation, to which a run would turn, finds replicas as full as when they were recorded: nearly empty."""
    subject = replayed(rising, profiles=(learned("H100", reach=9),))
    assert subject.capacity_per_s[0] < CARRIED
    day = DayReplay(subject, subject.days(1)[0], 1).run()
    assert day.replicas[0, -1] * subject.capacity_per_s[0] > 60.0
    assert subject.unsure == subject.models, "what more would do to latencies, nobody has seen"
    result = compare([replay_day(subject, subject.days(1)[0], 1, ())], subject, {}, "r", 1)
    assert any("m0: larger batches than its learned profile has seen" in each for each in result.assumptions)
    assert replayed(rising).unsure == ()


def test_what_a_load_needs_serves_after_run_merge_and_sync() -> None:
    subject = replayed(rising)
    assert subject.way.merge.median_s == 900.0
    day = DayReplay(subject, subject.days(1)[0], 1).run()
    noon = round((WARM_UP_S + 12 * HOUR_S) / STEP_S)
    first = next(move for move in day.moves if move.step > noon)
    assert first.after == 7  # 60 req/s and 10 %
    assert noon + (subject.way.sync_s / STEP_S) < first.step < noon + 120
    assert day.replicas[0, first.step - 1] == first.before < day.replicas[0, first.step] == 7
    assert day.opened >= 1


def test_a_batch_at_capacity_holds_what_arrives_while_a_request_is_served() -> None:
    subject = replayed(steady)
    batch, share, full, prompt = subject.batches[:, 0]
    profile, load = subject.variants[0].options[0].profile, subject.snapshot.observed.loads[model(0)]
    assert isinstance(load, Load)
    assert load.input_tokens is not None
    alone_s = load.output_tokens * profile.alpha_s + (profile.gamma_s or 0.0)
    served_s = alone_s + batch * (load.output_tokens * profile.beta_s + (profile.delta_s or 0.0) * load.input_tokens)
    assert batch == pytest.approx(min(subject.capacity_per_s[0] * served_s, profile.max_batch_size), rel=0.02)
    assert share == pytest.approx(1 - alone_s / served_s)
    assert full * batch == pytest.approx(profile.max_batch_size)
    assert prompt == load.input_tokens / (load.input_tokens + load.output_tokens)


def test_while_prometheus_is_silent_nothing_is_decided(monkeypatch: pytest.MonkeyPatch) -> None:
    subject = replayed(rising, with_faults=True)
    day_s = subject.days(1)[0]
    noon = round((WARM_UP_S + 12 * HOUR_S) / STEP_S)
    silent = np.zeros(round((WARM_UP_S + DAY_S) / STEP_S), dtype=bool)
    silent[noon - 10 : noon + 120] = True
    nothing = replace(draw_faults(1, day_s, 1, len(silent), STEP_S), lost_share=np.zeros((1, len(silent))))
    outage = replace(nothing, silent=silent, waits=np.zeros((1, len(silent)), dtype=np.int64))
    monkeypatch.setattr(Replayed, "faults", lambda *_: outage)
    day = DayReplay(subject, day_s, 1).run()
    first = next(move for move in day.moves if move.step > noon - 10)
    assert first.step > noon + 120
    assert first.after == 7  # and then it goes on
    assert subject.fleet(day_s, 1).silent is silent


def test_a_run_sees_replicas_that_were_lost_or_find_nothing_to_start_on(monkeypatch: pytest.MonkeyPatch) -> None:
    subject = replayed(steady, with_faults=True)
    day_s, steps = subject.days(1)[0], round((WARM_UP_S + DAY_S) / STEP_S)
    lost, waits = np.zeros((1, steps)), np.zeros((1, steps), dtype=np.int64)
    lost[0, 400], waits[0, 600:660] = 0.25, np.arange(60, 0, -1)
    faults = Faults(silent=np.zeros(steps, dtype=bool), lost_share=lost, waits=waits)
    monkeypatch.setattr(Replayed, "faults", lambda *_: faults)
    replay = DayReplay(subject, day_s, 1)
    replay._replicas[:, 610:] = 5
    start = round(subject.way.start.median_s / STEP_S)
    assert [replay._ready(step)[0] for step in (399, 400, 399 + start, 400 + start)] == [3.0, 2.0, 2.0, 3.0]
    assert [replay._ready(step)[0] for step in (609, 659 + start, 660 + start)] == [3.0, 3.0, 5.0]


def test_with_faults_a_day_is_the_same_again_and_worse() -> None:
    calm, troubled = replayed(rising), replayed(rising, with_faults=True)
    day_s = calm.days(1)[0]
    found = replay_day(troubled, day_s, 1, ["HPA on arrival rate"])
    assert found == replay_day(troubled, day_s, 1, ["HPA on arrival rate"])
    assert found != replay_day(calm, day_s, 1, ["HPA on arrival rate"])
    assert any("outage" in each for each in compare([found], troubled, {}, "", 1).assumptions)


def test_people_merge_nothing_at_weekends() -> None:
    late = replayed(lambda hour: 20.0 if hour < 19 else 60.0, hours=OfficeHours())
    day = DayReplay(late, late.days(1)[0], 1).run()
    assert day.moves == ()  # this day is a Saturday
    always = replace(late, way=replace(late.way, hours=None))
    assert DayReplay(always, late.days(1)[0], 1).run().moves


def test_what_merges_by_itself_waits_for_no_person_but_for_rollouts_and_the_limit() -> None:
    loads = [lambda hour, late=late: 60.0 + 50.0 * math.sin((hour + late) / 24 * 2 * math.pi) for late in range(4)]
    rules = read_policy("p.yaml", ITSELF).rules
    subject = replayed(*loads, hours=OfficeHours(), rules=rules)  # a Saturday, on which people merge nothing
    day = DayReplay(subject, subject.days(1)[0], 1).run()
    assert day.merged > 20
    assert {move.step % 10 for move in day.moves} == {round(subject.way.sync_s / STEP_S) % 10}  # merged by runs
    settings = replace(subject.snapshot.settings.pull_requests, merges_per_hour=4)
    few = replayed(*loads, hours=OfficeHours(), rules=rules, pull_requests=settings)
    limited = DayReplay(few, few.days(1)[0], 1)
    limited.run()
    merged_s = sorted(each.closed_at_s for each in limited.pull_requests.proposals if each.closed_at_s)
    assert len(merged_s) > 10
    assert all(later - first >= HOUR_S for first, later in zip(merged_s, merged_s[4:], strict=False))


def test_days_hold_every_request_once_and_come_out_the_same_again() -> None:
    subject = replayed(steady, rising, days=3)
    days_s = subject.days(3)
    first = replay_day(subject, days_s[1], 1, ["HPA on arrival rate"])
    assert replay_day(subject, days_s[0], 1, ["HPA on arrival rate"]).day < first.day
    assert first == replay_day(subject, days_s[1], 1, ["HPA on arrival rate"])
    came = subject.fleet(days_s[1], 1).arrivals
    assert came is not None
    expected = STEP_S * came.per_s[:, -1440:].sum()
    for name, tallies in first.tallies.items():
        assert len(tallies) == (len(POLICIES[name].settings) if name in POLICIES else 1)
        for tally in tallies:
            assert sum(tally.offered.values()) == pytest.approx(expected, rel=1e-5)
            assert sum(tally.kept.values()) <= sum(tally.offered.values()) * (1 + 1e-5)
    best, known = first.tallies[AT_ONCE][0], first.tallies[DELAYED][0]
    assert sum(best.kept.values()) == pytest.approx(expected, rel=1e-4)
    assert sum(best.cost.values()) <= sum(known.cost.values()) < sum(first.tallies[OURS][0].cost.values())
    assert [course.model for course in first.courses] == [str(each) for each in subject.models]
    assert all(len(course.load) == 144 for course in first.courses)


def test_what_ran_is_what_git_said_and_its_cost_is_paid() -> None:
    subject = replayed(steady)
    day_s = subject.days(1)[0]
    noon_s = day_s + 12 * HOUR_S
    written = WrittenCounts(variant=key("m0"), counts=((day_s - DAY_S, 5), (noon_s, 2)))
    subject = replace(subject, written={key("m0"): written})
    ran = what_ran(subject, subject.fleet(day_s, 1))[0, round(WARM_UP_S / STEP_S) :]
    changed = round((12 * HOUR_S + subject.way.sync_s) / STEP_S)
    assert (ran[:changed] == 5).all()
    assert (ran[changed:] == 2).all()
    day = replay_day(subject, day_s, 1, ())
    assert sum(day.tallies[RAN][0].cost.values()) == pytest.approx(4.0 * ran.sum() / 60, rel=1e-5)


def test_a_model_whose_past_or_capacity_is_not_known_is_left_out_with_the_reason() -> None:
    fleet: Fleet = new_fleet()
    fleet.add("known", model_id="m0")
    fleet.add("unknown", model_id="other", profiles=())
    fleet.offer(10.0, "m0")
    fleet.offer(10.0, "other")
    history = DemandHistory(models=(model(0),), start_s=fleet.now_s - DAY_S, step_s=600.0, per_s=np.ones((1, 144)))
    fleet.observed = replace(fleet.observed, demand=(history,))
    subject = read_replayed(fleet.snapshot(), seed=1)
    assert subject.models == (model(0),)
    assert list(subject.left_out.values()) == ["what arrived before is not known"]


def test_a_model_that_is_sized_another_way_is_left_out_with_that_way_and_why() -> None:
    subject = replayed(steady, annotations={"sizing.engine": "saturation"})
    assert subject.models == ()
    assert re.fullmatch(r"it is sized by saturation \(annotation, .*\)", subject.left_out[model(0)])


def test_a_model_of_which_hardly_a_load_is_known_is_left_out() -> None:
    subject = replayed(steady, lambda hour: math.nan if hour < 18 else 20.0)
    assert subject.models == (model(0),)
    assert subject.left_out == {model(1): "of what arrived before only 25 % is known"}


def test_a_history_that_begins_late_for_all_is_replayed_from_there() -> None:
    subject = replayed(steady, days=6)
    late = subject.per_s.copy()
    late[:, : 4 * 144] = np.nan
    observed = replace(subject.snapshot.observed, demand=(replace(subject.demand, per_s=late),))
    assert len(read_replayed(replace(subject.snapshot, observed=observed), seed=1).days(6)) == 2


def test_the_histories_of_all_clusters_are_replayed() -> None:
    subject = replayed(steady, rising)
    each = [replace(subject.demand, models=(model(row),), per_s=subject.per_s[[row]]) for row in (1, 0)]
    observed = replace(subject.snapshot.observed, demand=tuple(each))
    again = read_replayed(replace(subject.snapshot, observed=observed), seed=1)
    assert again.models == subject.models
    assert (again.per_s == subject.per_s).all()


def seen(subject: Replayed, monkeypatch: pytest.MonkeyPatch) -> list[Snapshot]:
    """The snapshots that the runs of a day decide from."""
    found: list[Snapshot] = []
    solve = decide.solve

    def noted(snapshot: Snapshot, pinned: Any) -> Any:
        found.append(snapshot)
        return solve(snapshot, pinned)

    monkeypatch.setattr(ours, "solve", noted)
    DayReplay(subject, subject.days(1)[0], 1).run()
    return found


def test_runs_decide_with_the_delays_that_are_simulated(monkeypatch: pytest.MonkeyPatch) -> None:
    merged = [
        Proposal(
            group="g",
            number=number,
            state=ProposalState.MERGED,
            head_branch="b",
            decision="",
            opened_at_s=NOW_S - 10 * DAY_S - 4 * HOUR_S,
            closed_at_s=NOW_S - 10 * DAY_S,
        )
        for number in range(5)
    ]
    subject = read_replayed(replace(replayed(rising).snapshot, proposals=tuple(merged), measured=None), seed=1)
    assert subject.way.merge.median_s == 4 * HOUR_S
    for snapshot in (seen(subject, monkeypatch)[0], seen(subject, monkeypatch)[-1]):
        assert ActuationDelays(snapshot).of(subject.variants[0]).merge.median_s == 4 * HOUR_S
        assert all(each.opened_at_s > NOW_S - 3 * DAY_S for each in snapshot.proposals if each.opened_at_s)


@pytest.mark.parametrize("run_s", [630.0, 150.0, 420.0])
def test_runs_need_not_be_whole_minutes_apart(run_s: float, monkeypatch: pytest.MonkeyPatch) -> None:
    subject = replayed(rising)
    subject = replace(subject, way=replace(subject.way, run_s=run_s))
    count = len(seen(subject, monkeypatch))
    day = DayReplay(subject, subject.days(1)[0], 1).run()
    step = round(run_s / STEP_S)
    assert count == math.ceil((WARM_UP_S + DAY_S) / STEP_S / step)
    assert day.windows.shape == (1, len(day.runs), 2)
    assert WARM_UP_S / STEP_S <= day.runs[0] < WARM_UP_S / STEP_S + step
    assert set(np.diff(day.runs)) == {step}
    assert day.runs[-1] + step >= day.replicas.shape[1]


def test_each_forecast_is_judged_by_its_own_window() -> None:
    subject = replayed(rising, rising)
    fleet = subject.fleet(subject.days(1)[0], 1)
    rise = int(np.flatnonzero(np.diff(fleet.offered_per_s[0, 180:]) > 0)[0]) + 181
    day = OurDay(
        replicas=np.zeros((2, fleet.offered_per_s.shape[1])),
        moves=(),
        opened=0,
        pushed=0,
        merged=0,
        stopped={},
        quantiles={0.9: np.array([[30.0, math.nan], [30.0, 100.0]])},
        runs=np.array([rise - 10, fleet.offered_per_s.shape[1] - 30]),
        # the last step before the rise, then the rise; the last window ends after the day
        windows=np.array([[[0, 9], [0, 0]], [[0, 10], [0, 40]]]),
    )
    assert coverage(fleet, day) == (1, 2)


def test_gaps_are_replayed_as_what_came_before_and_days_of_gaps_not_at_all() -> None:
    subject = replayed(steady, days=3)
    first, second, third = subject.days(3)
    per_s = subject.per_s.copy()
    columns = np.arange(per_s.shape[1])
    ends_s = subject.start_s + columns * subject.step_s
    per_s[:, (ends_s > second) & (ends_s <= second + 0.7 * DAY_S)] = np.nan
    holed = replace(subject, per_s=per_s)
    assert holed.days(3) == (first, third)
    assert (holed.offered(second, 1440) == 20.0).all()
    load = next(iter(replay_day(holed, second, 1, ()).courses)).load
    assert set(load) == {None, 20.0}
    assert load.count(None) == pytest.approx(0.7 * 144, abs=2)


def test_classes_are_told_apart() -> None:
    subject = replayed(steady, steady)
    subject = replace(subject, classes=("gold", "iron"))
    day = replay_day(subject, subject.days(1)[0], 1, ())
    assert set(day.tallies[OURS][0].kept) == {"gold", "iron"}
    compared = compare([day], subject, {}, "r" * 64, 1)
    assert compared.result(OURS).by_class == {"gold": 1.0, "iron": 1.0}


@pytest.mark.parametrize(
    ("aimed", "expected"),
    [(0.9, 10.0), (0.99, 20.0), (0.968377, 15.0), (0.9999, None), (0.5, 10.0)],
)
def test_costs_are_compared_at_equal_attainment(aimed: float, expected: float | None) -> None:
    # 12 is dominated: it costs more than 10 and attains less
    found = cost_at(np.array([20.0, 12.0, 10.0]), np.array([0.99, 0.8, 0.9]), aimed)
    assert found == (None if expected is None else pytest.approx(expected, rel=1e-3))


def test_intervals_are_of_days_and_a_cheaper_fleet_saves() -> None:
    subject = replayed(steady, days=3)
    days = [replay_day(subject, day_s, 1, ["static peak"]) for day_s in subject.days(2)]
    dearer = []
    for at, day in enumerate(days, start=1):
        ran = tuple(replace(each, cost={"none": 1000.0 * at}) for each in day.tallies[RAN])
        dearer.append(replace(day, tallies={**day.tallies, RAN: ran}))
    found = compare(dearer, subject, {}, "r" * 64, 1)
    cost = found.result(OURS).cost.value
    assert found.saving is not None
    assert found.saving.value == pytest.approx(1 - 2 * cost / 3000)
    assert found.saving.low == pytest.approx(1 - cost / 1000, rel=1e-3)
    assert found.saving.high == pytest.approx(1 - cost / 2000, rel=1e-3)
    assert found == compare(dearer, subject, {}, "r" * 64, 1)


def test_with_one_thing_changed_ours_is_replayed_again() -> None:
    subject = replayed(rising)
    day = replay_day(subject, subject.days(1)[0], 1, (), tuple(ABLATIONS))
    cost = {name: sum(tallies[0].cost.values()) for name, tallies in day.tallies.items()}
    kept = {name: sum(tallies[0].kept.values()) for name, tallies in day.tallies.items()}
    assert set(ABLATIONS) <= set(cost)
    assert kept["ours, merged in a minute"] > kept[OURS]  # its load rises at once: the sooner, the better
    found = compare([day], subject, {}, "r" * 64, 1)
    names = [each.name for each in by_cost(found)]
    assert names[:2] == [RAN, OURS]
    assert set(names[2:6]) == set(ABLATIONS)


def test_a_model_without_replicas_is_woken_by_ours_and_begun_for_peers() -> None:
    subject = replayed(steady)
    asleep = tuple(replace(each, current=replace(each.current, replicas=0)) for each in subject.variants)
    day = replay_day(replace(subject, variants=asleep), subject.days(1)[0], 1, ["HPA on arrival rate"])
    assert max(sum(each.kept.values()) for each in day.tallies["HPA on arrival rate"]) > 0
    assert sum(day.tallies[RAN][0].cost.values()) == 0
    found = compare([day], subject, {}, "r" * 64, 1)
    assert found.saving is None
    assert sentence(found).startswith("On your last day: nothing ran; ")
