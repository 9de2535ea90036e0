"""Where limits bind, several groups propose together: which, where, and what becomes of that in later runs."""

from dataclasses import replace
from typing import Any

import pytest

from reconciler.decision.decide import solve
from reconciler.decision.limits import PACE_S, collected, within_limits
from reconciler.domain.holds import HoldKind
from reconciler.domain.plan import GroupPlan, VerdictKind
from reconciler.domain.proposals import STOP_LABEL, Part, Proposal, ProposalState, collected_groups, head_branch
from reconciler.policy.files import read_policy
from tests.unit.decision.conftest import CLUSTER, key

FIRST, SECOND, _ = collected_groups(CLUSTER)
GROUPS = tuple("abcdef")
ALLOW = b"apiVersion: reconciler.io/v1alpha1\nkind: Policy\nrules:\n  - "


@pytest.fixture
def late(fleet: Any) -> Any:
    """Six models of a group each, all of which have less than they need; four pull requests may be opened an hour."""
    for name in GROUPS:
        fleet.add(name, model_id=f"model-{name}", replicas=2, annotations={"group": name})
        fleet.offer(55.0, f"model-{name}")
    limit(fleet, created_per_hour=4)
    return fleet


def limit(fleet: Any, **limits: int) -> None:
    """Allow no more than that; what is left out is unlimited."""
    none = {"open_at_once": 0, "created_per_hour": 0, "pushes_per_hour": 0}
    fleet.set(pull_requests=replace(fleet.settings.pull_requests, **none | limits))


def planned(fleet: Any) -> tuple[GroupPlan, ...]:
    solved = solve(fleet.snapshot(), {})
    return within_limits(
        solved.situation, collected(solved.situation, solved.staged, solved.plan_of(solved.staged)).groups
    )


def shown(fleet: Any) -> dict[str, str]:
    """By name, the variants that each pull request changes now; what waits is in brackets."""
    names = {each.name: "".join(change.variant.name for change in each.changes) for each in planned(fleet)}
    waiting = {each.name for each in planned(fleet) if each.blocked is not None}
    return {name: f"[{found}]" if name in waiting else found for name, found in names.items() if found}


def publish(fleet: Any, name: str, **fields: Any) -> Proposal:
    """Open what the plan says under a name, as a run would."""
    plan = next(each for each in planned(fleet) if each.name == name and each.changes)
    changes = (change.change.proposed for change in plan.changes)
    told = {"branch_decision": plan.fingerprint, "opened_at_s": fleet.now_s, "pushes_s": (fleet.now_s,)}
    found: Proposal = fleet.propose(*changes, group=name, part=plan.part, **told | fields)
    assert found.head_branch == plan.head_branch
    return found


def test_what_is_opened_beyond_half_of_a_limit_is_one_pull_request(late: Any) -> None:
    assert shown(late) == {"a": "a", "b": "b", FIRST: "cdef"}
    plan = next(each for each in planned(late) if each.name == FIRST)
    assert (plan.part, plan.head_branch) == (Part.URGENT, head_branch("reconciler/", FIRST, Part.URGENT))
    assert plan.groups == ("c", "d", "e", "f")
    assert [each.group for each in plan.changes] == ["c", "d", "e", "f"]


def test_open_pull_requests_bind_too(late: Any) -> None:
    limit(late, open_at_once=4)
    assert shown(late) == {"a": "a", "b": "b", FIRST: "cdef"}
    late.propose(head_branch="reconciler/gone", number=1)
    late.propose(head_branch="reconciler/gone-too", number=2)
    assert shown(late) == {FIRST: "abcdef"}


def test_without_limits_and_for_one_group_nothing_is_collected(late: Any) -> None:
    limit(late)
    assert shown(late) == {name: name for name in GROUPS}
    limit(late, created_per_hour=10)
    assert shown(late) == {"a": "a", "b": "b", "c": "c", "d": "d", "e": "e", "f": "f"}


