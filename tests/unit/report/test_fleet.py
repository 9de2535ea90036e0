"""What a plan shows of the fleet as a whole."""

from dataclasses import replace
from typing import Any

import pytest

from reconciler.domain.identity import ModelKey
from reconciler.domain.plan import Plan, TotalCost
from reconciler.domain.requirements import Sensitivity, SharedUse
from reconciler.report.explain import explain_text
from reconciler.report.summary import fleet_lines, prices
from reconciler.report.text import plan_text


@pytest.fixture
def scarce(plan: Plan) -> Plan:
    """A plan that fills a pool."""
    model = ModelKey(cluster="us-east", namespace="llm", model_id="meta/llama-8b")
    return replace(
        plan,
        totals=TotalCost(cost_before_per_hour=214.6, cost_after_per_hour=223.78),
        value=223.78,
        greedy_value=241.3,
        shared=(
            SharedUse(name="us-east/H100", used=60, limit=60, price=1.9),
            SharedUse(name="us-east/A100", used=40, limit=96),
            SharedUse(name="us-east/L4", used=8, limit=8),
        ),
        sensitivity=(
            Sensitivity(demand_factor=1.25, capacity_factor=1.0, short=2, worst=model, worst_covered=0.82),
            Sensitivity(demand_factor=1.0, capacity_factor=0.9, short=0, worst=None, worst_covered=1.0),
        ),
    )


def test_what_is_full_has_a_price(scarce: Plan) -> None:
    assert prices(scarce) == "One more of us-east/H100 saves 1.90 USD/h."
    assert prices(scarce) in plan_text(scarce)


def test_nothing_is_said_of_what_has_room(plan: Plan) -> None:
    assert prices(plan) == ""
    assert fleet_lines(plan) == ()


def test_without_all_prices_it_is_no_money(scarce: Plan) -> None:
    unpriced = replace(scarce, totals=TotalCost(cost_before_per_hour=None, cost_after_per_hour=None))
    assert prices(unpriced) == "One more of us-east/H100 saves 1.90 cost units/h."


def test_every_line_names_its_numbers(scarce: Plan) -> None:
    assert fleet_lines(scarce) == (
        "us-east/H100: 60 of 60 taken, one more saves 1.90 USD/h",
        "us-east/A100: 40 of 96 taken",
        "us-east/L4: 8 of 8 taken (full)",
        (
            "Serving the most urgent first, each by its cheapest capacity, would come to 241.30 USD/h with its starts, "
            "this plan to 223.78"
        ),
        "At 1.25 times the demand: 2 models fall short, meta/llama-8b most: 82 % of it is carried",
        "With 90 % of the capacity: every model is still served",
    )


def test_explain_ends_with_the_plan(scarce: Plan) -> None:
    lines: Any = explain_text(scarce.decisions[0], (), fleet=fleet_lines(scarce), is_full=True).splitlines()
    assert lines[-7:-5] == ["PLAN", "  us-east/H100: 60 of 60 taken, one more saves 1.90 USD/h"]
