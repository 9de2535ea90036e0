"""A fleet in closed loop against numbers worked out by hand, and against itself."""

from typing import Any

import numpy as np
import pytest

from reconciler.domain.observed import ArrivalSource, Load
from reconciler.domain.profiles import PerformanceProfile
from reconciler.domain.records import replace
from reconciler.domain.scalers import MetricKind
from reconciler.domain.settings import Worth
from reconciler.domain.snapshot import Option
from reconciler.simulation.autoscalers.hpa import HorizontalPodAutoscaler, Metric
from reconciler.simulation.draws import Arrivals, OfficeHours, Spread, random_generator
from reconciler.simulation.fleet import Fleet, Ledger, Planned, batch_of, simulate
from reconciler.simulation.policies import POLICIES, Past, Way, clairvoyant
from reconciler.simulation.through_git import ThroughGit

START_S = 1_800_230_400.0  # a Monday at midnight, UTC
STEP_S = 60.0


def fleet(offered: Any, start: int = 0, **fields: Any) -> Fleet:
    """Models of one variant each, whose replicas carry 2,000 req/s and cost 1 an hour; loads are in thousands.

    So much comes in each step: nothing is drawn.
    """
    offered = 1000 * np.atleast_2d(np.asarray(offered, dtype=float))
    models, steps = offered.shape
    values: dict[str, Any] = {
        "start_s": START_S,
        "step_s": STEP_S,
        "offered_per_s": offered,
        "model_of": np.arange(models),
        "capacity_per_s": np.full(models, 2000.0),
        "weight": np.ones(models),
        "start_steps": np.full((models, steps), start),
    }
    return Fleet(**(values | fields))


def ran(subject: Fleet, replicas: Any, **fields: Any) -> Ledger:
    """Numbers that are written down, a row a variant."""
    replicas = np.atleast_2d(np.asarray(replicas, dtype=float))
    steps = subject.offered_per_s.shape[1]
    planned = Planned(replicas, subject.start_s, subject.step_s)
    return simulate(subject, planned, replicas[None, :, 0], fields.get("block_of", np.zeros(steps, dtype=int)))


def test_what_would_wait_too_long_leaves_and_is_counted() -> None:
    found = ran(fleet([10.0] * 5), [1.0] * 5)
    # at first the batch is full: 2,500 req/s are answered, and who came in the last half minute may wait
    assert found.unserved.sum() == pytest.approx(5 * 7500 * 60 - 300_000)
    assert found.attainment()[0, 0] == pytest.approx(0.0, abs=1e-9)


@pytest.mark.parametrize("replicas", [4.0, 16.0])
def test_a_load_at_capacity_exceeds_targets_in_half_of_the_steps(replicas: float) -> None:
    """Targets are of means: fewer requests are less alike, so targets are missed below capacity and kept above."""

    def kept(load: float) -> float:
        subject = fleet([replicas * load / 50] * 4000, capacity_per_s=np.array([20.0]))
        drawn = Arrivals.drawn(random_generator(1, "requests"), subject.offered_per_s, STEP_S)
        return ran(replace(subject, arrivals=drawn), [replicas] * 4000).attainment().item()

    below, at, above = kept(0.98), kept(1.0), kept(1.02)
    assert 1.0 > below > at > above > 0.0
    assert at == pytest.approx(0.5, abs=0.03)


def test_an_autoscaler_counts_what_came_and_replicas_hold_what_it_brings() -> None:
    seen = []

    class Recorder:
        reproduces = "nothing"

        def decide(self, each: Any) -> Any:
            seen.append((each.load.item(), each.running.item()))
            return each.replicas

    drawn = Arrivals(per_s=np.array([[1000.0, 1500.0, 1000.0]]), work_per_s=np.array([[1000.0, 1000.0, 1800.0]]))
    subject = fleet([1.0] * 3, arrivals=drawn, in_batches=np.array([2000.0]), batch_share=np.array([0.5]))
    ledger = simulate(subject, Recorder(), np.ones((1, 1)), np.zeros(3, int))
    loads, running = zip(*seen, strict=True)
    assert loads == pytest.approx([0.5, 0.5, 0.75])
    assert running[0] == pytest.approx(1 / 3)
    assert running[1] == running[2] == pytest.approx(1 / 3, rel=1e-3), "and what chance adds"
    assert ledger.offered.sum() == pytest.approx(60.0 * 3500.0)


