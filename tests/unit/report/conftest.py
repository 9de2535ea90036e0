"""A plan as a real run would make it: three changes, two held, four unchanged, one model over its target."""

import dataclasses
import math
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from reconciler.domain.holds import Hold, HoldKind
from reconciler.domain.identity import ModelKey, ResourceKey
from reconciler.domain.inventory import Allocation
from reconciler.domain.observed import ArrivalSource, Load, Performance
from reconciler.domain.plan import (
    Decision,
    GroupPlan,
    Outcome,
    Plan,
    SloProjection,
    Step,
    TotalCost,
    Verdict,
    VerdictKind,
)
from reconciler.domain.requirements import SolveStatus
from reconciler.domain.snapshot import StatusShape
from reconciler.rendering.renderer import Renderer
from reconciler.report.pull_request import pull_request_view

GOLDEN = Path(__file__).parents[2] / "testdata" / "report"
UPDATE = "UPDATE_GOLDEN"
"""Set this variable to 1 to write what the tests see, then read the difference."""

APPROVAL = Verdict(kind=VerdictKind.NEEDS_APPROVAL)


def make_decision(name: str = "llama-8b-h100", **fields: object) -> Decision:
    """A change from 3 to 5 replicas on H100, but for `fields`."""
    key = ResourceKey(cluster="us-east", namespace="llm", kind="VariantAutoscaling", name=name)
    model = ModelKey(cluster="us-east", namespace="llm", model_id="meta-llama/Llama-3.1-8B-Instruct")
    values: dict[str, object] = {
        "variant": key,
        "model": model,
        "group": "us-east/llm",
        "outcome": Outcome.CHANGE,
        "current": Allocation(accelerator="H100", replicas=3),
        "desired": Allocation(accelerator="H100", replicas=5),
        "verdict": APPROVAL,
        "steps": (),
        "metrics_available": True,
    }
    return Decision(**(values | fields))  # type: ignore[arg-type]  # the test names the fields it means


def scaled_up() -> Decision:
    """A model that misses its target until the change."""
    return make_decision(
        place="clusters/us-east/llm/llama.yaml:3",
        load=Load(
            arrival_rate_per_s=39.1,
            output_tokens=180.0,
            input_tokens=512.0,
            window_s=300.0,
            arrivals_from=ArrivalSource.ENDPOINT_PICKER,
        ),
        demand=46.2,
        capacity_before=31.8,
        capacity_after=53.0,
        slos=(
            SloProjection(name="wait", statistic="p95", target_s=0.5, before_s=1.9, after_s=0.31),
            SloProjection(name="itl", statistic="mean", target_s=0.024, before_s=0.021, after_s=0.0182),
        ),
        cost_before_per_hour=20.64,
        cost_after_per_hour=34.40,
        observed=Performance(itl_s=0.021, wait_s=0.634, ttft_s=0.71),
        max_batch_size=256,
        status_shape=StatusShape.FULL,
        steps=(
            Step(stage="load", before="", after="39.1 req/s", reason="arrivals, endpoint picker, 5m to 14:05"),
            Step(stage="demand", before="39.1", after="46.2 req/s", reason="current load and 20 % headroom"),
            Step(stage="capacity", before="", after="10.6 req/s", reason="one replica, wait p95 500 ms binds"),
            Step(stage="allocation", before="3", after="5", reason="cheapest of 14 candidates: ceil(46.2 / 10.6)"),
            Step(stage="policy", before="5", after="5", reason="needs approval"),
        ),
    )


def moved_to_h100() -> Decision:
    """An accelerator change of a model that keeps its target."""
    return make_decision(
        "granite-13b",
        model=ModelKey(cluster="us-east", namespace="llm", model_id="ibm-granite/granite-13b"),
        place="clusters/us-east/llm/granite.yaml:5",
        current=Allocation(accelerator="A100", replicas=6),
        desired=Allocation(accelerator="H100", replicas=3),
        demand=9.1,
        capacity_before=11.0,
        capacity_after=10.2,
        slos=(SloProjection(name="itl", statistic="mean", target_s=0.08, before_s=0.063, after_s=0.038),),
        cost_before_per_hour=23.82,
        cost_after_per_hour=20.64,
        steps=(
            Step(stage="demand", before="7.6", after="9.1 req/s", reason="current load and 20 % headroom"),
            Step(stage="allocation", before="6 on A100", after="3 on H100", reason="cheapest of 9 candidates"),
        ),
    )


