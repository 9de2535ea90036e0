import dataclasses
import json
from collections.abc import Callable

from reconciler.domain.plan import Decision, Plan
from reconciler.report.document import plan_json, solver_json
from reconciler.report.explain import SettingRow, explain_json


def test_the_document_of_a_change_reads_as_agreed(
    plan_of: Callable[..., Plan], moved: Decision, match_golden: Callable[[str, str], None]
) -> None:
    text = json.dumps(plan_json(plan_of(dataclasses.replace(moved, steps=moved.steps[:1]))), indent=1, allow_nan=False)
    match_golden(text + "\n", "plan.json")


def test_equal_plans_give_equal_documents_in_strict_json(plan: Plan) -> None:
    first, second = (json.dumps(plan_json(plan), allow_nan=False) for _ in range(2))
    assert first == second


def test_an_infinite_time_is_null_but_its_target_is_missed(overloaded_plan: Plan) -> None:
    document = json.loads(json.dumps(plan_json(overloaded_plan)))
    slo = document["groups"][0]["decisions"][0]["slos"][0]
    assert slo["before_s"] is None
    assert slo["is_met_before"] is False


def test_the_fingerprint_stands_beside_its_group(plan: Plan) -> None:
    document = json.loads(json.dumps(plan_json(plan)))
    assert document["groups"][0]["fingerprint"] == plan.groups[0].fingerprint


def test_explain_as_a_document_holds_settings_and_the_decision(plan: Plan) -> None:
    rows = [SettingRow(name="a", value="1", source="b")]
    document = json.loads(json.dumps(explain_json(plan.decisions[1], rows, solver=solver_json(plan))))
    assert document["settings"] == [{"name": "a", "value": "1", "source": "b", "displaced": None}]
    assert document["decision"]["steps"][0]["stage"] == "load"
