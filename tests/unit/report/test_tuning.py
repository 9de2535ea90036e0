"""Other settings of autoscalers in plans and pull requests."""

from types import SimpleNamespace
from typing import Any

from reconciler.domain.holds import Hold, HoldKind
from reconciler.domain.identity import ModelKey, ResourceKey
from reconciler.domain.inventory import Allocation
from reconciler.domain.plan import Decision, Outcome, Verdict, VerdictKind
from reconciler.domain.records import replace
from reconciler.domain.scalers import ScalerSetting, TuningEvidence
from reconciler.report.document import decision_json
from reconciler.report.pull_request import commit_view, pull_request_view, reductions
from reconciler.report.summary import labels_for, title
from reconciler.report.text import plan_text
from reconciler.report.tuning import tuning_rows, tuning_total

KEY = ResourceKey(cluster="prod", namespace="llm", kind="Deployment", name="phi")
BEFORE = ScalerSetting(target="40")
AFTER = ScalerSetting(
    target="52",
    behavior={
        "scaleDown": {
            "stabilizationWindowSeconds": 900,
            "policies": [{"type": "Percent", "value": 10, "periodSeconds": 60}],
        }
    },
)
EVIDENCE = TuningEvidence(
    days=14.0,
    cost_change=-0.18,
    attainment=(0.979, 0.992),
    starts_per_day=(41.0, 30.0),
    left_out=4,
    left_out_cost_change=-0.15,
    left_out_attainment=(0.981, 0.99),
    saves_per_hour=4.5,
    tried=("window 600 s: −12 % cost",),
    day=((1.0, 2.0, 4.0), (1.0, 1.0, 3.0)),
)
DECISION = Decision(
    variant=KEY,
    model=ModelKey(cluster="prod", namespace="llm", model_id="org/phi"),
    group="prod/llm",
    outcome=Outcome.CHANGE,
    current=Allocation(accelerator="H100", replicas=1, scaling=str(BEFORE)),
    desired=Allocation(accelerator="H100", replicas=1, scaling=str(AFTER)),
    verdict=Verdict(kind=VerdictKind.ALLOW),
    steps=(),
    tuning=EVIDENCE,
)


def test_a_setting_is_its_own_text() -> None:
    assert ScalerSetting.parse(str(AFTER)) == AFTER
    for text in ("", "[]", "{}", '{"target":1,"behavior":null}', '{"target":"1","behavior":[]}', "[" * 9999):
        assert ScalerSetting.parse(text) is None


def test_each_field_tells_what_it_displaces() -> None:
    (row,) = tuning_rows([DECISION], {KEY: "phi"})
    assert [(each.field, each.before, each.after) for each in row.fields] == [
        ("behavior.scaleDown.policies", "Percent 100 in 15 s (the default)", "Percent 10 in 60 s"),
        ("behavior.scaleDown.stabilizationWindowSeconds", "300 (the controller's default)", "900"),
        ("target", "40", "52"),
    ]


def test_a_setting_that_goes_back_to_a_default_says_so() -> None:
    back = replace(DECISION, current=DECISION.desired, desired=DECISION.current)
    (row,) = tuning_rows([back], {KEY: "phi"})
    assert [(each.field, each.before, each.after) for each in row.fields] == [
        ("behavior.scaleDown.policies", "Percent 10 in 60 s", "Percent 100 in 15 s (the default)"),
        ("behavior.scaleDown.stabilizationWindowSeconds", "900", "300 (the controller's default)"),
        ("target", "52", "40"),
    ]


def test_the_metric_of_a_target_is_named_where_it_has_a_name() -> None:
    named = replace(DECISION, metric="vllm_num_requests_running")
    (row,) = tuning_rows([named], {KEY: "phi"})
    assert [(each.field, each.metric) for each in row.fields][1:] == [
        ("behavior.scaleDown.stabilizationWindowSeconds", ""),
        ("target", "vllm_num_requests_running"),
    ]
    told = decision_json(named)["tuning"]
    assert isinstance(told, dict)
    target = {"field": "target", "metric": "vllm_num_requests_running", "before": "40", "after": "52"}
    assert target in told["fields"]
    group: Any = SimpleNamespace(changes=(named,), name="prod/llm", fingerprint="f")
    (line, *more) = commit_view(group).lines
    assert "target of vllm_num_requests_running 40 -> 52" in " ".join(" ".join([line, *more]).split())


def test_what_it_would_have_done_is_told_with_the_days_left_out() -> None:
    (row,) = tuning_rows([DECISION], {KEY: "phi"})
    assert row.headline == "on your last 14 days: −18 % cost, attainment 97.9 → 99.2 %, starts 41 → 30 a day"
    assert row.left_out == "on the 4 days it was not fitted on: −15 % cost, attainment 98.1 → 99.0 %"
    assert row.bars == ("▃▅█", "▃▃▇")


def test_bounds_are_fields_and_what_limits_them_is_told() -> None:
    before, after = (replace(each, least=4, most=9) for each in (BEFORE, replace(AFTER, behavior=None)))
    bounded = replace(
        DECISION,
        current=replace(DECISION.current, replicas=4, scaling=str(before)),
        desired=replace(DECISION.desired, replicas=2, scaling=str(replace(after, least=2, most=14))),
        tuning=replace(EVIDENCE, limit="the largest load takes a maximum of 20, but pool H100 has room for 14"),
    )
    (row,) = tuning_rows([bounded], {KEY: "phi"})
    assert [(each.field, each.before, each.after) for each in row.fields] == [
        ("maximum", "9", "14"),
        ("minimum", "4", "2"),
        ("target", "40", "52"),
    ]
    assert row.limit == "the largest load takes a maximum of 20, but pool H100 has room for 14"
    told = decision_json(bounded)["tuning"]
    assert isinstance(told, dict)
    assert told["limit"] == row.limit


