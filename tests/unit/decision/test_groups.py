"""Names that identify a pull request, and the fingerprint that alone moves it."""

import hashlib
import re
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.domain.holds import BrokenResource, Hold, HoldKind
from reconciler.domain.plan import VerdictKind, decision_fingerprint
from reconciler.domain.proposals import Part, branches_of, head_branch, undivided_branch


def suffix(name: str) -> str:
    return hashlib.sha256(name.encode()).hexdigest()[:8]


@pytest.mark.parametrize(
    ("group", "slug"),
    [
        ("us-east/llm", "us-east-llm"),
        ("all", "all"),
        ("US East // LLM_1", "us-east-llm-1"),
        ("x" * 80, "x" * 60),
        ("modèle", "mod-le"),
    ],
)
def test_a_head_branch_is_the_groups_name_made_safe(group: str, slug: str) -> None:
    urgent = suffix(f"{group}\0urgent")
    assert head_branch("reconciler/", group, Part.URGENT) == f"reconciler/{slug}-urgent-{urgent}"
    assert undivided_branch("reconciler/", group) == f"reconciler/{slug}-{suffix(group)}"


@given(st.text(min_size=1))
def test_every_head_branch_is_a_plain_ref(group: str) -> None:
    for part in Part:
        assert re.fullmatch(rf"bot/[a-z0-9-]{{1,60}}-{part}-[0-9a-f]{{8}}", head_branch("bot/", group, part))


def test_groups_that_look_alike_have_branches_of_their_own() -> None:
    assert len({*branches_of("reconciler/", "a/b"), *branches_of("reconciler/", "a-b")}) == 2 * (len(Part) + 1)


def test_decisions_stand_in_order_of_group_and_name(fleet: Any) -> None:
    fleet.add("b", annotations={"group": "zeta"})
    fleet.add("c", model_id="qwen")
    fleet.add("a", model_id="phi")
    for model_id in ("qwen", "phi", "meta/llama-8b"):
        fleet.offer(5.0, model_id)
    plan = fleet.plan()
    assert [group.name for group in plan.groups] == ["us-east/llm", "zeta"]
    assert [decision.variant.name for decision in plan.decisions] == ["a", "c", "b"]


def test_a_broken_resource_stands_in_the_group_of_its_namespace(fleet: Any, make: Any) -> None:
    fleet.set(pull_requests=replace(fleet.settings.pull_requests, group_by=("namespace", "label:team")))
    fleet.broken.append(BrokenResource(key=make.key("x"), place=make.place("x.yaml"), reason="broken"))
    assert [group.name for group in fleet.plan().groups] == ["llm/none"]


@pytest.fixture
def changed(fleet: Any, make: Any) -> Any:
    """A variant that goes from one to three replicas."""
    fleet.add(replicas=1, profiles=(make.profile("H100"), make.profile("A100")), annotations={"accelerator": "keep"})
    fleet.offer(25.0)
    return fleet


def fingerprint(fleet: Any) -> str:
    (group,) = fleet.plan().groups
    assert group.changes
    return str(group.fingerprint)


def test_observations_are_not_in_the_fingerprint(changed: Any) -> None:
    before = fingerprint(changed)
    changed.offer(25.4)
    changed.now_s += 600
    changed.add("held", model_id="qwen", annotations={"ignore": True})
    assert fingerprint(changed) == before


def test_a_value_changes_the_fingerprint(changed: Any) -> None:
    before = fingerprint(changed)
    changed.offer(31.0)
    assert fingerprint(changed) != before


def test_an_accelerator_changes_the_fingerprint(changed: Any) -> None:
    before = fingerprint(changed)
    changed.resources[0] = replace(changed.resources[0], settings={})
    assert changed.desired() == {"llama": "3 x A100"}
    assert fingerprint(changed) != before


def test_a_verdict_changes_the_fingerprint(changed: Any) -> None:
    (decision,) = changed.plan().decisions
    allowed = replace(decision, verdict=replace(decision.verdict, kind=VerdictKind.ALLOW))
    clamped = replace(decision, verdict=replace(decision.verdict, kind=VerdictKind.CLAMP, rule="step-down"))
    assert len({decision_fingerprint([each.change]) for each in (decision, allowed, clamped)}) == 3


def test_words_do_not_change_the_fingerprint(changed: Any) -> None:
    (decision,) = changed.plan().decisions
    hold = Hold(kind=HoldKind.IGNORED, words="said otherwise")
    reworded = replace(decision, steps=(), hold=hold, verdict=replace(decision.verdict, reason="because"))
    assert decision_fingerprint([reworded.change]) == decision_fingerprint([decision.change])
