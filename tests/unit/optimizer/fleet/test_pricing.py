"""What models would run at given prices, and what that proves."""

import itertools
import math
import random
from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from reconciler.domain.requirements import Problem
from reconciler.optimizer.columns import GAP, generate
from reconciler.optimizer.enumeration import BestCounts, Pairs, best_mixes, least_by_row
from reconciler.optimizer.formulation import UNBOUNDED, Formulation, formulate, part_of
from reconciler.optimizer.highs import Floats
from reconciler.optimizer.mixed_integer import FleetProgramme, solve_mixed_integer
from reconciler.optimizer.planning import FleetPlan, plan_directly, value_of
from reconciler.optimizer.pricing import Pricing, Regrets
from reconciler.optimizer.rounding import round_shares

Draw = Callable[[int], Problem]
SEEDS = range(60)


def prices_of(formulation: Formulation, seed: int) -> Floats:
    draw = random.Random(seed)  # noqa: S311 - the same prices in every run
    return np.array(draw.choices([0.0, 0.3, 1.0, 4.0, 50.0], k=len(formulation.shared)))


def optimum(formulation: Formulation) -> float:
    found = solve_mixed_integer(formulation, gap=0.0, nodes=100_000)
    return math.inf if found.counts is None else value_of(formulation, found.counts)


def configurations(formulation: Formulation) -> Iterator[tuple[int, ...]]:
    """Whole counts of one row, none above all that it wants or what stands, that keep its own rules."""
    choices, variants, rows = formulation.choices, formulation.variants, formulation.rows
    most = np.maximum.reduce(
        [np.ceil(rows.demand[choices.row] / choices.carried), choices.standing, choices.lowest, 0 * choices.lowest + 1]
    )
    for counts in itertools.product(*(range(int(least) + 1) for least in np.minimum(most, choices.highest))):
        taken = np.array(counts)
        active = np.bincount(choices.variant, taken > 0, minlength=len(variants.keys))
        is_bound = ((taken == 0) | (taken >= choices.lowest)).all() and (active >= variants.is_forced).all()
        if (
            is_bound
            and (active <= 1).all()
            and active.sum() <= rows.active_limit[0]
            and choices.carried @ taken >= rows.must[0] - 1e-9
        ):
            yield counts


def test_models_answer_prices_as_the_general_programme_does(draw_varied_fleet: Draw) -> None:
    compared = 0
    for seed in SEEDS:
        formulation = formulate(draw_varied_fleet(seed))
        priced = formulation.priced(prices_of(formulation, seed))
        best = Pairs(formulation).best(priced)
        if not Pairs(formulation).is_paired.all():
            continue
        least = np.full(len(formulation.rows.requirements), np.inf)
        np.minimum.at(least, best.row, best.value)
        expected = optimum(priced)
        compared += math.isfinite(expected)
        assert math.isclose(least.sum(), expected, rel_tol=1e-7, abs_tol=1e-6), seed
    assert compared >= 20


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 400), prices=st.lists(st.floats(0, 100), min_size=20, max_size=20))
@example(seed=58, prices=[0.0, 0.0, 5e-324, *[0.0] * 17])
def test_no_prices_prove_more_than_the_optimum(draw_varied_fleet: Draw, seed: int, prices: list[float]) -> None:
    formulation = formulate(draw_varied_fleet(seed))
    answer = Pricing(formulation).best_at(np.array(prices[: len(formulation.shared)]))
    if not len(answer.infeasible):
        assert answer.bound <= optimum(formulation) + 1e-6


def test_generated_prices_prove_their_bound_and_fractions_reach_no_less(draw_fleet: Draw) -> None:
    compared = 0
    for seed in SEEDS:
        formulation = formulate(draw_fleet(seed))
        generated = generate(formulation)
        best = optimum(formulation)
        if len(generated.infeasible) or generated.excess.max(initial=0.0) > 1e-6:
            assert math.isinf(best), seed
            continue
        compared += 1
        fractions = float(generated.columns.worth.value @ generated.share)
        assert math.isclose(Pricing(formulation).best_at(generated.prices).bound, generated.bound, abs_tol=1e-6), seed
        assert generated.bound <= fractions + 1e-6, seed
        assert fractions - generated.bound <= GAP * abs(fractions) + 1e-6, seed
        assert fractions <= best + 1e-6, seed
    assert compared >= 20


def test_a_rounded_plan_lies_between_its_proof_and_its_value(draw_fleet: Draw) -> None:
    rounded = 0
    for seed in SEEDS:
        formulation = formulate(draw_fleet(seed))
        generated = generate(formulation)
        if len(generated.infeasible) or generated.excess.max(initial=0.0) > 1e-6:
            continue
        plan = round_shares(formulation, generated)
        if plan is not None:
            rounded += 1
            assert plan.bound - 1e-6 <= optimum(formulation) <= plan.columns.value + 1e-6, seed
    assert rounded >= 15