def test_what_is_open_stays_where_it_stands_and_more_joins_it(late: Any) -> None:
    publish(late, FIRST, number=3)
    limit(late)
    assert shown(late) == {"a": "a", "b": "b", FIRST: "cdef"}
    limit(late, created_per_hour=1)
    assert shown(late) == {"a": "a", FIRST: "bcdef"} or shown(late) == {FIRST: "abcdef"}
    late.offer(10.0, "model-d")  # needs no more
    assert "d" not in shown(late)[FIRST]


@pytest.mark.parametrize("fields", [{"labels": (STOP_LABEL,)}, {"touched_by": "ada"}, {"in_merge_queue": True}])
def test_what_people_took_over_takes_no_more_and_the_next_is_opened(late: Any, fields: Any) -> None:
    late.offer(10.0, "model-e")
    late.offer(10.0, "model-f")
    publish(late, FIRST, number=3, **fields)
    late.offer(55.0, "model-e")
    late.offer(55.0, "model-f")
    limit(late, created_per_hour=1)
    assert shown(late) == {FIRST: "cd", SECOND: "abef"}


def test_what_was_pushed_often_takes_no_more(late: Any) -> None:
    limit(late, created_per_hour=4, pushes_per_hour=2)
    publish(late, FIRST, number=3, pushes_s=(late.now_s - 60, late.now_s))
    limit(late, created_per_hour=1, pushes_per_hour=2)
    assert shown(late) == {FIRST: "cdef", SECOND: "ab"}


def test_a_group_with_a_pull_request_of_its_own_keeps_it(late: Any, make: Any) -> None:
    publish(late, FIRST, number=3)
    late.propose(make.change("c", "2 x H100", "3 x H100"), group="c", part=Part.URGENT, number=4)
    found = shown(late)
    assert (found["c"], found[FIRST]) == ("c", "abdef")


def test_what_a_person_closed_stays_closed_in_every_group(late: Any) -> None:
    publish(late, FIRST, number=3, state=ProposalState.CLOSED, closed_at_s=late.now_s)
    found = {each.name: each.blocked for each in planned(late) if each.changes}
    assert {name for name, hold in found.items() if hold is not None} == {"c", "d", "e", "f"}
    assert {hold.kind for hold in found.values() if hold is not None} == {HoldKind.DECLINED}
    assert "#3" in str(found["c"])


def test_one_group_that_a_person_declined_keeps_the_others_from_nothing(late: Any, make: Any) -> None:
    publish(late, FIRST, number=3)
    declined = make.change("c", "2 x H100", "6 x H100")
    late.propose(
        declined, group="c", part=Part.URGENT, number=4, state=ProposalState.CLOSED, closed_at_s=late.now_s - 60
    )
    assert shown(late) == {"c": "[c]", FIRST: "abdef"}


def test_what_cannot_be_seen_any_more_keeps_it_as_it_is(late: Any) -> None:
    publish(late, FIRST, number=3)
    late.loads.clear()
    for name in GROUPS:
        if name != "c":
            late.offer(55.0, f"model-{name}")
    plan = next(each for each in planned(late) if each.name == FIRST)
    assert plan.blocked is not None
    assert "#3 stays as it is: metrics of" in plan.blocked.words


def blind(fleet: Any, name: str) -> None:
    """No metrics of a model arrive any more."""
    fleet.loads = {model: each for model, each in fleet.loads.items() if model.model_id != f"model-{name}"}


def test_a_group_that_cannot_be_seen_does_not_keep_repairs_of_others_back(late: Any) -> None:
    publish(late, FIRST, number=3)
    limit(late)
    blind(late, "c")
    late.offer(95.0, "model-d")
    plan = next(each for each in planned(late) if each.name == FIRST)
    assert plan.blocked is None
    assert {each.variant.name: each.desired.replicas for each in plan.changes} == {"d": 10, "e": 6, "f": 6}


