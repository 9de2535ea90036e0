"""HiGHS as the optimizer asks it: what it finds, proves, and says where there is nothing to find."""

import random
from dataclasses import replace

import numpy as np
import pytest
from highspy import Highs, HighsStatus
from scipy.optimize import linprog
from scipy.sparse import csr_array

from reconciler.optimizer.highs import GrowingProgramme, Programme, UnsolvableError, by_cells, solve


def knapsack(values: list[float], weights: list[float], most: float) -> Programme:
    """Whole things of such a value and weight that weigh no more than `most` together, each at most once."""
    weighed = csr_array(np.array([weights]))
    return Programme.of_switches(-np.array(values), weighed, np.array([-np.inf]), np.array([most]))


@pytest.mark.parametrize("is_thorough", [False, True])
@pytest.mark.parametrize("start", [None, [1.0, 0.0, 0.0], [1.0, 1.0, 1.0], [0.0, 1.0, 1.0]])
def test_the_best_is_found_from_wherever_the_search_begins(start: list[float] | None, is_thorough: bool) -> None:
    begun = None if start is None else np.array(start)

    found = solve(knapsack([10, 6, 5], [7, 5, 4], 9), gap=0.0, nodes=100, start=begun, is_thorough=is_thorough)

    assert found.values is not None
    assert found.values.tolist() == [0, 1, 1]
    assert found.bound == pytest.approx(-11)


def test_no_solution_has_an_infinite_bound() -> None:
    impossible = knapsack([1, 1], [-1, -1], -3)

    found = solve(impossible, gap=0.0, nodes=100)

    assert found.values is None
    assert found.bound == np.inf


def test_without_whole_columns_the_value_is_the_bound() -> None:
    whole = knapsack([10, 6, 5], [7, 5, 4], 9)
    divisible = replace(whole, is_whole=np.zeros(3, dtype=np.bool_))

    found = solve(divisible, gap=0.0, nodes=100)

    assert found.values is not None
    assert found.bound == pytest.approx(float(whole.objective @ found.values))
    assert found.bound == pytest.approx(-(10 + 2 / 4 * 5))


def test_what_no_programme_can_hold_is_no_answer() -> None:
    found = solve(knapsack([1, 1], [float("inf"), 1], 1), gap=0.0, nodes=100)

    assert found.values is None
    assert found.bound == -np.inf


def test_a_programme_that_grows_and_shrinks_is_the_one_it_would_be_anew() -> None:
    chance = random.Random(7)  # noqa: S311 - the same programme in every run
    limits = np.array([5.0, 4.0, 6.0])
    growing = GrowingProgramme(np.full(3, -np.inf), limits)
    objective, columns = np.zeros(0), np.zeros((0, 3))
    for _ in range(6):
        fresh = -np.array([chance.random() for _ in range(5)])
        use = np.array([[chance.random() + 0.1 for _ in limits] for _ in fresh])
        growing.add(fresh, csr_array(use))
        objective, columns = np.append(objective, fresh), np.vstack([columns, use])

        answer = growing.solve()

        anew = linprog(objective, A_ub=columns.T, b_ub=limits)
        assert answer.value == pytest.approx(anew.fun)
        assert answer.columns @ objective == pytest.approx(anew.fun)
        assert answer.rows == pytest.approx(anew.ineqlin.marginals, abs=1e-7)
        is_kept = (answer.columns > 0) | np.array([chance.random() < 0.5 for _ in objective])
        growing.keep(is_kept)
        objective, columns = objective[is_kept], columns[is_kept]
    dearest = int(np.argmax(growing.solve().columns))
    objective[dearest] = 0.0
    growing.cost(np.array([dearest]), np.zeros(1))

    assert growing.solve().value == pytest.approx(linprog(objective, A_ub=columns.T, b_ub=limits).fun)


def test_where_a_basis_leads_nowhere_it_is_solved_from_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    growing = GrowingProgramme(np.array([-np.inf]), np.array([2.0]))
    growing.add(np.array([-1.0]), csr_array(np.array([[1.0]])))
    growing.solve()
    growing.add(np.array([-3.0]), csr_array(np.array([[2.0]])))
    run = Highs.run
    begun: list[bool] = []

    def stopped_once(highs: Highs) -> HighsStatus:
        highs.setOptionValue("simplex_iteration_limit", 1_000 if begun else 0)
        begun.append(highs.getBasis().valid)
        return run(highs)

    monkeypatch.setattr(Highs, "run", stopped_once)

    assert growing.solve().value == pytest.approx(-3.0)
    assert begun == [True, False]


def test_what_has_no_end_is_unsolvable() -> None:
    growing = GrowingProgramme(np.array([-np.inf]), np.array([1.0]))
    growing.add(np.array([-1.0]), csr_array(np.array([[0.0]])))

    with pytest.raises(UnsolvableError, match="nbounded"):
        growing.solve()


@pytest.mark.parametrize("least", [3.0, 9.0], ids=["feasible", "infeasible"])
def test_a_search_prints_nothing(capfd: pytest.CaptureFixture[str], least: float) -> None:
    rows, columns = np.zeros(6, dtype=np.int64), np.arange(6)
    programme = Programme.of_switches(
        np.arange(1.0, 7.0), by_cells(np.ones(6), rows, columns, (1, 6)), np.array([least]), np.array([6.0 + least])
    )
    answer = solve(programme, gap=0.0, nodes=100)
    assert (answer.values is None) == (least > 6)
    assert capfd.readouterr() == ("", "")