def test_a_plan_stands_for_columns_that_keep_every_row_and_cost_as_much(draw_varied_fleet: Draw) -> None:
    compared = 0
    for seed in SEEDS:
        formulation = formulate(draw_varied_fleet(seed))
        plan = plan_directly(formulation)
        if not isinstance(plan, FleetPlan) or not formulation.choices.keys:
            continue
        compared += 1
        programme = FleetProgramme(formulation)
        asked, values = programme.asked(programme.integrality), programme.values(plan.counts)
        assert ((values >= asked.least - 1e-9) & (values <= asked.most + 1e-9)).all(), seed
        rows: Floats = np.zeros(len(asked.lower)) + asked.matrix @ values
        assert ((rows >= asked.lower - 1e-6) & (rows <= asked.upper + 1e-6)).all(), seed
        assert programme.objective @ values == pytest.approx(plan.value), seed
    assert compared >= 20


@pytest.mark.parametrize("active_limit", [2, 3, UNBOUNDED])
def test_every_configuration_within_a_regret_is_found(draw_varied_fleet: Draw, active_limit: int) -> None:
    compared = 0
    for seed in range(400):
        formulation = serving(formulate(draw_varied_fleet(seed)), active_limit)
        pairs = Pairs(formulation)
        if len(formulation.rows.requirements) != 1 or not pairs.is_listed.all() or not formulation.choices.keys:
            continue
        nothing = np.zeros(len(formulation.shared))
        priced, answer = formulation.priced(nothing), Pricing(formulation).best_at(nothing)
        regrets = Regrets(priced=priced, pairs=pairs, least=answer.least)
        if not np.isfinite(regrets.least).all():
            continue
        listed = regrets.listed(regrets.within(5.0)).configurations
        found = {tuple(row) for row in listed.counts.toarray().astype(int).tolist()}
        for counts in configurations(formulation):
            if value_of(formulation, np.array(counts)) <= regrets.least[0] + 5.0 - 1e-6:
                compared += 1
                assert counts in found or is_in_vain(formulation, counts), (seed, counts)
    assert compared >= 100


def serving(formulation: Formulation, active_limit: int) -> Formulation:
    """The same fleet, of whose models at least so many variants may serve at once."""
    rows = formulation.rows
    return replace(formulation, rows=replace(rows, active_limit=np.maximum(rows.active_limit, active_limit)))


def is_in_vain(formulation: Formulation, counts: tuple[int, ...]) -> bool:
    """Whether one replica less of some choice covers as much, and changes no more."""
    choices, rows = formulation.choices, formulation.rows
    spare = choices.carried @ np.array(counts) - rows.demand[0]
    is_free = (np.array(counts) > np.maximum(choices.lowest, 1)) & (np.array(counts) != choices.standing)
    return bool((is_free & (choices.carried <= spare + 1e-9)).any())


@settings(max_examples=200, deadline=None)
@given(seed=st.integers(0, 2_000), prices=st.lists(st.floats(0, 10), min_size=20, max_size=20), limit=st.integers(3, 6))
def test_models_of_many_variants_answer_prices_as_the_general_programme_does(
    draw_varied_fleet: Draw, seed: int, prices: list[float], limit: int
) -> None:
    formulation = serving(formulate(draw_varied_fleet(seed)), limit)
    priced = formulation.priced(np.array(prices[: len(formulation.shared)]))
    pairs = Pairs(formulation)
    rows = np.flatnonzero(pairs.is_mixed)
    for known in (least_by_row(priced, pairs.best(priced)), np.full(len(pairs.is_paired), np.inf)):
        for mixed in best_mixes(priced, known, rows):
            for row, value in zip(mixed.row.tolist(), mixed.value.tolist(), strict=True):
                expected = optimum(part_of(priced, np.arange(len(known)) == row).formulation)
                assert math.isclose(value, expected, rel_tol=1e-7, abs_tol=1e-6), row


def test_narrowed_counts_lose_nothing_that_is_near_the_best(draw_varied_fleet: Draw) -> None:
    compared = 0
    for seed in range(300):
        formulation = formulate(draw_varied_fleet(seed))
        priced = formulation.priced(prices_of(formulation, seed))
        pairs = Pairs(formulation)
        everything = pairs.best(priced, regret=math.inf)
        everything = everything.at(np.isfinite(everything.value))
        least = least_by_row(priced, everything)[everything.row]
        for near in (0.0, 0.02, 0.5):
            limit = least + near * np.abs(least) + 1e-9 * np.abs(least)
            found = {each[:-1]: each[-1] for each in named(pairs.best(priced, near=near))}
            for *sides, value in named(everything.at(everything.value <= limit)):
                compared += 1
                assert math.isclose(found[tuple(sides)], value, rel_tol=1e-9, abs_tol=1e-9), seed
    assert compared >= 1_000


def named(best: BestCounts) -> list[tuple[float, ...]]:
    """Row, the two choices in rising order, and what they are worth at best."""
    sides = np.sort(np.stack([best.first, best.second], axis=1), axis=1)
    return [tuple(each) for each in np.column_stack([best.row, sides, best.value]).tolist()]
