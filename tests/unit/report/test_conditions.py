"""The pull request that changes nothing and tells the cluster of conditions: hostile values, and the forge's limit."""

from dataclasses import replace
from typing import Any

from markdown_it import MarkdownIt

from reconciler.domain.identity import ResourceKey
from reconciler.domain.plan import GroupPlan, Plan
from reconciler.domain.proposals import ConditionFlip, Part
from reconciler.rendering.renderer import Renderer
from reconciler.report.document import plan_json
from reconciler.report.pull_request import conditions_commit_view, conditions_view, fewer_rows
from reconciler.report.text import plan_text

BODY = "pull_request/conditions.md.j2"
MARKER = '<!-- reconciler: {"version":1} -->'
HOSTILE = "True | <!-- @everyone\n# x -->"


def part_with(*flips: ConditionFlip) -> GroupPlan:
    return GroupPlan(name="us-east/llm", part=Part.STATUS, head_branch="b", decisions=(), flips=flips)


def flip(name: str = "llama", *, before: str = "True", after: str = "False") -> ConditionFlip:
    key = ResourceKey(cluster="us-east", namespace="llm", kind="VariantAutoscaling", name=name)
    return ConditionFlip(variant=key, type="OptimizationReady", before=before, after=after, reason="Held: no metrics")


def test_what_stood_in_git_hides_and_ends_nothing(renderer: Renderer, plan: Plan) -> None:
    body = renderer.render(BODY, conditions_view(plan, part_with(flip(before=HOSTILE)), marker=MARKER))
    rendered = MarkdownIt("commonmark", {"html": True}).enable("table").render(body)
    assert rendered.count("<td") == 3
    assert body.count("<!--") == body.count("-->") == 1
    assert body.endswith(f"{MARKER}\n")


def test_a_body_keeps_to_the_limit(renderer: Renderer, plan: Plan) -> None:
    part = part_with(*(flip(f"variant-{number:03}") for number in range(500)))
    views = fewer_rows(conditions_view(plan, part, marker=MARKER))
    body = renderer.render_within(BODY, views, limit=4_000, marker=MARKER)
    assert len(body) <= 4_000
    assert "Left out to fit the forge's limit: 480 rows." in body
    assert body.endswith(f"{MARKER}\n")


def test_the_commit_says_what_flipped_and_carries_its_fingerprint(renderer: Renderer) -> None:
    message = renderer.render("commit/message.j2", conditions_commit_view(part_with(flip())))
    assert message.splitlines()[0] == "Deliver conditions in us-east/llm"
    assert "llama OptimizationReady True -> False" in message
    assert f"Reconciler-Decision: {part_with(flip()).fingerprint}" in message


def test_the_fingerprint_says_what_is_told_and_not_why() -> None:
    one = part_with(flip()).fingerprint
    assert len(one) == 64
    assert part_with(replace(flip(), reason="other", before="Unknown")).fingerprint == one
    assert part_with(flip(after="Unknown")).fingerprint != one
    assert part_with().fingerprint == ""


def test_a_plan_shows_what_is_told(plan: Plan) -> None:
    telling = replace(plan, groups=(*plan.groups, part_with(flip("llama-8b-h100"))))
    assert "Conditions to deliver\n   llm/llama-8b-h100 OptimizationReady True -> False\n" in plan_text(telling)
    groups: Any = plan_json(telling)["groups"]
    assert groups[-1]["conditions"] == [
        {
            "variant": "us-east/llm/VariantAutoscaling/llama-8b-h100",
            "type": "OptimizationReady",
            "before": "True",
            "after": "False",
            "reason": "Held: no metrics",
        }
    ]
