"""The objective `inferno` against published values (cents per hour; tests/testdata/inferno/README.md)."""

import csv
from pathlib import Path

import pytest

from reconciler.optimizer.separable import transition_value

TESTDATA = Path(__file__).parents[2] / "testdata" / "inferno"


def rows(name: str) -> list[dict[str, str]]:
    with (TESTDATA / f"{name}.csv").open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_values_of_candidates_are_the_published_ones() -> None:
    for row in rows("v1_transition_value"):
        if not row["cand_replicas"]:
            continue  # a server without any candidate
        value = transition_value(
            current_accelerator=row["cur_accelerator"],
            current_replicas=int(row["cur_replicas"]),
            current_cost_per_hour=float(row["cur_cost"]),
            accelerator=row["cand_accelerator"],
            replicas=int(row["cand_replicas"]),
            cost_per_hour=float(row["cand_cost"]),
        )
        assert value == pytest.approx(float(row["cand_value"]), rel=1e-6, abs=1e-6), row["case"]


def test_values_of_the_demo_are_the_published_ones() -> None:
    for row in rows("v1_published_demo"):
        value = transition_value(
            current_accelerator="A100",
            current_replicas=int(row["current_replicas_A100"]),
            current_cost_per_hour=int(row["current_replicas_A100"]) * float(row["unit_cost"]),
            accelerator="A100",
            replicas=int(row["exp_replicas"]),
            cost_per_hour=float(row["exp_cost"]),
        )
        assert value == pytest.approx(float(row["exp_value"])), row["case"]


def test_values_without_a_current_allocation_are_the_published_ones() -> None:
    for row in rows("v1_sample_candidates"):
        if row["feasible"] != "yes":
            continue
        value = transition_value(
            current_accelerator="",
            current_replicas=0,
            current_cost_per_hour=0.0,
            accelerator=row["accelerator"],
            replicas=int(row["replicas"]),
            cost_per_hour=float(row["cost"]),
        )
        assert value == pytest.approx(float(row["value"]), rel=1e-6), row["server"]


def test_staying_put_is_worth_nothing_whatever_the_price_became() -> None:
    value = transition_value(
        current_accelerator="L4",
        current_replicas=3,
        current_cost_per_hour=1.0,
        accelerator="L4",
        replicas=3,
        cost_per_hour=2.0,
    )
    assert value == 0.0
