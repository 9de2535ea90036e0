"""Random whole fleets, each decided about: what is promised of plans and of their pull requests, counted anew."""

import os
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import Any

import pytest

from reconciler.decision.decide import solve
from reconciler.decision.limits import collected, within_limits
from reconciler.domain.inventory import Allocation
from reconciler.domain.plan import Outcome, Plan

FLEETS = int(os.environ.get("ATTACK_FLEETS", "50"))
BATCH = 10
RUNS = 12
"""Runs, each merged whole, after which nothing may be left to change."""

ACCELERATORS = ("A100", "H100", "L4")
PRICES = {"H100": 6.0, "A100": 4.0, "L4": 1.0, "B200": 2.5}
EACH = 0.999
"""What a replica carries for each of its largest batch."""

GAP = 1e-3
"""How far a plan may be from the best, as a fraction: what the optimizer promises."""

NOISE = 1e-6


@dataclass(slots=True, kw_only=True)
class Drawn:
    """A fleet as it was drawn: what each variant may run on and carries there, and what is asked of each model."""

    rates: dict[str, float] = field(default_factory=dict)
    variants: dict[str, dict[str, Any]] = field(default_factory=dict)
    stock: dict[str, int] = field(default_factory=dict)
    proposed: list[tuple[str, int]] = field(default_factory=list)

    def carried(self, name: str, placed: Allocation) -> float:
        return EACH * int(self.variants[name]["batches"].get(placed.accelerator, 0)) * placed.replicas

    def devices(self, name: str, placed: Allocation) -> dict[str, int]:
        return {placed.accelerator: self.variants[name]["devices"] * placed.replicas}


def drawn(seed: int) -> Drawn:
    """The fleet that a seed stands for."""
    draw = random.Random(f"fleet/{seed}")  # noqa: S311 - the same in every run
    fleet, needed = Drawn(), dict.fromkeys(ACCELERATORS, 0)
    groups = [f"group-{index}" for index in range(draw.randint(2, 5))]
    for index in range(draw.randint(2, 5)):
        model, priority = f"model-{index}", draw.choice((0, 0, 0, 10))
        fleet.rates[model] = round(draw.uniform(0.0, 70.0), 1)
        for number in range(draw.randint(1, 3)):
            names = draw.sample(ACCELERATORS, draw.choice((1, 1, 2)))
            least = draw.choice((0, 0, 0, 1))
            replicas, runs_on = max(draw.randint(0, 6), least), draw.choice(names)
            devices = draw.choice((1, 1, 2))
            fleet.variants[f"{model}-{number}"] = {
                "model_id": model,
                "group": draw.choice(groups),
                "batches": {name: draw.choice((5, 10, 10, 15)) for name in names},
                "devices": devices,
                "replicas": replicas,
                "runs_on": runs_on,
                "min_replicas": least,
                "max_replicas": draw.choice((None, None, None, 6)),
                "priority": priority,
                "is_unready": draw.random() < 0.1,
            }
            needed[runs_on] += devices * replicas
    fleet.stock = {name: max(count + draw.choice((-1, 0, 0, 1, 3, 9)), 0) for name, count in needed.items()}
    if draw.random() < 0.3:
        name = draw.choice(sorted(fleet.variants))
        fleet.proposed.append((name, draw.randint(0, 6)))
    return fleet


def built(empty: Any, make: Any, fleet: Drawn, order: Callable[[list[str]], list[str]] = sorted) -> Any:
    """The fleet to decide about, declared in some order."""
    made = empty()
    for name in order(sorted(fleet.variants)):
        each = fleet.variants[name]
        key = made.add(
            name,
            replicas=each["replicas"],
            runs_on=each["runs_on"],
            model_id=each["model_id"],
            profiles=tuple(make.profile(*pair) for pair in each["batches"].items()),
            annotations={"group": each["group"]},
            workload={"devices": {"nvidia.com/gpu": each["devices"]}},
            min_replicas=each["min_replicas"],
            max_replicas=each["max_replicas"],
        )
        made.prioritise(name, each["priority"])
        if each["is_unready"] and each["replicas"]:
            made.observations[key] = replace(made.observations[key], replicas_reporting=each["replicas"] - 1)
    for model in order(sorted(fleet.rates)):
        made.offer(fleet.rates[model], model)
    for name, replicas in fleet.proposed:
        each = fleet.variants[name]
        before, after = f"{each['replicas']} x {each['runs_on']}", f"{replicas} x {each['runs_on']}"
        made.propose(make.change(name, before, after), group=each["group"])
    made.stock(**fleet.stock)
    return made