def test_a_group_that_cannot_be_seen_does_not_keep_what_would_take_a_repair_back(fleet: Any) -> None:
    for name in GROUPS:
        fleet.add(name, model_id=f"model-{name}", replicas=9, annotations={"group": name})
        fleet.offer(55.0, f"model-{name}")
    limit(fleet, created_per_hour=4)
    publish(fleet, FIRST, number=3)
    limit(fleet)
    blind(fleet, "c")
    fleet.offer(135.0, "model-d")
    found = {each.name: each for each in planned(fleet) if each.changes}
    assert found[FIRST].blocked is None
    assert [each.variant.name for each in found[FIRST].changes] == ["e", "f"]
    assert [(each.variant.name, each.desired.replicas) for each in found["d"].changes] == [("d", 14)]


def test_what_a_person_wrote_as_proposed_does_not_free_what_cannot_be_seen(late: Any) -> None:
    """The pull request still says of that group what is decided."""
    publish(late, FIRST, number=3)
    blind(late, "c")
    late.workloads = [replace(each, replicas=6) if each.key.name == "d" else each for each in late.workloads]
    plan = next(each for each in planned(late) if each.name == FIRST)
    assert [each.variant.name for each in plan.changes] == ["e", "f"]
    assert plan.blocked is not None


def test_rules_judge_each_group_by_itself(late: Any) -> None:
    """Four groups add four times what one does: to a rule about a group's costs that is still one."""
    rule = b"{name: dear, approval: {costMoreThan: 50}}"
    late.set(rules=read_policy("p.yaml", ALLOW + rule).rules)
    changes = [change for each in planned(late) if each.name == FIRST for change in each.changes]
    assert [each.verdict.kind for each in changes] == [VerdictKind.ALLOW] * 4


def test_what_merges_by_itself_is_collected_apart(late: Any) -> None:
    rule = b"{name: itself, scope: {name: f}, autoMerge: {}}"
    late.set(rules=read_policy("p.yaml", ALLOW + rule).rules)
    assert shown(late) == {"a": "a", "b": "b", "f": "f", FIRST: "cde"}
    late.set(rules=read_policy("p.yaml", ALLOW + b"{name: itself, autoMerge: {}}").rules)
    assert shown(late) == {"a": "a", "b": "b", FIRST: "cdef"}
    (merges,) = [each.merges for each in planned(late) if each.name == FIRST]
    assert merges is not None
    assert not merges.waits


def itself(fleet: Any, **limits: int) -> None:
    """Whatever is allowed merges by itself."""
    fleet.set(rules=read_policy("p.yaml", ALLOW + b"{name: itself, autoMerge: {}}").rules)
    limit(fleet, **limits)


def merged(fleet: Any, make: Any, name: str, minutes: float) -> None:
    """A pull request of a group added a replica so long ago."""
    change = make.change(name, "1 x H100", "2 x H100")
    closed_s = fleet.now_s - minutes * 60
    fleet.propose(change, group=name, part=Part.URGENT, number=90, state=ProposalState.MERGED, closed_at_s=closed_s)


def test_a_group_whose_last_merge_does_not_serve_is_collected_apart(late: Any, make: Any) -> None:
    """One that had no time to roll out yet goes with the others: it does by the next run."""
    itself(late, created_per_hour=1)
    merged(late, make, "c", minutes=2)
    assert shown(late) == {FIRST: "abcdef"}
    late.proposals.clear()
    merged(late, make, "c", minutes=30)
    late.observations[key("c")] = replace(late.observations[key("c")], replicas_reporting=1)
    assert {name: found for name, found in shown(late).items() if "c" not in found} == {FIRST: "abdef"}


def test_a_group_that_would_have_the_others_wait_leaves(late: Any, make: Any) -> None:
    itself(late, created_per_hour=1)
    publish(late, FIRST, number=5, merges=True)
    assert shown(late)[FIRST] == "bcdef"
    merged(late, make, "c", minutes=30)
    late.observations[key("c")] = replace(late.observations[key("c")], replicas_reporting=1)
    found = shown(late)
    assert found[FIRST] == "bdef"
    (merges,) = [each.merges for each in planned(late) if each.name == FIRST]
    assert merges is not None
    assert not merges.waits


