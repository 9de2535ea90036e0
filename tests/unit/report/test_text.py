from collections.abc import Callable

from reconciler.domain.holds import Hold, HoldKind
from reconciler.domain.identity import Figure, Finding, ModelKey, Place, ResourceKey, Severity
from reconciler.domain.plan import Decision, Outcome, Plan, Step
from reconciler.domain.records import replace
from reconciler.report.explain import Chain, SettingRow, explain_json, explain_text
from reconciler.report.formatting import display_width
from reconciler.report.text import plan_text


def test_the_plan_reads_as_agreed(priced_plan: Plan, match_golden: Callable[[str, str], None]) -> None:
    match_golden(plan_text(priced_plan), "plan.txt")


def test_a_missing_price_shows_as_cost_units(plan: Plan, match_golden: Callable[[str, str], None]) -> None:
    match_golden(plan_text(plan), "plan-unpriced.txt")


def test_a_narrow_terminal_stacks_each_change(plan: Plan, match_golden: Callable[[str, str], None]) -> None:
    text = plan_text(plan, width=80)
    match_golden(text, "plan-narrow.txt")


def test_no_line_leaves_the_terminal(plan: Plan) -> None:
    lines = plan_text(plan, width=60).splitlines()
    assert max(map(display_width, lines)) <= 60


def test_a_plan_without_changes_has_no_table(plan_of: Callable[..., Plan]) -> None:
    text = plan_text(plan_of())
    assert "VARIANT" not in text
    assert text.splitlines()[1].startswith("0 changes, 0 held, 0 unchanged.")


def test_failures_and_findings_stand_in_the_plan(plan_of: Callable[..., Plan]) -> None:
    finding = Finding(place=Place(path="a.yaml", line=3), severity=Severity.ERROR, message="expected a number")
    text = plan_text(plan_of(failures=("eu-west: Prometheus answered 503",), findings=(finding,)))
    assert "Failed\n   eu-west: Prometheus answered 503\n" in text
    assert "To fix\n   a.yaml:3: error: expected a number\n" in text


def test_several_clusters_stand_before_the_names(plan_of: Callable[..., Plan], decide: Callable[..., Decision]) -> None:
    there = ResourceKey(cluster="eu-west", namespace="llm", kind="VariantAutoscaling", name="llama")
    text = plan_text(plan_of(decide("llama"), decide("x", variant=there)))
    assert " us-east/llm/llama " in text
    assert " eu-west/llm/llama " in text
    assert text.startswith("eu-west, us-east at ")


def test_the_kind_stands_before_names_that_two_share(
    plan_of: Callable[..., Plan], decide: Callable[..., Decision]
) -> None:
    other = ResourceKey(cluster="us-east", namespace="llm", kind="Playground", name="llama")
    text = plan_text(plan_of(decide("llama"), decide("x", variant=other)))
    assert " playground:llm/llama " in text
    assert " variantautoscaling:llm/llama " in text


def test_wide_characters_keep_the_columns_aligned(
    plan_of: Callable[..., Plan], decide: Callable[..., Decision]
) -> None:
    lines = plan_text(plan_of(decide("推論モデル"), decide("llama"))).splitlines()
    wide, narrow = (next(line for line in lines if name in line) for name in ("推論モデル", "llama"))
    assert display_width(wide[: wide.index("3 →")]) == display_width(narrow[: narrow.index("3 →")])


def test_the_hostile_cannot_reach_the_terminal(plan_of: Callable[..., Plan], decide: Callable[..., Decision]) -> None:
    hostile = "a\x1b[31m\n\u202eevil" + "x" * 10_000
    hold = Hold(kind=HoldKind.WAITING_FOR_DEVICES, words=hostile[:200])
    text = plan_text(plan_of(decide(hostile, waiting=hold), decide("b", outcome=Outcome.HELD, hold=hold)))
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert max(map(len, text.splitlines())) < 300


def test_explain_shows_steps_then_settings(plan: Plan, match_golden: Callable[[str, str], None]) -> None:
    decision = next(each for each in plan.decisions if each.variant.name == "llama-8b-h100")
    settings = (
        SettingRow(
            name="serviceClass",
            value="premium",
            source="reconciler.yaml:55 models[0]",
            displaced="Freemium (ConfigMap service-classes-config)",
        ),
        SettingRow(name="maxReplicas", value="8", source="annotation, apps/base/llama/deployment.yaml:9"),
        SettingRow(name="delay start", value="4m10s", source="measured: p90 of 31 starts", displaced="5m (built-in)"),
    )
    match_golden(explain_text(decision, settings), "explain.txt")


def test_explain_says_why_a_variant_is_held(plan: Plan) -> None:
    decision = next(each for each in plan.decisions if each.variant.name == "phi-4")
    assert explain_text(decision, ()).splitlines()[-2] == f"held: {decision.hold}"