def scaled_down() -> Decision:
    """A change down whose price is not known."""
    return make_decision(
        "qwen-a",
        model=ModelKey(cluster="us-east", namespace="llm", model_id="qwen/qwen2.5-0.5b"),
        current=Allocation(accelerator="L4", replicas=4),
        desired=Allocation(accelerator="L4", replicas=2),
        demand=1.2,
        capacity_before=6.0,
        capacity_after=3.0,
        slos=(SloProjection(name="ttft", statistic="p95", target_s=1.0, before_s=0.1, after_s=0.12),),
        steps=(Step(stage="allocation", before="4", after="2", reason="fewest replicas: its price is not known"),),
    )


def held(name: str, reason: str) -> Decision:
    """A variant that stays as it is for a reason."""
    return make_decision(
        name,
        outcome=Outcome.HELD,
        current=Allocation(accelerator="H100", replicas=2),
        desired=Allocation(accelerator="H100", replicas=2),
        verdict=Verdict(kind=VerdictKind.HOLD),
        hold=Hold(kind=HoldKind.METRICS_MISSING, words=reason),
    )


def make_plan(*decisions: Decision, **fields: object) -> Plan:
    """A plan of one group that holds `decisions`."""
    group = GroupPlan(name="us-east/llm", head_branch="reconciler/us-east-llm-1a2b3c4d", decisions=decisions)
    values: dict[str, object] = {
        "now_s": 1795183500.0,
        "repository": "https://git.example.com/acme/fleet",
        "branch": "main",
        "commit": "3f9c2ab7d1e4c5b6a79808172635445362718091",
        "recording": "9b1e07c2aa",
        "currency": "USD",
        "groups": (group,),
        "totals": TotalCost(cost_before_per_hour=None, cost_after_per_hour=None),
        "solver": "separable",
        "solve_status": SolveStatus.OPTIMAL,
        "gap": 0.0004,
        "objective": "cost",
    }
    return Plan(**(values | fields))  # type: ignore[arg-type]  # the test names the fields it means


@pytest.fixture
def decide() -> Callable[..., Decision]:
    """Makes a decision: a name, and the fields that matter to the test."""
    return make_decision


@pytest.fixture
def plan_of() -> Callable[..., Plan]:
    """Makes a plan of one group: its decisions, and the fields that matter to the test."""
    return make_plan


@pytest.fixture
def moved() -> Decision:
    """One change to another accelerator."""
    return moved_to_h100()


@pytest.fixture
def plan() -> Plan:
    """The sample plan; one price is missing."""
    kept = [
        make_decision(f"phi-{size}", outcome=Outcome.UNCHANGED, desired=Allocation(accelerator="H100", replicas=3))
        for size in ("mini", "small", "medium", "large")
    ]
    return make_plan(
        scaled_down(),
        scaled_up(),
        held("mixtral-8x7b", "metrics stale: last sample 11 min ago, limit 5m"),
        moved_to_h100(),
        held("phi-4", "replicas are owned by HorizontalPodAutoscaler phi-4 (apps/phi/hpa.yaml:9)"),
        *kept,
        assumptions=("one cluster", "the cost of L4 unknown", "2 of 9 models have no SLO"),
    )


@pytest.fixture
def priced_plan(plan: Plan) -> Plan:
    """The same with every price known."""
    priced = tuple(
        dataclasses.replace(each, cost_before_per_hour=2.80, cost_after_per_hour=1.40)
        if each.variant.name == "qwen-a"
        else each
        for each in plan.decisions
    )
    return make_plan(*priced, totals=TotalCost(cost_before_per_hour=214.60, cost_after_per_hour=223.78))


@pytest.fixture
def overloaded_plan() -> Plan:
    """One change of a model that cannot serve its demand at all, and still misses its target afterwards."""
    slo = SloProjection(name="ttft", statistic="p95", target_s=0.5, before_s=math.inf, after_s=0.62)
    change = dataclasses.replace(scaled_up(), slos=(slo,))
    return make_plan(change, totals=TotalCost(cost_before_per_hour=20.64, cost_after_per_hour=34.40))


@pytest.fixture
def match_golden() -> Callable[[str, str], None]:
    """Compares a text with the golden file of that name; `UPDATE_GOLDEN=1` writes the file instead."""

    def match(text: str, name: str) -> None:
        path = GOLDEN / name
        if os.environ.get(UPDATE) == "1":
            path.write_text(text, encoding="utf-8")
        assert text == path.read_text(encoding="utf-8"), f"{name} differs: run with {UPDATE}=1 and read the difference"

    return match


@pytest.fixture
def render() -> Callable[[Plan], str]:
    """The body of a plan's only pull request."""
    return lambda plan: Renderer().render("pull_request/body.md.j2", pull_request_view(plan, plan.groups[0]))


@pytest.fixture
def renderer() -> Renderer:
    return Renderer()
