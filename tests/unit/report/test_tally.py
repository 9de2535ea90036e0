"""Who is told to be held, or to wait, is counted so, whatever a plan is shown as."""

from hypothesis import given
from hypothesis import strategies as st

from reconciler.domain.holds import Hold, HoldKind
from reconciler.domain.inventory import Allocation
from reconciler.domain.plan import Decision, Outcome, Plan
from reconciler.report.document import plan_json
from reconciler.report.pull_request import pull_request_view
from reconciler.report.text import counts_text, plan_text
from tests.unit.report.conftest import make_decision, make_plan

STAYS = Allocation(accelerator="H100", replicas=3)
KINDS = ("change", "change that waits", "held", "waits", "unchanged")


def decision(number: int, kind: str) -> Decision:
    """One decision of a kind."""
    hold = Hold(kind=HoldKind.WAITING_FOR_DEVICES, words=f"because of {number}")
    if kind.startswith("change"):
        return make_decision(f"v{number}", waiting=hold if "waits" in kind else None)
    outcome = Outcome.HELD if kind == "held" else Outcome.UNCHANGED
    hold_of, waiting = (hold if kind == "held" else None), (hold if kind == "waits" else None)
    return make_decision(f"v{number}", outcome=outcome, desired=STAYS, current=STAYS, hold=hold_of, waiting=waiting)


def section(plan: Plan, title: str) -> str:
    """What stands under a title of a plan's text."""
    blocks = plan_text(plan).split("\n\n")
    return next((block for block in blocks if block.startswith(f"{title}\n")), "")


@given(st.lists(st.sampled_from(KINDS), min_size=1, max_size=8))
def test_whatever_is_held_or_waits_is_counted_as_such(kinds: list[str]) -> None:
    decisions = [decision(number, kind) for number, kind in enumerate(kinds)]
    plan = make_plan(*decisions)
    numbers = {kind: kinds.count(kind) for kind in KINDS}
    changes = numbers["change"] + numbers["change that waits"]
    assert plan.tally == {
        "change": changes,
        "held": numbers["held"],
        "waiting": numbers["waits"],
        "unchanged": numbers["unchanged"],
    }
    assert sum(plan.tally.values()) == len(decisions)
    assert plan_json(plan)["counts"] == plan.tally
    words = counts_text(plan)
    assert f" {numbers['held']} held" in words
    assert words.endswith(f" {numbers['unchanged']} unchanged.")
    assert (f"{numbers['waits']} waiting" in words) is bool(numbers["waits"])
    view = pull_request_view(plan, plan.groups[0])
    told = {f"v{number}" for number, kind in enumerate(kinds) if kind == "unchanged"}
    assert set(view.unchanged) == told
    for number, kind in enumerate(kinds):
        assert (f"because of {number}" in section(plan, "Held")) is (kind == "held")
        assert (f"because of {number}" in section(plan, "Waiting")) is ("wait" in kind)
