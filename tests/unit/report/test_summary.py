import dataclasses
from collections.abc import Callable

import pytest

from reconciler.domain.holds import Hold, HoldKind
from reconciler.domain.identity import ModelKey
from reconciler.domain.inventory import Allocation
from reconciler.domain.observed import ArrivalSource, Load, Performance
from reconciler.domain.plan import Decision, Outcome, Plan, SloProjection, Step, Verdict, VerdictKind
from reconciler.domain.priors import Trial
from reconciler.domain.requirements import ModelCoverage, SolveStatus
from reconciler.domain.scalers import ScalerSetting
from reconciler.report import summary
from reconciler.report.pull_request import commit_view, plan_view, pull_request_view
from reconciler.report.rows import verdict_text
from reconciler.report.text import counts_text, plan_text


def test_the_title_names_the_most_urgent_change_the_group_and_the_cost(priced_plan: Plan) -> None:
    view = pull_request_view(priced_plan, priced_plan.groups[0])
    assert view.title == "Scale up llama-8b-h100, 2 other changes: +$9.18/h in us-east/llm"


def test_the_title_has_no_amount_while_a_price_is_unknown(plan: Plan) -> None:
    assert pull_request_view(plan, plan.groups[0]).title == "Scale up llama-8b-h100, 2 other changes in us-east/llm"


def test_no_currency_is_named_while_a_price_is_missing_elsewhere(plan_of: Callable[..., Plan], moved: Decision) -> None:
    plan = plan_of(moved)
    view = pull_request_view(plan, plan.groups[0])
    assert view.amount == "−3.18 cost units/h"
    assert view.cost_unit == "cost units/h"


def test_one_accelerator_change_is_a_move(decide: Callable[..., Decision]) -> None:
    change = decide("granite", desired=Allocation(accelerator="A100", replicas=3))
    assert summary.title([change], "prod/llm", "USD") == "Move granite to A100 in prod/llm"


@pytest.mark.parametrize(
    ("second", "title"),
    [
        ("A100", "Move granite and 1 more to A100"),
        ("L4", "Move granite and 1 more"),
        ("H100", "Move granite to A100, 1 other change"),
    ],
)
def test_several_changes_are_moves_where_all_move(decide: Callable[..., Decision], second: str, title: str) -> None:
    changes = [
        decide("granite", desired=Allocation(accelerator="A100", replicas=3)),
        decide("llama", desired=Allocation(accelerator=second, replicas=5)),
    ]
    assert summary.title(changes, "prod/llm", "USD") == f"{title} in prod/llm"


@pytest.mark.parametrize(("before", "after"), [(3, 0), (0, 3)])
def test_a_merge_restarts_what_runs_and_goes_on(
    plan_of: Callable[..., Plan], decide: Callable[..., Decision], moved: Decision, before: int, after: int
) -> None:
    allocations = {
        "current": Allocation(accelerator="H100", replicas=before),
        "desired": Allocation(accelerator="L4", replicas=after),
    }
    plan = plan_of(decide("scaled"), decide("no replicas", **allocations), moved)
    assert pull_request_view(plan, plan.groups[0]).restarted == ("granite-13b",)


def test_what_to_know_before_a_merge_is_said_once_and_of_its_own_changes(
    plan_of: Callable[..., Plan], decide: Callable[..., Decision]
) -> None:
    plan = plan_of(decide("a", caution="mind"), decide("b", caution="mind"), notes=("mind", "of another group"))
    assert pull_request_view(plan, plan.groups[0]).cautions == ("mind",)


def test_the_headline_says_who_misses_what_without_the_change(overloaded_plan: Plan) -> None:
    view = pull_request_view(overloaded_plan, overloaded_plan.groups[0])
    assert view.counts == "1 change, needs approval"
    assert view.consequence == (
        "Llama-3.1-8B-Instruct misses its TTFT target now: mean 710 ms measured, target 500 ms. "
        "Unchanged, it would exceed its capacity and miss its TTFT p95 target of 500 ms"
        " (model demand 46.2 req/s, model capacity 31.8 req/s)."
    )
    assert view.shortcoming.startswith(
        "Llama-3.1-8B-Instruct would still miss its TTFT p95 target of 500 ms: 620 ms expected"
    )