def test_what_is_about_to_merge_is_not_pushed_for_what_comes_on_top(late: Any) -> None:
    """Nor for another model of its groups; where something keeps it open, it is pushed in the end."""
    itself(late)
    late.add("more", model_id="more", replicas=9, annotations={"group": "a"})
    late.offer(55.0, "more")
    opened = publish(late, "a", number=5, merges=True)
    for name in ("model-a", "more"):
        late.offer(99.0, name)
    late.now_s += 600
    (plan,) = [each for each in planned(late) if each.name == "a" and each.part is Part.URGENT]
    assert plan.fingerprint == opened.branch_decision
    late.now_s += 1200
    (plan,) = [each for each in planned(late) if each.name == "a" and each.part is Part.URGENT]
    assert "".join(change.variant.name for change in plan.changes) == "amore"
    assert plan.fingerprint != opened.branch_decision


def test_pushes_for_others_hold_no_model_up(late: Any) -> None:
    itself(late)
    late.add("more", model_id="more", replicas=9, annotations={"group": "a"})
    late.offer(55.0, "more")
    begun_s = late.now_s
    pushes_s = (begun_s + 600, begun_s + 1200, begun_s + 1800)
    opened = publish(late, "a", number=5, merges=True, opened_at_s=begun_s, pushes_s=pushes_s)
    late.offer(99.0, "more")
    late.now_s = begun_s + 1800
    (plan,) = [each for each in planned(late) if each.name == "a" and each.part is Part.URGENT]
    assert "more" in {change.variant.name for change in plan.changes}
    assert plan.fingerprint != opened.branch_decision


def test_what_has_turned_round_is_pushed_at_once(late: Any) -> None:
    itself(late)
    opened = publish(late, "a", number=5, merges=True)
    late.offer(12.0, "model-a")
    assert not [each for each in planned(late) if each.fingerprint == opened.branch_decision]


def test_a_quarter_of_the_merges_is_for_repairs(fleet: Any) -> None:
    itself(fleet, merges_per_hour=4)
    for name, replicas in (("quiet", 9), ("short", 2)):
        fleet.add(name, model_id=name, replicas=replicas, annotations={"group": name})
        fleet.offer(55.0, name)
    left = {each.name: each.merges.left for each in planned(fleet) if each.merges is not None}
    assert left == {"quiet": 3, "short": 4}


def test_changes_without_urgency_are_collected_at_most_twice_an_hour(fleet: Any) -> None:
    for name in GROUPS:
        fleet.add(name, model_id=f"model-{name}", replicas=9, annotations={"group": name})
        fleet.offer(55.0, f"model-{name}")
    limit(fleet, created_per_hour=4)
    assert shown(fleet) == {"a": "a", "b": "b", FIRST: "cdef"}
    publish(fleet, FIRST, number=3, state=ProposalState.WITHDRAWN, closed_at_s=fleet.now_s)
    fleet.now_s += PACE_S - 60
    limit(fleet, created_per_hour=2)
    assert shown(fleet) == {FIRST: "[abcdef]"}
    words = next(each.put_back for each in planned(fleet) if each.name == FIRST)
    assert words.endswith("less than 30 minutes ago: until 2027-01-15 08:30 UTC")
    fleet.now_s += 60
    assert shown(fleet) == {FIRST: "abcdef"}


def test_no_more_changes_are_collected_than_a_marker_holds(fleet: Any) -> None:
    for number in range(100):
        name = f"m{number:02}"
        fleet.add(name, model_id=name, replicas=2, annotations={"group": name})
        fleet.offer(55.0, name)
    limit(fleet, created_per_hour=4)
    sizes = {each.name: len(each.changes) for each in planned(fleet) if len(each.changes) > 1}
    assert sizes == {FIRST: 40, SECOND: 40, collected_groups(CLUSTER)[2]: 18}
