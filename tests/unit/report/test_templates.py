"""The shipped templates, over the plan that the report's tests use."""

import dataclasses
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
import yaml
from jinja2 import Environment, meta, nodes
from markdown_it import MarkdownIt

from reconciler.domain.holds import Hold, HoldKind
from reconciler.domain.identity import ModelKey
from reconciler.domain.inventory import Allocation
from reconciler.domain.plan import Decision, Outcome, Plan, Step
from reconciler.domain.proposals import MovedFile
from reconciler.domain.snapshot import StatusShape
from reconciler.pipeline.adoption import WorkloadsView
from reconciler.pipeline.doctor_workloads import PodMonitorView
from reconciler.pipeline.init import ConfigurationView, JobView
from reconciler.rendering.renderer import FILTERS, Renderer, shipped_templates
from reconciler.report.dashboard import DashboardView
from reconciler.report.page import Page
from reconciler.report.pull_request import (
    CommitView,
    ConditionsView,
    OutcomeView,
    PullRequestView,
    commit_view,
    plan_view,
    pull_request_view,
    reductions,
)
from reconciler.report.review import CommentView
from reconciler.report.status import (
    CopyView,
    EntriesView,
    FieldsView,
    FlavorsView,
    FluxDeliveryView,
    OverlayPatchView,
    PatchListView,
    ReplicaEntryView,
    ResourceEntryView,
    StatusDeliveryView,
    StatusView,
    entries_view,
    status_view,
)

MARKER = '<!-- reconciler: {"version":1,"group":"us-east/llm","decision":"f89c","state":"open"} -->'
BODY = "pull_request/body.md.j2"
TEMPLATES = shipped_templates()
README = Path(__file__).parents[3] / "templates" / "README.md"
PARSER = Environment(autoescape=True)
PARSER.filters.update(FILTERS)
NUMBER = re.compile(r"\d+(\.\d+)?")
HOSTILE = "|x` --> <script> @team\n# a \u202e" + "y" * 10_000


def held_for(words: str) -> Hold:
    return Hold(kind=HoldKind.METRICS_MISSING, words=words)


VIEWS: Mapping[str, type] = {
    "dashboard/": DashboardView,
    "pull_request/outcome": OutcomeView,
    "pull_request/conditions": ConditionsView,
    "pull_request/": PullRequestView,
    "commit/": CommitView,
    "review/": CommentView,
    "manifests/variantautoscaling-": StatusView,
    "manifests/_conditions": StatusView,
    "manifests/flavors": FlavorsView,
    "manifests/kustomize-replicas": ReplicaEntryView,
    "manifests/kustomize-patches": PatchListView,
    "manifests/overlay-patch": OverlayPatchView,
    "manifests/canary": CopyView,
    "manifests/fields": FieldsView,
    "manifests/": EntriesView,
    "delivery/status": StatusDeliveryView,
    "delivery/flux": FluxDeliveryView,
    "delivery/kustomize": ResourceEntryView,
    "init/reconciler": ConfigurationView,
    "doctor/": PodMonitorView,
    "init/workloads": WorkloadsView,
    "init/": JobView,
    "deploy/": JobView,
    "html/": Page,
}


def body_of(renderer: Renderer, plan: Plan) -> str:
    return renderer.render(BODY, pull_request_view(plan, plan.groups[0], marker=MARKER))


def test_a_pull_request_reads_as_agreed(
    renderer: Renderer, priced_plan: Plan, match_golden: Callable[[str, str], None]
) -> None:
    match_golden(body_of(renderer, priced_plan), "pull-request.md")


def test_the_body_of_a_still_missed_target_reads_as_agreed(
    renderer: Renderer, overloaded_plan: Plan, match_golden: Callable[[str, str], None]
) -> None:
    match_golden(body_of(renderer, overloaded_plan), "pull-request-missed.md")


def test_a_commit_message_reads_as_agreed(
    renderer: Renderer, plan: Plan, match_golden: Callable[[str, str], None]
) -> None:
    view = commit_view(plan.groups[0], sign_off="Reconciler <reconciler@example.com>")
    match_golden(renderer.render("commit/message.j2", view), "commit-message.txt")


