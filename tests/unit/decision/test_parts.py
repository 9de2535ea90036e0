"""A group's pull requests: what is urgent, what a person must agree to, and what cannot be parted."""

from dataclasses import replace
from typing import Any

import pytest

from reconciler.decision.decide import decide
from reconciler.decision.groups import part_of
from reconciler.domain.plan import Plan, Verdict, VerdictKind
from reconciler.domain.proposals import STOP_LABEL, Part, ProposalState, undivided_branch

GROUP = "us-east/llm"


def parts(plan: Plan) -> dict[str, str]:
    """Each changed variant's part."""
    return {change.variant.name: str(group.part) for group in plan.groups for change in group.changes}


@pytest.fixture
def mixed(fleet: Any) -> Any:
    """A model that must grow from 3 to 6 replicas, and one that can do with 2 of its 9."""
    fleet.add("late", replicas=3)
    fleet.add("idle", model_id="qwen", replicas=9)
    fleet.offer(55.0)
    fleet.offer(15.0, "qwen")
    return fleet


def test_what_repairs_a_target_is_apart_from_what_saves(mixed: Any) -> None:
    plan = mixed.plan()
    assert parts(plan) == {"late": "urgent", "idle": "approval"}
    assert [group.name for group in plan.groups] == [GROUP, GROUP]
    assert len({group.head_branch for group in plan.groups}) == 2


@pytest.mark.parametrize(
    ("kind", "part"),
    [
        (VerdictKind.ALLOW, Part.AUTO),
        (VerdictKind.CLAMP, Part.AUTO),
        (VerdictKind.NEEDS_APPROVAL, Part.APPROVAL),
    ],
)
def test_a_verdict_decides_about_what_is_not_urgent(mixed: Any, kind: VerdictKind, part: Part) -> None:
    mixed.plan()
    idle, late = mixed.decision("idle"), mixed.decision("late")
    assert part_of(replace(idle, verdict=Verdict(kind=kind))) is part
    assert part_of(replace(late, verdict=Verdict(kind=kind))) is Part.URGENT


def test_what_does_not_change_stands_beside_its_model_else_in_the_first_part(mixed: Any) -> None:
    mixed.add("kept", model_id="qwen", replicas=1, annotations={"ignore": True})
    mixed.add("held", model_id="phi", annotations={"ignore": True})
    urgent, approval = mixed.plan().groups
    assert [each.variant.name for each in urgent.decisions] == ["held", "late"]
    assert [each.variant.name for each in approval.decisions] == ["idle", "kept"]


def test_changes_that_touch_in_a_file_stay_together_in_the_strictest(mixed: Any, make: Any) -> None:
    bond = frozenset({make.key("late"), make.key("idle")})
    plan = decide(mixed.snapshot(), bonds=[bond])
    assert parts(plan) == {"late": "approval", "idle": "approval"}


def test_a_pool_that_does_not_hold_both_apart_keeps_them_together(mixed: Any) -> None:
    assert len(mixed.plan().groups) == 2
    mixed.stock(H100=12)  # all are taken: what grows needs what the other leaves
    assert mixed.desired() == {"late": "6 x H100", "idle": "2 x H100"}
    assert parts(mixed.plan()) == {"late": "approval", "idle": "approval"}


def test_a_pool_with_room_for_each_alone_parts_them(mixed: Any) -> None:
    mixed.stock(H100=15)
    assert parts(mixed.plan()) == {"late": "urgent", "idle": "approval"}


def test_what_is_proposed_stays_in_its_pull_request(mixed: Any, make: Any) -> None:
    mixed.propose(make.change("late", "3 x H100", "6 x H100"), part=Part.APPROVAL)
    assert parts(mixed.plan()) == {"late": "approval", "idle": "approval"}


def test_another_value_goes_where_it_belongs(mixed: Any, make: Any) -> None:
    mixed.propose(make.change("late", "3 x H100", "5 x H100"), part=Part.APPROVAL)
    assert parts(mixed.plan()) == {"late": "urgent", "idle": "approval"}


def test_a_pull_request_that_somebody_took_over_keeps_its_changes(mixed: Any, make: Any) -> None:
    mixed.propose(make.change("late", "3 x H100", "5 x H100"), part=Part.APPROVAL, labels=(STOP_LABEL,))
    assert parts(mixed.plan()) == {"late": "approval", "idle": "approval"}


def test_what_is_allowed_leaves_no_pull_request_that_needs_approval(mixed: Any, make: Any) -> None:
    """And what needs approval leaves the one that merges by itself."""
    mixed.propose(make.change("idle", "9 x H100", "2 x H100"), part=Part.AUTO)
    assert parts(mixed.plan()) == {"late": "urgent", "idle": "approval"}


def test_an_open_part_without_a_change_is_told_so_that_it_is_withdrawn(mixed: Any, make: Any) -> None:
    mixed.offer(25.0)
    mixed.propose(make.change("late", "3 x H100", "6 x H100"), part=Part.URGENT)
    urgent, approval = mixed.plan().groups
    assert (urgent.part, urgent.changes) == (Part.URGENT, ())
    assert [change.variant.name for change in approval.changes] == ["idle"]


def test_a_pull_request_from_before_parts_goes_on_as_the_one_that_needs_approval(mixed: Any, make: Any) -> None:
    branch = undivided_branch("reconciler/", GROUP)
    changes = (make.change("late", "3 x H100", "6 x H100"), make.change("idle", "9 x H100", "2 x H100"))
    mixed.propose(*changes, head_branch=branch)
    (group,) = mixed.plan().groups
    assert (group.part, group.head_branch) == (Part.APPROVAL, branch)
    assert len(group.changes) == 2


def test_what_a_person_closed_before_parts_stays_closed(mixed: Any, make: Any) -> None:
    branch = undivided_branch("reconciler/", GROUP)
    changes = (make.change("late", "3 x H100", "6 x H100"), make.change("idle", "9 x H100", "2 x H100"))
    mixed.propose(*changes, head_branch=branch, state=ProposalState.CLOSED, closed_at_s=mixed.now_s)
    assert [str(group.blocked) for group in mixed.plan().groups] == [
        "a person closed pull request #7 for this decision"
    ] * 2


def test_missing_metrics_keep_only_the_part_that_names_them(mixed: Any, make: Any) -> None:
    mixed.add("lost", model_id="phi", replicas=2)
    mixed.propose(make.change("lost", "2 x H100", "1 x H100"), part=Part.APPROVAL)
    urgent, approval = mixed.plan().groups
    assert urgent.blocked is None
    assert str(approval.blocked).startswith("open pull request #7 stays as it is: metrics of")