def shuffled(names: list[str]) -> list[str]:
    return random.Random(len(names)).sample(names, len(names))  # noqa: S311 - the same in every run


def subsets(plan: Plan) -> Iterator[dict[str, Allocation]]:
    """What runs after each subset of the pull requests is merged, those of up to five groups; the others are not."""
    groups = sorted({each.group for each in plan.decisions if each.outcome is Outcome.CHANGE})
    for size in range(1, 6):
        for merged in combinations(groups, size):
            yield {each.variant.name: each.desired if each.group in merged else each.current for each in plan.decisions}


def served(fleet: Drawn, placed: dict[str, Allocation]) -> dict[str, float]:
    """By model what its replicas carry."""
    totals = dict.fromkeys(fleet.rates, 0.0)
    for name, each in placed.items():
        totals[fleet.variants[name]["model_id"]] += fleet.carried(name, each)
    return totals


def used(fleet: Drawn, placed: dict[str, Allocation], before: dict[str, Allocation]) -> dict[str, int]:
    """By pool what runs while everything comes to be: what moves keeps its old replicas until the new ones serve."""
    totals = dict.fromkeys(ACCELERATORS, 0)
    for name, each in placed.items():
        for pool, count in fleet.devices(name, each).items():
            totals[pool] += count
        if each.replicas and each.accelerator != before[name].accelerator:
            for pool, count in fleet.devices(name, before[name]).items():
                totals[pool] += count
    return totals


@pytest.fixture
def empty(fleet: Any) -> Callable[[], Any]:
    """A maker of fresh copies of the priced, empty fleet."""
    fleet.price(**PRICES)

    def copy() -> Any:
        return replace(fleet, resources=[], workloads=[], loads={}, observations={}, proposals=[], priorities={})

    return copy


def is_served(plan: Plan) -> bool:
    """Whether every model gets what it asks for, none of them held by rules that contradict each other."""
    return not plan.with_outcome(Outcome.HELD) and all(
        each.given >= each.needed * (1 - NOISE) for each in plan.coverages
    )


def waits_for_ever(plan: Plan) -> bool:
    """Whether somebody waits for devices that no pull request frees."""
    return any("which no pull request frees" in str(each.waiting) for each in plan.decisions)


@pytest.fixture(scope="module")
def known() -> dict[int, Plan]:
    """The plans of fleets as they were drawn, by seed."""
    return {}


@pytest.fixture
def planned(empty: Any, make: Any, known: dict[int, Plan]) -> Callable[[int], Plan]:
    """The plan of the fleet that a seed stands for."""

    def plan(seed: int) -> Plan:
        if seed not in known:
            known[seed] = built(empty, make, drawn(seed)).plan()
        return known[seed]

    return plan


@pytest.fixture(params=range(0, FLEETS, BATCH))
def seeds(request: pytest.FixtureRequest) -> range:
    """Some of all fleets."""
    first: int = request.param
    return range(first, min(first + BATCH, FLEETS))


def test_every_subset_of_pull_requests_fits_and_serves(planned: Callable[[int], Plan], seeds: range) -> None:
    for seed in seeds:
        fleet, plan = drawn(seed), planned(seed)
        before = {each.variant.name: each.current for each in plan.decisions}
        now, standing = served(fleet, before), used(fleet, before, before)
        given = {each.model.model_id: each.given for each in plan.coverages}
        for placed in subsets(plan):
            for pool, count in used(fleet, placed, before).items():
                assert count <= max(fleet.stock[pool], standing[pool]), (seed, pool, placed)
            for model, carried in served(fleet, placed).items():
                aim = min(fleet.rates[model], now[model], given.get(model, 0.0))
                assert carried >= aim * (1 - NOISE), (seed, model, carried, aim, placed)


def test_whatever_stays_for_a_reason_is_counted_as_held(planned: Callable[[int], Plan], seeds: range) -> None:
    for seed in seeds:
        plan = planned(seed)
        for each in plan.decisions:
            assert (each.hold is not None) is (each.outcome is Outcome.HELD), f"seed {seed}: {each.variant}"
        assert plan.tally["held"] == sum(each.hold is not None for each in plan.decisions)