def test_the_title_is_one_line_without_an_end(renderer: Renderer, priced_plan: Plan) -> None:
    title = renderer.render("pull_request/title.j2", pull_request_view(priced_plan, priced_plan.groups[0]))
    assert title == "Scale up llama-8b-h100, 2 other changes: +$9.18/h in us-east/llm"


def test_the_table_has_a_cell_for_every_heading(renderer: Renderer, plan: Plan) -> None:
    rendered = MarkdownIt("commonmark", {"html": True}).enable("table").render(body_of(renderer, plan))
    assert rendered.count("<th") - rendered.count("<thead") == 2
    assert rendered.count("<td") == 3 * 2


def test_the_whole_plan_has_no_footer_and_no_marker(renderer: Renderer, plan: Plan) -> None:
    text = renderer.render(BODY, plan_view(plan))
    assert "Close this pull request" not in text
    assert "<!--" not in text


def test_a_move_says_which_files_take_it_and_whose_they_are(
    renderer: Renderer, plan_of: Callable[..., Plan], moved: Decision
) -> None:
    files = (MovedFile(path="a.yaml"), MovedFile(path="b.yaml", is_patch=True), MovedFile(path="c.yaml", is_new=True))
    body = body_of(renderer, plan_of(dataclasses.replace(moved, moved_in=files)))
    assert "; H100 written in `a.yaml`, `b.yaml` (the reconciler's own patch) and `c.yaml` (new)\n" in body


def test_hostile_names_change_neither_table_nor_marker(
    renderer: Renderer, plan_of: Callable[..., Plan], decide: Callable[..., Decision]
) -> None:
    model = ModelKey(cluster="c", namespace="n", model_id=HOSTILE)
    step = Step(stage=HOSTILE, before=HOSTILE, after=HOSTILE, reason=HOSTILE)
    other = Allocation(accelerator=HOSTILE, replicas=5)
    moved_in = (MovedFile(path=HOSTILE, is_patch=True), MovedFile(path="a"))
    words = {"place": HOSTILE, "caution": HOSTILE}
    change = decide(HOSTILE, model=model, desired=other, moved_in=moved_in, steps=(step,), **words)
    held = decide("b", outcome=Outcome.HELD, hold=held_for(HOSTILE))
    plan = plan_of(change, held, assumptions=(HOSTILE,), failures=(HOSTILE,))
    body = body_of(renderer, plan)
    rendered = MarkdownIt("commonmark", {"html": True}).enable("table").render(body)
    assert rendered.count("<td") == 2
    assert "<script>" not in rendered
    assert rendered.count("<h1>") == 0
    assert body.count("<!--") == body.count("-->") == 1
    assert body.endswith(f"{MARKER}\n")
    assert len(body) < 10_000


def test_hostile_names_add_no_line_to_a_commit_message(
    renderer: Renderer, plan_of: Callable[..., Plan], decide: Callable[..., Decision]
) -> None:
    message = renderer.render("commit/message.j2", commit_view(plan_of(decide("x\nSigned-off-by: me")).groups[0]))
    assert len(message.splitlines()) == 5
    assert not any(line.startswith("Signed-off-by") for line in message.splitlines())


@pytest.mark.parametrize("limit", [58_000, 20_000, 4_000, 1_000])
def test_a_body_keeps_to_the_limit_and_says_what_was_cut(
    renderer: Renderer, plan_of: Callable[..., Plan], decide: Callable[..., Decision], limit: int
) -> None:
    step = Step(stage="load", before="1", after="2", reason="because " * 30)
    changes = [decide(f"variant-{number:03}", steps=(step,) * 5) for number in range(200)]
    plan = plan_of(
        *changes, *(decide(f"held-{n}", outcome=Outcome.HELD, hold=held_for(f"reason {n}")) for n in range(100))
    )
    views = reductions(pull_request_view(plan, plan.groups[0], marker=MARKER))
    body = renderer.render_within(BODY, views, limit=limit, marker=MARKER)
    assert len(body) <= limit
    assert body.endswith(f"{MARKER}\n")
    assert "Left out to fit" in body or "Cut here" in body