def test_what_an_autoscaler_may_pass_is_said_of_its_lower_bound(overloaded_plan: Plan) -> None:
    (group,) = overloaded_plan.groups
    decision = dataclasses.replace(
        group.changes[0], bounds_of="ScaledObject llama", written_at=("a.yaml:3", "a.yaml:4")
    )
    bounded = dataclasses.replace(group, decisions=(decision,))
    view = pull_request_view(overloaded_plan, bounded)
    assert "Llama-3.1-8B-Instruct at the lower bound of its autoscaler misses its" in view.consequence
    assert "Llama-3.1-8B-Instruct at the lower bound of its autoscaler would still miss" in view.shortcoming
    assert view.rows[0].change.count == "at least 3 → 5"
    assert commit_view(bounded).lines[0].startswith("llama-8b-h100: at least 3 → 5 replicas")


@pytest.mark.parametrize(("places", "words"), [(1, "the lower bound of HPA a"), (2, "the bounds of HPA a")])
def test_the_details_say_which_bounds_are_written(
    plan_of: Callable[..., Plan], decide: Callable[..., Decision], places: int, words: str
) -> None:
    change = decide(
        bounds_of="HPA a", written_at=("a.yaml:3",) * places, steps=(Step(stage="x", before="", after="", reason="y"),)
    )
    plan = plan_of(change)
    (detail,) = pull_request_view(plan, plan.groups[0]).details
    assert detail.written_as == words


@pytest.mark.parametrize(
    ("status", "gap", "objective", "text"),
    [
        (SolveStatus.OPTIMAL, 0.0, "cost", "Proven to be the cheapest plan."),
        (SolveStatus.OPTIMAL, 1e-9, "cost", "Proven to be the cheapest plan."),
        (SolveStatus.OPTIMAL, 0.0004, "cost", "Proven within 0.04 % of the cheapest plan."),
        (SolveStatus.FEASIBLE, 0.031, "cost", "Found before the search ended: at most 3.1 % from the cheapest plan."),
        (SolveStatus.OPTIMAL, 0.0, "inferno", "Proven to be the best plan by objective inferno."),
        (SolveStatus.FEASIBLE, float("inf"), "cost", "How far this is from the cheapest plan is not known."),
        (SolveStatus.FEASIBLE, float("nan"), "cost", "How far this is from the cheapest plan is not known."),
    ],
)
def test_the_proof_claims_what_the_solver_proved(
    plan: Plan, status: SolveStatus, gap: float, objective: str, text: str
) -> None:
    assert summary.proof(dataclasses.replace(plan, solve_status=status, gap=gap, objective=objective)) == text


def test_the_proof_says_that_untried_accelerators_were_not_compared(plan: Plan) -> None:
    trial = Trial(
        model=plan.decisions[0].model,
        accelerator="H200",
        replicas=2,
        replica_cost_per_hour=5.0,
        planned_cost_per_hour=20.0,
        saves_per_hour=(4.0, 8.0, 10.0),
        evidence="a data sheet",
    )
    proven = dataclasses.replace(plan, solve_status=SolveStatus.OPTIMAL, gap=0.0, objective="cost", trials=(trial,))
    assert summary.proof(proven) == "Proven to be the cheapest plan on tried accelerators."


def test_the_proof_says_nothing_of_autoscalers_that_are_tuned(
    plan_of: Callable[..., Plan], decide: Callable[..., Decision]
) -> None:
    """Their settings are simulated: beside replicas they are named, and alone nothing is proven."""
    before, after = (ScalerSetting(target=target) for target in ("40", "52"))

    def tuned(name: str) -> Decision:
        same = Allocation(accelerator="H100", replicas=2, scaling=str(before))
        return decide(name, current=same, desired=dataclasses.replace(same, scaling=str(after)))

    mixed, alone = (
        dataclasses.replace(plan_of(*each), solve_status=SolveStatus.OPTIMAL, gap=0.0, objective="cost")
        for each in ((decide("a"), tuned("b")), (tuned("a"), tuned("b")))
    )
    group, proven = mixed.groups[0], "Proven to be the cheapest plan for all but tuned autoscalers."
    assert (summary.proof(mixed), summary.proof(alone)) == (proven, "")
    views = {
        name: pull_request_view(mixed, dataclasses.replace(group, decisions=each)).proof
        for name, each in (("both", mixed.decisions), ("replicas", mixed.decisions[:1]), ("tuned", mixed.decisions[1:]))
    }
    assert views == {"both": proven, "replicas": "Proven to be the cheapest plan.", "tuned": ""}
    short = summary.proof(dataclasses.replace(mixed, shortage_gap=0.0))
    assert short.startswith("Proven to be the cheapest plan that serves as much for all but tuned autoscalers. What")