def test_days_are_counted_apart_and_what_comes_before_them_not_at_all() -> None:
    found = ran(fleet([1.9, 1.9, 9.0, 9.0]), [1.0, 1.0, 1.0, 1.0], block_of=np.array([-1, 0, 1, 1]))
    assert found.attainment()[0] == pytest.approx([1.0, 0.0], abs=1e-6)
    assert found.cost.sum(axis=1).tolist() == [[1 / 60, 2 / 60]]


def test_variants_of_a_model_share_its_load_by_what_they_carry() -> None:
    shared: dict[str, Any] = {
        "model_of": np.array([0, 0]),
        "capacity_per_s": np.array([2000.0, 4000.0]),
        "weight": np.array([1.0, 3.0]),
    }
    subject = fleet([[7.8] * 4], start_steps=np.zeros((2, 4), dtype=int), **shared)
    found = ran(subject, [[2.0] * 4, [1.0] * 4])
    assert found.attainment()[0, 0] == pytest.approx(1.0, abs=1e-6)
    assert found.cost.sum() == pytest.approx((2 * 1 + 1 * 3) * 4 / 60)


def test_lost_nodes_take_replicas_that_start_again() -> None:
    lost = np.zeros((1, 6))
    lost[0, 2] = 0.5
    found = ran(fleet([7.8] * 6, start=2, lost_share=lost), [4.0] * 6, block_of=np.arange(6))
    assert found.attainment()[0, :4] == pytest.approx([1.0, 1.0, 0.0, 0.0], abs=1e-6)
    assert found.cost.sum() == pytest.approx(4 * 6 / 60)
    assert found.starts.sum() == 0


def test_replicas_that_are_lost_and_taken_away_are_never_fewer_than_none() -> None:
    draw, seen = random_generator(7), []

    class Shrinking:
        reproduces = "nothing"

        def decide(self, each: Any) -> Any:
            seen.append((each.ready.copy(), np.array(each.replicas)))
            return np.floor(draw.uniform(0, 6, (3, 2)))

    lost = np.where(draw.random((2, 200)) < 0.3, 0.5, 0.0)
    subject = fleet(np.full((2, 200), 4.0), start_steps=draw.integers(0, 9, (2, 200)), lost_share=lost)
    simulate(subject, Shrinking(), np.full((3, 2), 4.0), np.zeros(200, int))
    assert all((ready >= 0).all() and (ready <= replicas).all() for ready, replicas in seen)


def test_replicas_that_carry_less_than_believed_keep_fewer_targets() -> None:
    assert ran(fleet([8.0] * 3, true_share=0.9), [4.0] * 3).attainment()[0, 0] < 0.5


def test_without_metrics_an_autoscaler_keeps_what_it_has() -> None:
    answers: list[bool] = []

    class Recorder:
        reproduces = "nothing"

        def decide(self, seen: Any) -> Any:
            answers.append(seen.answers)
            return seen.replicas

    simulate(fleet([1.0] * 3, silent=np.array([False, True, False])), Recorder(), np.ones((1, 1)), np.zeros(3, int))
    assert answers == [True, False, True]


def test_an_hpa_follows_a_load_and_pays_for_what_starts() -> None:
    offered = [3.95] * 30 + [11.9] * 90
    scaler = HorizontalPodAutoscaler(
        metrics=[Metric(signal="load", kind=MetricKind.EXTERNAL_AVERAGE, target=np.array([[1.0], [0.5]]))],
        sync_s=STEP_S,
    )
    found = simulate(fleet(offered, start=5), scaler, np.full((2, 1), 4.0), np.repeat([0, 1, 2, 3], 30))
    assert found.cost[0, 0, 3] == pytest.approx(6 * 0.5)
    assert found.cost[1, 0, 3] == pytest.approx(12 * 0.5)
    assert found.attainment()[:, 3] == pytest.approx([1.0, 1.0])
    assert found.attainment()[0, 1] < found.attainment()[1, 1] < 1.0


def test_office_hours_end_in_the_evening_and_on_friday() -> None:
    hours, day_s, hour_s = OfficeHours(start_h=8, end_h=18), 86_400.0, 3600.0
    moments = np.array([6.0, 9.0, 19.0, 4 * 24 + 18.0, 5 * 24 + 1.0])
    expected = np.array([8.0, 9.0, 24 + 8.0, 7 * 24 + 8.0, 7 * 24 + 8.0])
    assert hours.next_open(START_S + moments * hour_s).tolist() == (START_S + expected * hour_s).tolist()
    assert day_s == 24 * hour_s