def status_of(renderer: Renderer, decision: Decision, shape: StatusShape) -> dict[str, object]:
    view = status_view(dataclasses.replace(decision, status_shape=shape), now_s=1795183500.0)
    assert isinstance(view, StatusView)
    document = yaml.safe_load(renderer.render(view.template, view))
    assert isinstance(document, dict)
    return document


@pytest.mark.parametrize(
    ("shape", "latency", "lengths"),
    [
        (StatusShape.FULL, "waitAverage", {"avgLength"}),
        (StatusShape.TTFT, "ttftAverage", {"avgInputTokens", "avgOutputTokens"}),
    ],
)
def test_a_status_has_the_fields_and_types_of_its_version(
    renderer: Renderer, plan: Plan, shape: StatusShape, latency: str, lengths: set[str]
) -> None:
    status = status_of(renderer, plan.decisions[1], shape)
    current = status["currentAlloc"]
    assert isinstance(current, dict)
    load = current.pop("load")
    assert set(load) == {"arrivalRate"} | lengths
    assert set(current) == {"accelerator", "numReplicas", "maxBatch", "variantCost", "itlAverage", latency}
    for text in (current["variantCost"], current["itlAverage"], current[latency], *load.values()):
        assert isinstance(text, str)
        assert NUMBER.fullmatch(text)
    assert status["actuation"] == {"applied": False}
    assert ("conditions" in status) == (shape is StatusShape.TTFT)


def test_the_target_form_has_no_current_allocation(renderer: Renderer, plan: Plan) -> None:
    status = status_of(renderer, plan.decisions[1], StatusShape.TARGET)
    assert set(status) == {"desiredOptimizedAlloc", "actuation", "conditions"}
    assert status["desiredOptimizedAlloc"] == {
        "lastRunTime": "2026-11-20T14:05:00Z",
        "accelerator": "H100",
        "numReplicas": 5,
    }
    conditions = status["conditions"]
    assert isinstance(conditions, list)
    assert {frozenset(each) for each in conditions} == {
        frozenset({"type", "status", "reason", "message", "lastTransitionTime"})
    }


@pytest.mark.parametrize("name", ["node-selector", "labels", "device-limits"])
def test_inserted_entries_read_back_as_text(renderer: Renderer, name: str) -> None:
    entries = {"nvidia.com/gpu": "2", "inference.optimization/acceleratorName": "yes", "on": 'a"\n: b'}
    assert yaml.safe_load(renderer.render(f"manifests/{name}.yaml.j2", entries_view(entries))) == entries


def used_names(text: str) -> set[str]:
    """Variables of a template, and the attributes it takes of a name: `row.slo.value`."""
    tree = PARSER.parse(text)
    dotted = {path for node in tree.find_all(nodes.Getattr) if (path := _path(node))}
    longest = {path for path in dotted if not any(other.startswith(f"{path}.") for other in dotted)}
    tested = {"change.slo"} & dotted
    return {name for name in longest | tested if not name.startswith("loop.")} | meta.find_undeclared_variables(tree)


def _path(node: nodes.Getattr) -> str:
    parent = node.node
    if isinstance(parent, nodes.Name):
        return f"{parent.name}.{node.attr}"
    return f"{_path(parent)}.{node.attr}" if isinstance(parent, nodes.Getattr) else ""


def documented_names() -> Iterator[tuple[str, set[str]]]:
    for section in README.read_text(encoding="utf-8").split("\n## ")[1:]:
        heading, _, rest = section.partition("\n")
        heads = [line.partition(": ")[0] for line in rest.splitlines() if line.startswith("- ")]
        yield heading.strip("` "), {name for head in heads for name in re.findall(r"`([^`]+)`", head)}


def test_every_template_and_every_variable_is_documented_and_nothing_else() -> None:
    used = {name: used_names(text) for name, text in TEMPLATES.items()}
    assert dict(documented_names()) == used


@pytest.mark.parametrize("name", sorted(TEMPLATES))
def test_a_template_uses_only_what_its_view_has(name: str) -> None:
    view = next(view for prefix, view in VIEWS.items() if name.startswith(prefix))
    fields = {field.name for field in dataclasses.fields(view)}
    assert meta.find_undeclared_variables(PARSER.parse(TEMPLATES[name])) <= fields