def test_a_change_whose_pull_request_is_put_back_says_until_when(plan: Plan) -> None:
    text = explain_text(plan.decisions[0], (), put_back="20 are open: until one of them is closed")
    assert text.splitlines()[-2] == "put back: 20 are open: until one of them is closed"
    assert "put back" not in explain_text(plan.decisions[0], ())
    document = explain_json(plan.decisions[0], (), solver={}, put_back="20 are open")
    assert document["put_back"] == "20 are open"
    assert "put_back" not in explain_json(plan.decisions[0], (), solver={})


def test_explain_wraps_reasons_below_their_column(decide: Callable[..., Decision]) -> None:
    model = ModelKey(cluster="c", namespace="n", model_id="m")
    decision = decide(model=model, steps=(Step(stage="load", before="", after="39.1 req/s", reason="word " * 20),))
    lines = explain_text(decision, (), width=60).splitlines()
    assert lines[3].startswith(" " * 26 + "word")


def test_down_to_100_columns_the_table_stays(priced_plan: Plan) -> None:
    lines = plan_text(priced_plan, width=100).splitlines()
    assert max(map(display_width, lines[3:])) <= 100
    assert any("VARIANT" in line and "REPLICAS" in line for line in lines)
    assert any("6 A100 → 3 H100" in line for line in lines)


def test_a_reason_that_several_share_is_said_once(
    plan_of: Callable[..., Plan], decide: Callable[..., Decision]
) -> None:
    hold = Hold(kind=HoldKind.METRICS_FAILED, words="http://prom: no connection")
    text = plan_text(plan_of(*(decide(name, outcome=Outcome.HELD, hold=hold) for name in "abc")), width=80)
    assert text.count("no connection") == 1
    assert "   3 variants  http://prom: no connection\n               llm/a, llm/b, llm/c\n" in text


def test_a_plan_that_held_everything_ends_with_that(
    plan_of: Callable[..., Plan], decide: Callable[..., Decision]
) -> None:
    hold = Hold(kind=HoldKind.METRICS_STALE, words="metrics stale")
    text = plan_text(plan_of(decide("a", outcome=Outcome.HELD, hold=hold)))
    assert text.splitlines()[-1] == "Nothing was decided: all 1 variants are held."


def test_an_empty_plan_says_what_it_looked_for_and_where(plan_of: Callable[..., Plan]) -> None:
    last = plan_text(plan_of()).splitlines()[-1]
    assert last.startswith("Nothing to size: https://git.example.com/acme/fleet at ")
    assert "VariantAutoscaling" in last
    assert "the clusters' paths" in last


def test_an_empty_plan_of_a_shard_says_nothing_of_the_repository(plan_of: Callable[..., Plan]) -> None:
    adopted = ResourceKey(cluster="c", namespace="n", kind="Deployment", name="a")
    for unmanaged in ((), (adopted,)):
        plan = replace(plan_of(), is_part=True, unmanaged=unmanaged)
        assert plan_text(plan).endswith("Nothing to decide for this shard.\n")


def test_no_line_of_explain_leaves_a_narrow_terminal(decide: Callable[..., Decision]) -> None:
    """Figures and values stand below what they are of, where they do not fit beside it."""
    decision = decide(place="clusters/us-east/llm/llama.yaml:3")
    settings = (
        SettingRow(
            name="maxReplicas", value="8", source="annotation, apps/base/llama/deployment.yaml:9", displaced="5"
        ),
        SettingRow(name="group", value="us-east/llm", source="built-in"),
    )
    figure = Figure(
        subject="meta-llama/Llama-3.1-8B-Instruct", name="arrivals", value=39.1, unit="req/s", queries=("arrivals",)
    )
    chain = Chain(figures=(figure,), queries={"arrivals": ("sum by (namespace, pod, model_name) (rate(a[5m]))", "b")})
    for is_full in (False, True):
        text = explain_text(decision, settings, chain, width=50, is_full=is_full)
        assert max(map(len, text.splitlines())) <= 50
    assert "maxReplicas  8, annotation," in text
    assert "instead of 5" in text
    assert "  meta-llama/Llama-3.1-8B-Instruct\n    arrivals  39.1 req/s, arrivals" in text


def test_the_query_that_told_the_load_stands_before_the_values(decide: Callable[..., Decision]) -> None:
    figure = Figure(subject="m", name="arrivals", value=39.1, unit="req/s", queries=("arrivals",))
    lost = Figure(subject="m", name="lost", value=None, reason="not asked for", queries=("lost",))
    chain = Chain(figures=(lost, figure), queries={"lost": ("up",), "arrivals": ("sum(a)", "sum(b)"), "itl": ("c",)})
    lines = explain_text(decide(), (SettingRow(name="x", value="1", source="y"),), chain).splitlines()
    assert [line.split()[0] for line in lines[1:]] == ["QUERY", "arrivals", "or", "VALUE", "x", "-v"]
    assert lines[3].endswith("or 1 alternative for other engines")
