"""Where a pull request leads: lines of files at the base, queries, pages; and what it is labelled and titled."""

import dataclasses
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from reconciler.domain.holds import Hold, HoldKind
from reconciler.domain.identity import Figure, Place
from reconciler.domain.inventory import Allocation
from reconciler.domain.plan import DOCUMENTATION, AskedPrometheus, Decision, Outcome, Pages, Plan, Step
from reconciler.domain.proposals import MovedFile
from reconciler.rendering.renderer import Renderer
from reconciler.report.pull_request import pull_request_view
from reconciler.report.summary import labels_for

FILES = "https://github.com/acme/fleet/blob/3f9c2ab/"
PAGES = Pages(files_at=FILES, commit_at="https://github.com/acme/fleet/commit/3f9c2ab", recording="run 1.zip")
ROOT = Path(__file__).parents[3]


@pytest.fixture
def shown(renderer: Renderer) -> Callable[..., str]:
    """A plan's only pull request."""

    def show(plan: Plan, pages: Pages = PAGES) -> str:
        return renderer.render("pull_request/body.md.j2", pull_request_view(plan, plan.groups[0], pages=pages))

    return show


def test_each_line_of_a_file_leads_to_it_at_the_base(
    plan_of: Callable[..., Plan], decide: Callable[..., Decision], shown: Callable[..., str]
) -> None:
    change = decide("a", place="apps/a.yaml:3", written_at=("apps/k(1).yaml:8 spec.replicas",))
    plan = _told(change, plan_of)
    body = shown(plan)
    assert f"▲ [`a`]({FILES}apps/k%281%29.yaml#L8)<br>" in body
    assert f"[`{plan.commit[:7]}`](https://github.com/acme/fleet/commit/3f9c2ab)" in body


def test_the_details_lead_to_every_file(
    plan_of: Callable[..., Plan], decide: Callable[..., Decision], shown: Callable[..., str]
) -> None:
    files = (MovedFile(path="old.yaml"), MovedFile(path="new.yaml", is_new=True))
    change = decide("a", place="a.yaml:3", written_at=("b.yaml:8 spec.replicas",), moved_in=files)
    body = shown(_told(change, plan_of))
    assert f"declared in [`a.yaml:3`]({FILES}a.yaml#L3)" in body
    assert f"written at [`b.yaml:8 spec.replicas`]({FILES}b.yaml#L8)" in body
    assert f"[`old.yaml`]({FILES}old.yaml#L1)" in body
    assert "`new.yaml` (new)" in body


def test_where_nothing_shows_files_names_stand_alone(
    plan_of: Callable[..., Plan], decide: Callable[..., Decision], shown: Callable[..., str]
) -> None:
    body = shown(plan_of(decide("a", place="a.yaml:3")), Pages())
    assert "▲ `a`<br>" in body


def test_a_hold_leads_to_its_cause_and_to_what_to_do(
    plan_of: Callable[..., Plan], decide: Callable[..., Decision], shown: Callable[..., str]
) -> None:
    hold = Hold(
        kind=HoldKind.IGNORED, words="ignored: the comment says so (a.yaml:4)", place=Place(path="a.yaml", line=4)
    )
    body = shown(plan_of(decide("a"), decide("b", outcome=Outcome.HELD, hold=hold)))
    page = f"[`ignored`]({DOCUMENTATION}/holds.md#ignored)"
    assert f"- `b`: ignored: the comment says so ([`a.yaml:4`]({FILES}a.yaml#L4)); see {page}" in body
    assert (ROOT / ".github" / "docs" / "holds.md").is_file()


def test_queries_are_shown_for_the_day_before_the_decision(
    plan_of: Callable[..., Plan], decide: Callable[..., Decision], shown: Callable[..., str]
) -> None:
    change = decide("a")
    query = 'sum by (model) (rate(x{a="(b)|c"}[5m]))'
    asked = AskedPrometheus(address="https://prom.example.com/", queries={"arrivals": query, "unused": "up"})
    figure = Figure(subject="a", name="arrivals", value=1.0, unit="req/s", queries=("arrivals",))
    plan = dataclasses.replace(_told(change, plan_of), asked={"us-east": asked}, figures={change.variant: (figure,)})
    body = shown(plan)
    (link,) = [part.partition(")")[0] for part in body.split("[`arrivals`](")[1:]]
    address = urlsplit(link)
    assert (address.netloc, address.path) == ("prom.example.com", "/graph")
    values = {name: value for name, (value,) in parse_qs(address.query).items()}
    moment = datetime.fromtimestamp(plan.now_s, tz=UTC).strftime("%Y-%m-%d %H:%M:%S")
    assert (values["g0.expr"], values["g0.end_input"], values["g0.range_input"]) == (query, moment, "1d")
    assert "unused" not in body


def test_how_to_try_it_stands_where_a_recording_exists(
    plan_of: Callable[..., Plan], decide: Callable[..., Decision], shown: Callable[..., str]
) -> None:
    plan = _told(decide("a"), plan_of)
    assert "`reconciler plan --replay 'run 1.zip'`" in shown(plan)
    assert "--replay" not in shown(plan, Pages())


def test_how_to_undo_it_is_said(
    plan_of: Callable[..., Plan], decide: Callable[..., Decision], shown: Callable[..., str]
) -> None:
    assert "To undo it after the merge, revert the merge" in shown(plan_of(decide("a")))


def test_labels_say_what_kinds_of_changes_there_are(decide: Callable[..., Decision], moved: Decision) -> None:
    costs = {"cost_before_per_hour": 2.0, "cost_after_per_hour": 4.0}
    up = decide("up", **costs)
    down = decide("down", desired=Allocation(accelerator="H100", replicas=1))
    assert labels_for([up]) == ("reconciler", "scale-up")
    assert labels_for([down]) == ("reconciler", "saving")
    assert labels_for([up, down, moved]) == ("reconciler", "scale-up", "saving", "move")


def test_the_title_names_what_costs_most_among_the_urgent(
    plan_of: Callable[..., Plan], decide: Callable[..., Decision]
) -> None:
    cheap = decide("a-cheap", cost_before_per_hour=0.0, cost_after_per_hour=6.88)
    dear = decide("b-dear", cost_before_per_hour=0.0, cost_after_per_hour=19.85)
    plan = plan_of(cheap, dear)
    view = pull_request_view(plan, plan.groups[0])
    assert view.title.startswith("Scale up b-dear and 1 more")
    assert [row.name.text for row in view.rows] == ["b-dear", "a-cheap"]


def _told(change: Decision, plan_of: Callable[..., Plan]) -> Plan:
    """A plan whose change has a step, so that the details are shown."""
    return plan_of(dataclasses.replace(change, steps=(Step(stage="load", before="", after="1", reason=""),)))