def test_the_order_of_the_input_changes_nothing(
    empty: Any, make: Any, planned: Callable[[int], Plan], seeds: range
) -> None:
    for seed in seeds:
        assert built(empty, make, drawn(seed), shuffled).plan() == planned(seed), seed


def test_more_demand_costs_no_less(empty: Any, make: Any, planned: Callable[[int], Plan], seeds: range) -> None:
    for seed in seeds:
        more = drawn(seed)
        more.rates[sorted(more.rates)[seed % len(more.rates)]] += 10.0
        _is_no_worse(built(empty, make, more).plan(), planned(seed), seed)


def test_more_devices_cost_no_more(empty: Any, make: Any, planned: Callable[[int], Plan], seeds: range) -> None:
    for seed in seeds:
        more = drawn(seed)
        more.stock = {name: count + 2 for name, count in more.stock.items()}
        _is_no_worse(planned(seed), built(empty, make, more).plan(), seed)


def test_one_more_accelerator_costs_no_more(
    empty: Any, make: Any, planned: Callable[[int], Plan], seeds: range
) -> None:
    for seed in seeds:
        more = drawn(seed)
        more.variants[sorted(more.variants)[seed % len(more.variants)]]["batches"]["B200"] = 15
        more.stock["B200"] = 8
        _is_no_worse(planned(seed), built(empty, make, more).plan(), seed)


def _is_no_worse(tighter: Plan, roomier: Plan, seed: int) -> None:
    # Where nobody can move, a plan that can be reached is told instead of the best: it promises less, or costs more.
    if is_served(tighter) and not any(map(waits_for_ever, (tighter, roomier))):
        assert is_served(roomier), seed
        assert roomier.value <= tighter.value * (1 + GAP) + NOISE, seed


def _desired(plan: Plan) -> dict[str, Allocation]:
    return {each.variant.name: each.desired for each in plan.decisions}


def test_unrelated_models_change_nothing(empty: Any, make: Any, planned: Callable[[int], Plan], seeds: range) -> None:
    for seed in seeds:
        fleet = drawn(seed)
        alone = _desired(planned(seed))
        fleet.rates["other"], fleet.stock["B200"] = 33.0, 9
        other = next(iter(fleet.variants.values()))
        fleet.variants["other"] = {**other, "model_id": "other", "runs_on": "B200", "batches": {"B200": 10}}
        fleet.variants["other"] |= {"group": "other", "replicas": 1, "min_replicas": 0, "max_replicas": None}
        beside = _desired(built(empty, make, fleet).plan())
        assert {name: beside[name] for name in alone} == alone, seed


def at_rest(empty: Any, make: Any, seed: int) -> tuple[Drawn, Plan]:
    """A fleet after as many runs as it takes, each merged whole, all of it ready, and the plan that changes nothing."""
    fleet = drawn(seed)
    fleet.proposed.clear()
    for each in fleet.variants.values():
        each["is_unready"] = False
    made = built(empty, make, fleet)
    for _ in range(RUNS):
        if not made.plan().with_outcome(Outcome.CHANGE):
            break
        made.merge()
    return fleet, made.plan()


def test_a_plan_that_is_merged_comes_to_rest(empty: Any, make: Any, seeds: range) -> None:
    for seed in seeds:
        fleet, plan = at_rest(empty, make, seed)
        assert not plan.with_outcome(Outcome.CHANGE), seed
        assert not list(_more(fleet, plan)), seed


def _more(fleet: Drawn, plan: Plan) -> Iterator[str]:
    """Variants of models that are short for ever, of which one more replica would fit."""
    placed = {each.variant.name: each.current for each in plan.decisions}
    left = {name: fleet.stock[name] - count for name, count in used(fleet, placed, placed).items()}
    carried = served(fleet, placed)
    needed = {each.model.model_id: each.needed for each in plan.coverages}
    held = {each.variant.name for each in plan.with_outcome(Outcome.HELD)}
    for name, each in fleet.variants.items():
        model, now = each["model_id"], placed[name]
        others = {other for other, at in placed.items() if at.replicas and fleet.variants[other]["model_id"] == model}
        most = 99 if each["max_replicas"] is None else each["max_replicas"]
        is_open = name not in held and now.replicas < most and len(others | {name}) <= 2
        if carried[model] < needed.get(model, 0.0) * (1 - NOISE) and is_open:
            accelerators = {now.accelerator} if now.replicas else set(each["batches"])
            yield from (
                f"{name} on {on}" for on in accelerators & each["batches"].keys() if left[on] >= each["devices"]
            )


