"""What a run tells of the fleet and of itself."""

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from reconciler.domain.holds import HoldKind
from reconciler.domain.plan import Decision, Plan
from reconciler.domain.proposals import ChangeOutcome, MergedOutcome
from reconciler.domain.reports import ForecastRatio, OpenPullRequest, OwnGauge, RunOutcome, Savings
from reconciler.report.gauges import LAST_SUCCESS, gauges_of

MONITORING = Path(__file__).parents[3] / "templates" / "monitoring"
METRIC = re.compile(r"\b(?:reconciler|wva)_[a-z_]+\b")
FAILED = RunOutcome(ended_s=1000.0, exit_code=4, run_interval_s=600.0, version="1")


def by_name(outcome: RunOutcome) -> dict[str, OwnGauge]:
    return {gauge.name: gauge for gauge in gauges_of(outcome)}


def values_of(gauge: OwnGauge) -> list[float]:
    return [value for _, value in gauge.series]


@pytest.fixture
def outcome(plan: Plan) -> RunOutcome:
    """A run of the report's plan."""
    return outcome_of(plan)


def outcome_of(plan: Plan) -> RunOutcome:
    return replace(
        FAILED,
        exit_code=0,
        plan=plan,
        live={decision.variant: 7.0 for decision in plan.decisions},
        pull_requests=(
            OpenPullRequest(group="b", number=2),
            OpenPullRequest(group="a", number=1, opened_s=400.0),
        ),
        merges=3,
        acts={"observe": 1.5},
        traffic={"github.com": (5, 1)},
        judged=(
            MergedOutcome(number=4, group="a", changes=(ChangeOutcome(resource="r", words="w", broken=True),)),
            MergedOutcome(number=5, group="a", changes=(ChangeOutcome(resource="r", words="w"),)),
        ),
        forecasts=(ForecastRatio(decision=plan.decisions[0], quantity="itl", ratio=1.25),),
        savings=Savings(per_hour=-2.0, so_far=30.0),
    )


def test_a_run_that_failed_tells_of_itself_alone() -> None:
    gauges = by_name(FAILED)
    assert LAST_SUCCESS not in gauges
    assert values_of(gauges["reconciler_last_run_exit_code"]) == [4.0]
    assert not any(name.startswith("wva_") for name in gauges)


@pytest.mark.parametrize(("code", "is_success"), [(0, True), (2, True), (3, True), (4, False), (5, False)])
def test_what_an_author_must_mend_fails_no_run(plan: Plan, code: int, is_success: bool) -> None:
    assert (LAST_SUCCESS in by_name(replace(outcome_of(plan), exit_code=code))) is is_success


def test_upstreams_gauges_carry_the_base_branch(outcome: RunOutcome) -> None:
    gauges = by_name(outcome)
    assert outcome.plan
    changed = next(each for each in outcome.plan.decisions if each.current.replicas != each.desired.replicas)
    for name, expected in (
        ("wva_desired_replicas", changed.current.replicas),
        ("wva_current_replicas", 7.0),
        ("wva_desired_ratio", changed.current.replicas / 7.0),
        ("reconciler_proposed_replicas", changed.desired.replicas),
    ):
        told = {labels["variant_name"]: value for labels, value in gauges[name].series}
        assert told[changed.variant.name] == expected, name


def test_an_autoscaler_is_not_told_its_own_bound(outcome: RunOutcome) -> None:
    assert outcome.plan
    bounded = outcome.plan.decisions[0].variant
    gauges = by_name(replace(outcome, bounded=frozenset({bounded})))
    for name in ("wva_desired_replicas", "wva_current_replicas", "wva_desired_ratio"):
        assert bounded.name not in {labels["variant_name"] for labels, _ in gauges[name].series}


def test_a_variant_without_replicas_in_the_cluster_has_the_ratio_of_its_replicas(outcome: RunOutcome) -> None:
    gauges = by_name(replace(outcome, live=dict.fromkeys(outcome.live, 0.0)))
    assert values_of(gauges["wva_desired_ratio"]) == values_of(gauges["wva_desired_replicas"])


def test_every_kind_of_hold_is_counted_also_when_there_is_none(outcome: RunOutcome) -> None:
    gauge = by_name(outcome)["reconciler_held"]
    assert [labels["kind"] for labels, _ in gauge.series] == [str(kind) for kind in HoldKind]
    assert outcome.plan
    assert sum(values_of(gauge)) == sum(each.hold is not None for each in outcome.plan.decisions)


def test_a_hold_that_one_run_a_day_knows_is_not_told(plan: Plan) -> None:
    def daily(decision: Decision) -> Decision:
        return replace(decision, hold=None if decision.hold is None else replace(decision.hold, is_daily=True))

    groups = tuple(replace(each, decisions=tuple(map(daily, each.decisions))) for each in plan.groups)
    gauges = by_name(outcome_of(replace(plan, groups=groups)))
    assert any(each.hold is not None for each in plan.decisions)
    assert sum(values_of(gauges["reconciler_held"])) == 0.0
    told = {labels["outcome"]: value for labels, value in gauges["reconciler_variants"].series}
    assert told["held"] == 0.0
    assert sum(told.values()) == len(plan.decisions)


def test_what_merges_came_to_is_told(outcome: RunOutcome) -> None:
    gauges = by_name(outcome)
    assert gauges["reconciler_promise_broken"].series == (
        ({"group": "a", "number": "4"}, 1.0),
        ({"group": "a", "number": "5"}, 0.0),
    )
    ((labels, ratio),) = gauges["reconciler_forecast_ratio"].series
    assert (labels["quantity"], ratio) == ("itl", 1.25)
    assert {"cluster", "namespace", "variant_name", "accelerator_type"} < set(labels)
    assert gauges["reconciler_saved_per_hour"].series == (({"currency": "USD"}, -2.0),)
    assert gauges["reconciler_saved"].series == (({"currency": "USD"}, 30.0),)
    nothing = by_name(replace(outcome, savings=None))
    assert nothing["reconciler_saved"].series == ()


def test_an_age_is_told_where_it_is_known(outcome: RunOutcome) -> None:
    gauges = by_name(outcome)
    assert values_of(gauges["reconciler_open_proposals"]) == [2.0]
    assert gauges["reconciler_proposal_age_seconds"].series == (({"group": "a", "number": "1"}, 600.0),)


def test_alerts_and_dashboard_ask_for_gauges_that_there_are(outcome: RunOutcome) -> None:
    told = {gauge.name for gauge in gauges_of(outcome)}
    dashboard = json.loads((MONITORING / "dashboard.json").read_text())
    asked = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    asked += re.findall(r"expr: (.*?)(?=\n +(?:for|labels):)", (MONITORING / "alerts.yaml").read_text(), re.DOTALL)
    assert len(asked) >= 20
    assert {name for text in asked for name in METRIC.findall(text)} <= told


def test_every_gauge_is_documented(outcome: RunOutcome) -> None:
    page = (MONITORING.parents[1] / ".github" / "docs" / "monitoring.md").read_text()
    documented = re.findall(r"^\| `((?:reconciler|wva)_[a-z_]+)", page, re.MULTILINE)
    assert sorted(gauge.name for gauge in gauges_of(outcome)) == sorted(documented)