def test_a_spread_has_its_quantiles_and_the_same_seed_the_same_draws() -> None:
    spread = Spread(low_s=300.0, median_s=900.0, high_s=3600.0)
    drawn = spread.draw(random_generator(1, "merge"), (20_000,))
    assert np.quantile(drawn, (0.1, 0.5, 0.9)) == pytest.approx([300.0, 900.0, 3600.0], rel=0.08)
    assert (drawn == spread.draw(random_generator(1, "merge"), (20_000,))).all()
    assert (drawn != spread.draw(random_generator(1, "start"), (20_000,))).any()
    assert (Spread.always(60.0).draw(random_generator(1), (3,)) == 60.0).all()


def way(merge_s: float = 600.0, run_s: float = 600.0, **fields: Any) -> Way:
    """A pull request of ten minutes, two minutes of sync, three of start."""
    values: dict[str, Any] = {"sync_s": 120.0, "start": Spread.always(180.0), "group_of": np.zeros(1, dtype=int)}
    return Way(run_s=run_s, merge=Spread.always(merge_s), **(values | fields))


def by_git(wanted: list[float], way: Way, offered: float = 1.0) -> list[float]:
    """What reaches the cluster of numbers that a rule wants from minute to minute."""
    steps, seen = len(wanted), []

    class Spy(ThroughGit):
        def decide(self, each: Any) -> Any:
            seen.append(super().decide(each)[0, 0])
            return np.array([[seen[-1]]])

    rule = Planned(np.array([wanted]), START_S, STEP_S)
    spy = Spy(
        rule,
        run_s=way.run_s,
        step_s=STEP_S,
        merge=way.merge,
        sync_s=way.sync_s,
        group_of=way.group_of,
        seed=1,
        hours=way.hours,
        worth=way.worth,
    )
    simulate(fleet([offered] * steps), spy, np.full((1, 1), wanted[0]), np.zeros(steps, int))
    return seen


def test_a_number_waits_for_its_run_its_merge_and_its_sync() -> None:
    found = by_git([1.0] * 5 + [3.0] * 55, way())
    assert found.index(3.0) == 10 + 10 + 2


def test_a_pull_request_is_updated_until_it_is_merged_and_closed_when_nothing_is_left() -> None:
    found = by_git([1.0] * 5 + [3.0] * 10 + [5.0] * 45, way(merge_s=1200.0))
    assert found.index(5.0) == 10 + 20 + 2
    assert 3.0 not in found
    assert set(by_git([1.0] * 5 + [3.0] * 10 + [1.0] * 45, way(merge_s=1200.0))) == {1.0}


@pytest.mark.parametrize(
    ("wanted", "offered", "merged"),
    [
        *[(103.0, 100.0, False), (104.0, 100.0, True), (94.0, 100.0, False), (93.0, 100.0, True)],
        *[(103.0, 209.0, False), (103.0, 211.0, True)],  # a hundred replicas carry 200 req/s
    ],
)
def test_a_pull_request_opens_once_it_is_worth_it_or_one_runs_short(
    wanted: float, offered: float, *, merged: bool
) -> None:
    found = by_git([100.0] * 5 + [wanted] * 55, way(worth=Worth()), offered)
    assert set(found[:22]) == {100.0}
    assert set(found[22:]) == {wanted if merged else 100.0}


def test_people_merge_nothing_at_night() -> None:
    found = by_git([1.0] * 5 + [3.0] * 595, way(hours=OfficeHours()))
    assert found.index(3.0) == 8 * 60 + 2


def test_the_past_has_whole_hours_that_end_when_the_fleet_begins() -> None:
    per_s = np.full((2, 150), np.nan)
    per_s[0, 10:40], per_s[0, 90:], per_s[1, 5] = 3.0, 6.0, 7.0
    past = Past.of(per_s, 60.0)
    assert past.hourly_per_s.tolist() == [[3.0, 6.0], [0.0, 0.0]]
    assert past.most_per_s.tolist() == [6.0, 7.0]