def test_a_setting_without_bounds_is_of_an_older_pull_request() -> None:
    assert ScalerSetting.parse('{"behavior":null,"target":"40"}') == BEFORE
    for text in ('{"behavior":null,"least":"2","target":"4"}', '{"behavior":null,"most":true,"target":"4"}'):
        assert ScalerSetting.parse(text) is None


def test_without_its_evidence_a_kept_proposal_still_tells_its_fields() -> None:
    (row,) = tuning_rows([replace(DECISION, tuning=None)], {KEY: "phi"})
    assert (len(row.fields), row.headline, row.days) == (3, "", ())


def test_savings_are_summed_where_all_are_known() -> None:
    assert tuning_total([DECISION] * 7, "USD") == "Tuning these 7 autoscalers would save 31.50 USD/h."
    assert tuning_total([DECISION, replace(DECISION, tuning=None)], "USD") == ""
    assert tuning_total([replace(DECISION, outcome=Outcome.HELD)], "USD") == ""


def test_a_title_says_that_an_autoscaler_is_tuned() -> None:
    assert title([DECISION], "prod/llm", "USD") == "Tune the autoscaler of phi: −$4.50/h in prod/llm"
    kept = replace(DECISION, tuning=None, cost_before_per_hour=6.0, cost_after_per_hour=2.0)
    assert title([kept], "prod/llm", "USD") == "Tune the autoscaler of phi in prod/llm"


def test_an_amount_is_of_the_setting_and_not_of_its_minimum(plan_of: Any, renderer: Any) -> None:
    """What a minimum costs alone is said nowhere: the autoscaler runs what the load takes."""
    fewer = replace(
        DECISION,
        current=replace(DECISION.current, replicas=6),
        desired=replace(DECISION.desired, replicas=2),
        cost_before_per_hour=41.28,
        cost_after_per_hour=13.76,
    )
    plan = plan_of(fewer)
    plan = replace(plan, totals=replace(plan.totals, cost_before_per_hour=41.28, cost_after_per_hour=13.76))
    view = pull_request_view(plan, plan.groups[0])
    assert (view.amount, view.rows, len(view.tuning)) == ("−$4.50/h", (), 1)
    body = renderer.render("pull_request/body.md.j2", view)
    assert ("| change |" in body, "27.52" in body) == (False, False)
    assert labels_for([fewer]) == ("reconciler", "saving")
    dearer = replace(fewer, tuning=replace(EVIDENCE, saves_per_hour=-1.0))
    assert labels_for([dearer]) == ("reconciler",), "a repair that costs more saves nothing"


def test_many_autoscalers_leave_room_for_what_a_reader_needs(plan_of: Any, decide: Any, renderer: Any) -> None:
    """What else was tried goes first, then some of them; how to reject it all stays."""
    told = replace(EVIDENCE, steps=("target (−18 % cost)",) * 3, tried=("target 0.80 of capacity (−12 % cost)",) * 3)
    for number, cut, kept in (
        (30, "what else was tried of autoscalers", 30),
        (400, "what else was tried of autoscalers, what is held, 380 autoscalers", 20),
    ):
        changes = [
            replace(DECISION, variant=replace(KEY, name=f"phi-{each}"), group="us-east/llm", tuning=told)
            for each in range(number)
        ]
        hold = Hold(kind=HoldKind.METRICS_MISSING, words="no series")
        held = decide("mixtral", outcome=Outcome.HELD, hold=hold, group="us-east/llm")
        plan = plan_of(*changes, *([held] if number > 30 else []))
        view = pull_request_view(plan, plan.groups[0])
        body = renderer.render_within("pull_request/body.md.j2", reductions(view), limit=24_000)
        assert len(body) <= 24_000
        assert body.count("on your last 14 days") == kept
        assert f"Left out to fit the forge's limit: {cut}." in body
        assert "Close this pull request to reject exactly this decision" in body


def test_a_plan_lists_what_changes_of_autoscalers_apart_from_replicas(plan_of: Any, decide: Any) -> None:
    told = plan_text(plan_of(replace(DECISION, metric="running"), decide("llama")))
    assert "prod/llm/phi  " not in told
    (line,) = [each for each in told.replace("\n      ", " ").splitlines() if "llm/phi:" in each]
    assert line == (
        "   prod/llm/phi: behavior.scaleDown.policies Percent 100 in 15 s (the default) → Percent 10 in 60 s, "
        "behavior.scaleDown.stabilizationWindowSeconds 300 (the controller's default) → 900, "
        "target of running 40 → 52; "
        "on your last 14 days: −18 % cost, attainment 97.9 → 99.2 %, starts 41 → 30 a day; allow"
    )
    assert told.count("? → ? req/s") == 1, "of llama alone"


def test_what_several_autoscalers_get_is_told_of_all_of_them() -> None:
    told = replace(EVIDENCE, members=3, steps=("target (−18 % cost)",))
    (row,) = tuning_rows([replace(DECISION, tuning=told)], {KEY: "phi"})
    assert row.together == "All figures are of the 3 autoscalers together that get this setting"
    assert (row.steps, row.fitted, row.top) == (("target (−18 % cost)",), "10 days", "4")
    (row,) = tuning_rows([DECISION], {KEY: "phi"})
    assert row.together == ""
