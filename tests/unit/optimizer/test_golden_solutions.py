"""Unlimited mode of inferno: per server the candidate of least value (tests/testdata/inferno/README.md)."""

import csv
import itertools
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from reconciler.domain.requirements import Problem, SolveStatus
from reconciler.domain.units import S_PER_MINUTE
from reconciler.optimizer.separable import SeparableSolver

TESTDATA = Path(__file__).parents[2] / "testdata" / "inferno"
COUNTED_EXACTLY = 1000
"""Beyond this many replicas the original's float32 miscounts."""

Row = Mapping[str, str]
Make = Callable[..., Problem]


def rows(name: str) -> list[dict[str, str]]:
    with (TESTDATA / f"{name}.csv").open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def loaded_servers() -> Iterator[tuple[tuple[str, str], list[Row]]]:
    """The feasible candidates of each server with load; without load the table has no capacity."""
    usable = [row for row in rows("v1_sample_candidates") if row["feasible"] == "yes" and float(row["arrival_rpm"]) > 0]

    def server(row: Row) -> tuple[str, str]:
        return row["dataset"], row["server"]

    for key, group in itertools.groupby(sorted(usable, key=server), key=server):
        yield key, list(group)


def offer(row: Row) -> tuple[float, float]:
    """What a replica costs, and carries a second."""
    weight = float(row["unit_cost"]) * max(int(row["acc_count"]), 1)
    return weight, float(row["max_rpm_per_replica"]) / S_PER_MINUTE


def test_every_server_gets_its_candidate_of_least_value(pose: Make, runs: Make) -> None:
    for server, candidates in loaded_servers():
        demand = float(candidates[0]["arrival_rpm"]) / S_PER_MINUTE
        offers = {row["accelerator"]: offer(row) for row in candidates}
        solution = SeparableSolver().solve(pose(demand, {"a": runs(offers=offers, bounds=(1, None))}, "inferno"))
        (chosen,) = solution.allocations.values()
        least = min(float(row["value"]) for row in candidates)
        row = next(row for row in candidates if row["accelerator"] == chosen.accelerator)
        assert float(row["value"]) == pytest.approx(least, rel=1e-6), server
        if int(row["replicas"]) <= COUNTED_EXACTLY:
            assert chosen.replicas == int(row["replicas"]), server
            assert solution.value == pytest.approx(least, rel=1e-6), server
        assert solution.status is SolveStatus.OPTIMAL


def test_published_choices_are_ours_up_to_equal_values(pose: Make, runs: Make) -> None:
    candidates = dict(loaded_servers())
    for row in rows("v1_published_solutions"):
        demand = float(row["arrival_rpm"]) / S_PER_MINUTE
        offers = {other["accelerator"]: offer(other) for other in candidates.get((row["dataset"], row["server"]), ())}
        replicas = int(row["exp_replicas"])
        offers[row["exp_accelerator"]] = (float(row["exp_cost"]) / replicas, demand / replicas)
        solution = SeparableSolver().solve(pose(demand, {"a": runs(offers=offers, bounds=(1, None))}, "inferno"))
        (chosen,) = solution.allocations.values()
        assert chosen.accelerator in row["equal_value_accelerators"].split("|"), (row["server"], chosen)
        assert solution.value == pytest.approx(1.1 * float(row["exp_cost"]), rel=1e-6), row["server"]


def test_candidates_against_a_current_allocation_choose_the_least_value(pose: Make, runs: Make) -> None:
    """Capacities are not in this table: each candidate is given the replicas that it lists."""
    usable = [row for row in rows("v1_transition_value") if row["cand_replicas"] and float(row["arrival_rpm"]) > 0]
    for case, group in itertools.groupby(usable, key=lambda row: row["case"]):
        listed = list(group)
        if any(int(row["cand_replicas"]) == 0 for row in listed):
            continue
        offers = {
            row["cand_accelerator"]: (
                float(row["cand_cost"]) / int(row["cand_replicas"]),
                1 / int(row["cand_replicas"]),
            )
            for row in listed
        }
        current = (listed[0]["cur_accelerator"], int(listed[0]["cur_replicas"]))
        cost = float(listed[0]["cur_cost"]) / max(current[1], 1)
        least = int(listed[0]["min_replicas"])
        problem = pose(
            1.0, {"a": runs(offers=offers, current=current, bounds=(least, None), current_weight=cost)}, "inferno"
        )
        solution = SeparableSolver().solve(problem)
        (chosen,) = solution.allocations.values()
        values = {row["cand_accelerator"]: float(row["cand_value"]) for row in listed}
        assert values[chosen.accelerator] == pytest.approx(min(values.values()), rel=1e-6, abs=1e-6), case