def test_settings_of_a_policy_are_simulated_as_each_alone() -> None:
    draw = random_generator(3)
    subject = fleet(draw.uniform(2, 20, (2, 240)), start_steps=draw.integers(0, 6, (2, 240)))
    past = 1000 * draw.uniform(2, 20, (2, 1440))
    plan = way(group_of=np.array([0, 1]))
    for policy in POLICIES.values():
        count = len(policy.settings)
        block_of = np.zeros(240, int)
        found = simulate(subject, policy.build(subject, Past.of(past, 60.0), plan), np.full((count, 2), 8.0), block_of)
        alone = fleet(subject.offered_per_s[1:] / 1000, start_steps=subject.start_steps[1:])
        scaler = policy.build(alone, Past.of(past[1:], 60.0), way(group_of=np.zeros(1, int)))
        of_one = simulate(alone, scaler, np.full((count, 1), 8.0), block_of)
        assert found.kept[:, 1].tolist() == of_one.kept[:, 0].tolist(), policy.name
        assert found.offered.shape == (count, 2, 1)


def test_more_capacity_for_each_request_keeps_more_targets_and_costs_more() -> None:
    draw = random_generator(4)
    subject = fleet(10 + 6 * np.sin(np.arange(1440) / 230) + draw.normal(0, 1, 1440), start=4)
    policy = POLICIES["HPA on arrival rate"]
    scaler = policy.build(subject, Past.of(np.empty((1, 0)), 60.0), way())
    found = simulate(subject, scaler, np.full((24, 1), 9.0), np.zeros(1440, int))
    cost, kept = found.cost[:, 0, 0].reshape(6, 4), found.attainment()[:, 0].reshape(6, 4)
    assert (np.diff(cost, axis=0) < 0).all()
    assert (np.diff(kept, axis=0) <= 1e-9).all()
    assert (np.diff(cost, axis=1) >= 0).all()


def test_no_policy_is_cheaper_than_one_who_knows_what_comes() -> None:
    draw = random_generator(5)
    subject = fleet(10 + 6 * np.sin(np.arange(1440) / 230) + draw.normal(0, 1, 1440), start=3)
    plan, blocks = way(), np.zeros(1440, int)

    def served(delayed: bool, start: int) -> Ledger:
        known = clairvoyant(subject, plan, delayed=delayed)
        least = fleet(subject.offered_per_s / 1000, start)
        return simulate(least, known, known.decide(_at_start())[None].astype(float), blocks)

    def _at_start() -> Any:
        class At:
            at_s = START_S

        return At()

    at_once, delayed = served(False, 0), served(True, 3)
    assert at_once.attainment()[0, 0] > 0.995
    assert delayed.attainment()[0, 0] > 0.995
    assert at_once.cost.sum() < delayed.cost.sum()
    for policy in POLICIES.values():
        count = len(policy.settings)
        scaler = policy.build(subject, Past.of(subject.offered_per_s, 60.0), plan)
        found = simulate(subject, scaler, np.full((count, 1), 8.0), blocks)
        good = found.attainment()[:, 0] >= 0.9999
        assert (found.cost.sum(axis=(1, 2))[good] > at_once.cost.sum()).all(), policy.name


def test_a_batch_follows_from_the_profile_by_littles_law() -> None:
    profile = PerformanceProfile(
        accelerator="A100", alpha_s=0.01, beta_s=0.0005, gamma_s=0.1, delta_s=0.00001, max_batch_size=60
    )
    option = Option(
        profile=profile,
        accelerator="A100",
        accelerators_per_replica=1,
        devices_per_replica=1,
        resource="nvidia.com/gpu",
        cost_per_hour=None,
        cost_place=None,
    )
    load = Load(
        arrival_rate_per_s=1.0,
        output_tokens=200.0,
        input_tokens=1000.0,
        window_s=60.0,
        arrivals_from=ArrivalSource.REPLICAS,
    )
    # a request alone takes 0.1 + 200 * 0.01 = 2.1 s, and each other one adds 0.01 + 200 * 0.0005 = 0.11 s
    assert batch_of(option, load, 4.0) == pytest.approx((15.0, 0.44, 4.0, 1000 / 1200))
    assert batch_of(option, load, 9.0)[0] == 60.0, "the largest batch"
    assert batch_of(option, replace(load, output_tokens=0.0), 4.0) == pytest.approx(
        (np.inf, np.nan, np.nan, 1.0), nan_ok=True
    )