@pytest.mark.parametrize(("gap", "near"), [(0.0, ""), (0.04, "within 4 % of ")])
def test_the_proof_says_apart_how_far_the_shortage_is_from_the_least(plan: Plan, gap: float, near: str) -> None:
    short = dataclasses.replace(plan, solve_status=SolveStatus.OPTIMAL, gap=0.0, objective="cost", shortage_gap=gap)
    assert summary.proof(short) == (
        "Proven to be the cheapest plan that serves as much. "
        f"What stays unserved is {near}the least possible, by the share of its demand that each model lacks."
    )


def test_a_sign_marks_verdicts_only_where_they_differ(
    plan_of: Callable[..., Plan], decide: Callable[..., Decision]
) -> None:
    clamped = decide("b", verdict=Verdict(kind=VerdictKind.CLAMP, rule="step-down", reason="1 to 2"))
    mixed, same = plan_of(decide("a"), clamped), plan_of(decide("a"), decide("b"))
    assert [row.change.mark for row in pull_request_view(mixed, mixed.groups[0]).rows] == ["✋", "✂"]
    assert [row.change.mark for row in pull_request_view(same, same.groups[0]).rows] == ["", ""]
    assert pull_request_view(mixed, mixed.groups[0]).verdicts[0].rule.text == "step-down"


def test_a_clamp_hides_no_approval(plan_of: Callable[..., Plan], decide: Callable[..., Decision]) -> None:
    verdict = Verdict(
        kind=VerdictKind.CLAMP,
        rule="step-down",
        reason="1 to 2",
        needs_person=True,
        approval="first-change",
        approval_reason="its first change",
    )
    plan = plan_of(decide("a", verdict=Verdict(kind=VerdictKind.ALLOW)), decide("b", verdict=verdict))
    view = pull_request_view(plan, plan.groups[0])
    assert [row.change.mark for row in view.rows] == ["", "✂✋"]
    assert [(each.rule.text, each.reason) for each in view.verdicts] == [
        ("step-down", "1 to 2"),
        ("first-change", "its first change"),
    ]
    assert verdict_text(verdict) == "clamp: step-down; needs approval: first-change"
    assert "2 changes (1 needs approval)" in counts_text(plan)


def test_variants_held_for_one_reason_share_a_line(
    plan_of: Callable[..., Plan], decide: Callable[..., Decision]
) -> None:
    held = [
        decide(name, outcome=Outcome.HELD, hold=Hold(kind=HoldKind.METRICS_MISSING, words="metrics missing"))
        for name in ("a", "b")
    ]
    plan = plan_of(*held)
    assert pull_request_view(plan, plan.groups[0]).held[0].variants == ("a", "b")


def test_the_whole_plan_shows_failures_and_no_way_to_close_it(plan_of: Callable[..., Plan]) -> None:
    view = plan_view(plan_of(failures=("eu-west: timed out",)))
    assert view.problems == ("eu-west: timed out",)
    assert not view.is_proposal


@pytest.mark.parametrize("name", ["a", "a" * 20, "a" * 34, "a" * 60, "a" * 10_000])
def test_a_commit_subject_keeps_to_fifty_characters(
    plan_of: Callable[..., Plan], decide: Callable[..., Decision], name: str
) -> None:
    for decisions in ([decide(name)], [decide(name), decide("b")]):
        subject = commit_view(plan_of(*decisions).groups[0]).subject
        assert len(subject) <= 50
        assert subject.startswith("Scale ")


def test_a_forecast_is_never_told_as_a_fact(plan_of: Callable[..., Plan], decide: Callable[..., Decision]) -> None:
    slo = SloProjection(name="itl", statistic="mean", target_s=0.015, before_s=0.01512, after_s=0.012)
    change = decide(slos=(slo,), observed=Performance(itl_s=0.0131), demand=46.2, capacity_before=40.0)
    view = plan_view(plan_of(change))
    assert view.consequence == (
        "Without it, Llama-3.1-8B-Instruct would miss its ITL target of 15 ms: 15.1 ms expected, 13 ms measured now"
        " (model demand 46.2 req/s, model capacity 40.0 req/s)."
    )


def test_what_is_measured_above_its_target_is_said_to_be_missed_now(
    plan_of: Callable[..., Plan], decide: Callable[..., Decision]
) -> None:
    slo = SloProjection(name="ttft", statistic="p95", target_s=0.5, before_s=1.9, after_s=0.3)
    view = plan_view(plan_of(decide(slos=(slo,), observed=Performance(ttft_s=0.62))))
    assert view.consequence.startswith(
        "Llama-3.1-8B-Instruct misses its TTFT target now: mean 620 ms measured, target 500 ms. Unchanged, it "
    )
    assert "would miss its TTFT p95 target of 500 ms: 1.9 s expected (model demand" in view.consequence


