"""What is measured is the same fleet everywhere, and as scarce as it is called."""

from dataclasses import replace

import pytest

from reconciler.decision.decide import SOLVERS
from reconciler.optimizer import pricing
from reconciler.optimizer.device_use import violations
from tests.bench.optimizer import solve
from tests.bench.problems import Instance, draw

SMALL = Instance(models=60, pools_at=0.7)


def test_a_seed_stands_for_one_fleet() -> None:
    assert draw(SMALL) == draw(SMALL)
    assert draw(SMALL) != draw(replace(SMALL, seed=2))


@pytest.mark.parametrize("seed", range(1, 6))
def test_what_runs_fits_into_the_pools(seed: int) -> None:
    problem = draw(replace(SMALL, seed=seed))
    taken = dict.fromkeys((pool.name for pool in problem.pools), 0)
    for key, runs in problem.current.items():
        taken[runs.accelerator] += runs.replicas * problem.current_devices[key][runs.accelerator]

    assert all(taken[pool.name] <= pool.devices for pool in problem.pools)


def test_fewer_devices_are_another_share_of_the_same_demand() -> None:
    scarce, roomy = draw(SMALL), draw(replace(SMALL, pools_at=1.4))

    assert scarce.requirements == roomy.requirements
    assert scarce.candidates == roomy.candidates
    assert all(less.devices <= more.devices for less, more in zip(scarce.pools, roomy.pools, strict=True))


def test_a_plan_of_an_unpriced_fleet_keeps_its_rules() -> None:
    problem = draw(replace(SMALL, models=8, is_priced=False))

    assert violations(problem, SOLVERS["auto"].solve(problem).allocations) == ()


def test_what_is_told_of_an_instance_agrees_with_itself() -> None:
    solved = solve(replace(SMALL, models=8), "auto")

    assert solved.bound <= solved.value
    assert solved.greedy_value is None or solved.greedy_value >= solved.bound
    assert all(0 <= share <= 1 for share in solved.covered)
    assert (solved.models, solved.variants, solved.rows) == (8, 48, 16)


@pytest.mark.parametrize(
    "instance",
    [
        Instance(models=60, pools_at=1.5),
        Instance(models=30, pools_at=0.7),
        Instance(models=30, pools_at=1.5, times=1_000.0),
        Instance(models=20, pools_at=0.7, is_priced=False),
    ],
    ids=str,
)
def test_no_price_of_models_of_many_variants_takes_a_programme(
    instance: Instance, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pricing, "solve_mixed_integer", None)
    solution = SOLVERS["auto"].solve(draw(replace(instance, is_routed=True)))

    assert solution.gap <= 1e-3
    assert not solution.is_unsolved