@pytest.mark.parametrize(
    ("seed", "model", "least"),
    [
        (4, "model-3", 9.5),  # urgent, and had nothing
        (41, "model-3", 29.9),  # had a third of that
        (42, "model-3", 42.5),  # urgent, and had nothing
        (104, "model-1", 29.9),  # had half of that
    ],
)
def test_models_that_wait_for_each_other_keep_nobody_short(
    empty: Any, make: Any, seed: int, model: str, least: float
) -> None:
    """Each of these fleets aims at a plan that never comes, for old replicas run until new ones serve."""
    fleet, plan = at_rest(empty, make, seed)

    assert served(fleet, {each.variant.name: each.current for each in plan.decisions})[model] >= least


@dataclass(frozen=True, slots=True)
class Shown:
    """A pull request as it stands after a run: what it says, and whether that is what it said before."""

    says: dict[str, Allocation]
    is_old: bool


def limited(empty: Any, make: Any, seed: int) -> tuple[Drawn, Plan, list[Shown], int]:
    """A run within limits an hour after the plan of a seed was proposed whole: others ask now, some were just pushed.

    What it decides, every pull request as it stands then, and how many were put back.
    """
    draw = random.Random(f"limits/{seed}")  # noqa: S311 - the same in every run
    fleet = drawn(seed)
    first = built(empty, make, fleet).plan()
    fleet.proposed.clear()
    fleet.rates = {
        model: round(rate * draw.choice((0.3, 0.7, 1.0, 1.5, 2.0)), 1) for model, rate in fleet.rates.items()
    }
    made = built(empty, make, fleet)
    limits = {"open_at_once": draw.choice((0, 2, 5)), "created_per_hour": draw.choice((0, 1)), "pushes_per_hour": 1}
    made.set(pull_requests=replace(made.settings.pull_requests, **limits))
    for number, group in enumerate((each for each in first.groups if each.changes), start=1):
        made.propose(
            *(change.change.proposed for change in group.changes),
            group=group.name,
            part=group.part,
            number=number,
            branch_decision=group.fingerprint,
            pushes_s=(made.now_s - 60,) if draw.random() < 0.5 else (),
            opened_at_s=made.now_s - 5400,
        )
    solved = solve(made.snapshot(), {})
    plan = collected(solved.situation, solved.staged, solved.plan_of(solved.staged))
    standing = {each.head_branch: each for each in made.proposals}
    shown, put_back = [], 0
    for each in within_limits(solved.situation, plan.groups):
        put_back += bool(each.put_back)
        old = standing.get(each.head_branch)
        if old is not None and (each.blocked is not None or old.branch_decision == each.fingerprint):
            after = old.merged(solved.situation.current)
            told = {change.resource for change in old.changes}
            shown.append(Shown({key.name: value for key, value in after.items() if str(key) in told}, is_old=True))
        elif each.blocked is None and each.changes:
            shown.append(Shown({change.variant.name: change.desired for change in each.changes}, is_old=False))
    return fleet, plan, shown, put_back


def test_every_subset_of_what_limits_leave_fits_and_serves(empty: Any, make: Any, seeds: range) -> None:
    """Or is no worse than what stayed as it stood: nothing that is opened or pushed beside that adds to it."""
    all_put_back = 0
    for seed in seeds:
        fleet, plan, shown, put_back = limited(empty, make, seed)
        all_put_back += put_back
        before = {each.variant.name: each.current for each in plan.decisions}
        now, running = served(fleet, before), used(fleet, before, before)
        given = {each.model.model_id: each.given for each in plan.coverages}
        for size in range(1, 6):
            for merged in combinations(shown, size):
                placed, old = dict(before), dict(before)
                for each in merged:
                    placed |= each.says
                    old |= each.says if each.is_old else {}
                by_old, of_old = served(fleet, old), used(fleet, old, before)
                for pool, count in used(fleet, placed, before).items():
                    assert count <= max(fleet.stock[pool], running[pool], of_old[pool]), (seed, pool, placed)
                for model, carried in served(fleet, placed).items():
                    aim = min(fleet.rates[model], now[model], given.get(model, 0.0), by_old[model])
                    assert carried >= aim * (1 - NOISE), (seed, model, carried, aim, placed)
    assert all_put_back