def test_a_row_shows_what_is_measured_expected_and_wanted(
    plan_of: Callable[..., Plan], decide: Callable[..., Decision], render: Callable[[Plan], str]
) -> None:
    slo = SloProjection(name="ttft", statistic="p95", target_s=0.5, before_s=1.9, after_s=0.31)
    load = Load(
        arrival_rate_per_s=39.1,
        output_tokens=1.0,
        input_tokens=None,
        window_s=300.0,
        arrivals_from=ArrivalSource.REPLICAS,
    )
    change = decide(slos=(slo,), observed=Performance(ttft_s=0.43), load=load, demand=46.2, capacity_after=53.0)
    body = render(plan_of(change))
    assert "| measured now → expected after (target) |" in body
    assert (
        "variant load 39.1 measured → 46.2 expected, variant capacity 53.0 req/s<br>"
        "TTFT mean 430 ms measured → p95 **310 ms** expected, target 500 ms ✅<br>without it 1.9 s expected |"
    ) in body


def test_capacity_below_demand_has_no_check_mark(
    plan_of: Callable[..., Plan], decide: Callable[..., Decision], render: Callable[[Plan], str]
) -> None:
    slo = SloProjection(name="itl", statistic="mean", target_s=0.5, before_s=0.1, after_s=0.1)
    body = render(plan_of(decide(slos=(slo,), demand=144.0, capacity_after=98.7)))
    assert "✅" not in body
    assert "target 500 ms ⚠️" in body


COVERAGE = ModelCoverage(
    model=ModelKey(cluster="us-east", namespace="llm", model_id="meta-llama/Llama-3.1-8B-Instruct"),
    unit="req/s",
    needed=6.0,
    given=2.0,
    priority=1,
    competes_for=("us-east/H100",),
    rivals=(ModelKey(cluster="us-east", namespace="llm", model_id="ibm/granite-13b"),),
    decided_at=10,
)
LOSES = (
    "Llama-3.1-8B-Instruct gets 2.0 of the 6.0 req/s it needs, 4.0 req/s stay unserved: us-east/H100 is full, "
    "priority 10 goes first (granite-13b)"
)


@pytest.mark.parametrize("outcome", [Outcome.CHANGE, Outcome.UNCHANGED])
def test_who_gets_less_than_it_needs_stands_first(
    plan_of: Callable[..., Plan], decide: Callable[..., Decision], render: Callable[[Plan], str], outcome: Outcome
) -> None:
    plan = plan_of(decide(outcome=outcome), coverages=(COVERAGE,))
    assert f".** **{LOSES}.**" in render(plan).replace("\\", "")
    assert f"Gets less than it needs\n   {LOSES}\n" in plan_text(plan)


@pytest.mark.parametrize(
    ("coverage", "end"),
    [
        (dataclasses.replace(COVERAGE, decided_at=1), "us-east/H100 is full, it shares priority 1 (granite-13b)"),
        (dataclasses.replace(COVERAGE, decided_at=None, rivals=()), "us-east/H100 is full"),
        (dataclasses.replace(COVERAGE, competes_for=()), "4.0 req/s stay unserved"),
    ],
)
def test_priority_is_named_only_where_it_decided(
    plan_of: Callable[..., Plan], decide: Callable[..., Decision], coverage: ModelCoverage, end: str
) -> None:
    (sentence,) = plan_view(plan_of(decide(), coverages=(coverage,))).losers
    assert sentence.endswith(end)


def test_who_gets_all_it_needs_or_is_held_is_no_loser(
    plan_of: Callable[..., Plan], decide: Callable[..., Decision]
) -> None:
    enough = dataclasses.replace(COVERAGE, given=5.9999)
    assert plan_view(plan_of(decide(), coverages=(enough,))).losers == ()
    held = decide(outcome=Outcome.HELD, hold=Hold(kind=HoldKind.METRICS_STALE, words="stale"))
    assert plan_view(plan_of(held, coverages=(COVERAGE,))).losers == ()


@pytest.mark.parametrize(
    ("after", "text"),
    [(20.0, "about +$6,800 a month"), (10.0, "about −$470 a month"), (10.64, ""), (10.641, "")],
)
def test_an_hour_is_told_as_a_month_too(decide: Callable[..., Decision], after: float, text: str) -> None:
    change = decide(cost_before_per_hour=10.64, cost_after_per_hour=after)
    assert summary.month_amount([change], "USD") == text
