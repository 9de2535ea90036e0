"""Situations, decided for real and told as pull requests: what they state was measured, or says that it is not."""

import os
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from reconciler.decision.decide import decide
from reconciler.domain.answers import Absence
from reconciler.domain.identity import ModelKey
from reconciler.domain.observed import ArrivalSource, Performance
from reconciler.domain.plan import AskedPrometheus, Pages, Plan
from reconciler.domain.profiles import SloTarget
from reconciler.domain.snapshot import Form
from reconciler.policy.files import read_policy
from reconciler.rendering.renderer import Renderer
from reconciler.report.pull_request import plan_view, pull_request_view
from reconciler.report.summary import labels_for
from tests.histories import load_history
from tests.unit.decision.conftest import CLUSTER, MODEL, NAMESPACE, Make, key
from tests.unit.decision.test_contradictions import carries_more

GOLDEN = Path(__file__).parents[2] / "testdata" / "situations"
PAGES = Pages(
    files_at="https://github.com/acme/fleet/blob/3f9c2ab7/",
    commit_at="https://github.com/acme/fleet/commit/3f9c2ab7",
    draws_mermaid=True,
)
RENDERER = Renderer()
HOUR = 61
MARKS = ("measured", "expected", "target")

Situation = Callable[[Any], None]
SITUATIONS: dict[str, Situation] = {}
MAKE = Make()


def situation(prepare: Situation) -> Situation:
    """Register what prepares a fleet, by its name."""
    SITUATIONS[prepare.__name__.replace("_", "-")] = prepare
    return prepare


def seen(fleet: Any, name: str = "llama", **values: float) -> None:
    """What a variant's replicas report, in seconds."""
    fleet.observations[key(name)] = replace(fleet.observations[key(name)], performance=Performance(**values))


def history(fleet: Any, rates: list[float], model_id: str = MODEL) -> None:
    """What arrived in the last hour, minute by minute, and a day of ten minutes each before."""
    fleet.remember(*rates[-HOUR:], model_id=model_id)
    model = ModelKey(cluster=CLUSTER, namespace=NAMESPACE, model_id=model_id)
    day = tuple(rates[index % len(rates)] for index in range(144))
    lengths = (100.0,) * len(day)
    usual = load_history(day, last_s=fleet.now_s - 600.0, step_s=600.0, output_tokens=lengths, input_tokens=lengths)
    fleet.observed = replace(fleet.observed, usual={**fleet.observed.usual, model: usual})


@situation
def calm(fleet: Any) -> None:
    fleet.add(replicas=3)
    fleet.offer(25.0)


@situation
def urgent(fleet: Any) -> None:
    """Measured to miss its target now."""
    fleet.add(replicas=3)
    fleet.offer(45.0)
    seen(fleet, itl_s=0.034)
    history(fleet, [20.0 + 25.0 * index / HOUR for index in range(HOUR)])


@situation
def forecast_alone(fleet: Any) -> None:
    """Nothing is missed now, and would be with headroom."""
    fleet.default(headroom=0.2)
    fleet.add(replicas=3)
    fleet.offer(28.0)
    seen(fleet, itl_s=0.0149)


@situation
def scarce(fleet: Any) -> None:
    """Two models in one pool that serves one."""
    fleet.add("first", replicas=1, model_id="acme/first")
    fleet.add("second", replicas=1, model_id="acme/second")
    fleet.offer(45.0, "acme/first")
    fleet.offer(45.0, "acme/second")
    fleet.prioritise("first", 10)
    fleet.stock(H100=7)


@situation
def limited_by_pool(fleet: Any) -> None:
    fleet.add(replicas=2)
    fleet.offer(75.0)
    fleet.stock(H100=4)


@situation
def beyond_bounds(fleet: Any) -> None:
    """More is asked for than the bounds admit."""
    fleet.add(replicas=3, max_replicas=4)
    fleet.offer(75.0)


@situation
def move(fleet: Any) -> None:
    fleet.add(replicas=3, profiles=(MAKE.profile("H100"), MAKE.profile("A100")))
    fleet.offer(25.0)
    history(fleet, [25.0] * HOUR)


@situation
def to_zero(fleet: Any) -> None:
    """A cheaper variant of the model serves already what the dear one did."""
    fields = {"form": Form.TARGET, "min_replicas": 0}
    fleet.add("dear", replicas=2, profiles=(MAKE.profile("H100"),), **fields)
    fleet.add("cheap", replicas=3, runs_on="L4", profiles=(MAKE.profile("L4"),), **fields)
    fleet.offer(25.0)


@situation
def nothing_arrives(fleet: Any) -> None:
    fleet.add(replicas=2)
    fleet.offer(0.0)
    history(fleet, [0.0] * HOUR)


@situation
def from_zero(fleet: Any) -> None:
    fleet.add(replicas=0)
    fleet.offer(12.0)


@situation
def saving_only(fleet: Any) -> None:
    fleet.add(replicas=9)
    fleet.offer(25.0)
    seen(fleet, itl_s=0.0101)
    history(fleet, [25.0] * HOUR)


@situation
def mixed_group(fleet: Any) -> None:
    fleet.add("late", replicas=3)
    fleet.add("idle", model_id="acme/idle", replicas=9)
    fleet.offer(55.0)
    fleet.offer(15.0, "acme/idle")


@situation
def together_for_devices(fleet: Any) -> None:
    mixed_group(fleet)
    fleet.stock(H100=12)


@situation
def held_neighbours(fleet: Any) -> None:
    fleet.add(replicas=3)
    fleet.offer(45.0)
    fleet.add("left", model_id="acme/left", annotations={"ignore": True})
    fleet.add("silent", model_id="acme/silent")
    fleet.lack(Absence.STALE, "metrics stale: last sample 11 min ago, limit 5m", "acme/silent")


@situation
def partial_metrics(fleet: Any) -> None:
    """Two of nine replicas report, which is no reason to shrink; another model needs more."""
    fleet.add(replicas=9, profiles=(MAKE.profile("H100"), MAKE.profile("A100")))
    fleet.offer(25.0, arrivals_from=ArrivalSource.REPLICAS)
    fleet.observations[key("llama")] = replace(fleet.observations[key("llama")], replicas_reporting=2)
    fleet.add("late", model_id="acme/late", replicas=1)
    fleet.offer(25.0, "acme/late")


@situation
def contradicted_profile(fleet: Any) -> None:
    carries_more(fleet)
    fleet.add("late", model_id="acme/late", replicas=1)
    fleet.offer(25.0, "acme/late")


@situation
def relative_cost(fleet: Any) -> None:
    """Nobody priced anything; resources say what is dearer."""
    fleet.set(accelerators=())
    fields = {"form": Form.TARGET, "min_replicas": 0}
    fleet.add("a", replicas=1, variant_cost=1.0, profiles=(MAKE.profile("H100"),), **fields)
    fleet.add("b", replicas=1, variant_cost=50.0, runs_on="L4", profiles=(MAKE.profile("L4"),), **fields)
    fleet.offer(60.0)


@situation
def no_price(fleet: Any) -> None:
    fleet.price(H100=None)
    fleet.add(replicas=3)
    fleet.offer(45.0)


@situation
def saturated(fleet: Any) -> None:
    """No profile and no target: how full replicas are decides."""
    fleet.set(defaults={}, service_classes=())
    fleet.add(replicas=2, form=Form.TARGET)
    fleet.resources[-1] = replace(fleet.resources[-1], profiles=())
    fleet.fill(".95/4, .93/3", total_kv_tokens=12500.0, input_tokens=100.0, output_tokens=100.0)


@situation
def first_change(fleet: Any) -> None:
    rule = "{name: first-change, approval: {firstChange: true}}"
    text = f"apiVersion: reconciler.io/v1alpha1\nkind: Policy\nrules:\n  - {rule}\n"
    fleet.set(rules=read_policy("policies/team.yaml", text.encode()).rules)
    fleet.add(replicas=3)
    fleet.offer(45.0)


@situation
def kept_proposal(fleet: Any) -> None:
    fleet.add(replicas=30)
    fleet.offer(200.0)
    fleet.propose(MAKE.change("llama", "30 x H100", "22 x H100"))


@situation
def percentiles(fleet: Any) -> None:
    """A mean is measured, and a percentile is promised."""
    fleet.set(service_classes=(MAKE.service_class(ttft=SloTarget(limit_s=0.5, percentile=95.0)),))
    fleet.add(replicas=2, profiles=(MAKE.profile("H100", gamma_s=0.02, delta_s=0.00001),))
    fleet.offer(30.0)
    seen(fleet, itl_s=0.011, ttft_s=0.43)


@situation
def queries_linked(fleet: Any) -> None:
    urgent(fleet)
    fleet.observed = replace(fleet.observed, queries={CLUSTER: {"arrivals_endpoint_picker": "sum(rate(requests[5m]))"}})


@pytest.fixture(params=sorted(SITUATIONS))
def prepared(request: pytest.FixtureRequest, fleet: Any) -> tuple[str, Plan]:
    """A situation's name and its plan."""
    SITUATIONS[request.param](fleet)
    plan = decide(fleet.snapshot())
    if request.param == "queries-linked":
        queries = {"arrivals_endpoint_picker": "sum(rate(requests[5m]))"}
        asked = AskedPrometheus(address="https://prometheus.example.com", queries=queries)
        plan = replace(plan, asked={CLUSTER: asked})
    return request.param, plan


def test_there_are_twenty() -> None:
    assert len(SITUATIONS) >= 20
    assert {path.stem.partition(".")[0] for path in GOLDEN.glob("*.md")} == set(SITUATIONS)


def test_its_pull_requests_read_as_agreed(prepared: tuple[str, Plan]) -> None:
    name, plan = prepared
    for part, text in texts_of(plan):
        path = GOLDEN / f"{name}{part}.md"
        if os.environ.get("UPDATE_GOLDEN") == "1":
            path.write_text(text, encoding="utf-8")
        assert text == path.read_text(encoding="utf-8"), f"{path.name} differs: run with UPDATE_GOLDEN=1"


def test_every_number_of_the_evidence_says_what_it_is(prepared: tuple[str, Plan]) -> None:
    for _, text in texts_of(prepared[1]):
        for line in evidence(text):
            assert any(mark in line for mark in MARKS) or not re.search(r"\d", line), line


def test_a_forecast_is_never_told_as_a_fact(prepared: tuple[str, Plan]) -> None:
    for _, text in texts_of(prepared[1]):
        summary = next(line for line in text.splitlines() if line.startswith("> "))
        for sentence in re.split(r"(?<=[a-z)*]\.) ", summary):
            if re.search(r"\bmiss(es)?\b", sentence):
                assert "would" in sentence or "measured" in sentence, sentence
            if re.search(r"\d m?s\b", sentence):
                assert any(mark in sentence for mark in MARKS), sentence


def test_the_urgent_stands_before_what_saves(fleet: Any) -> None:
    together_for_devices(fleet)
    ((_, text),) = texts_of(decide(fleet.snapshot()))
    assert text.startswith("# Scale up late, 1 other change: ")
    assert "would get more than it carries: model demand 55.0, model capacity 30.0 req/s expected." in text


def test_what_is_measured_beyond_its_target_is_said_now(fleet: Any) -> None:
    urgent(fleet)
    ((_, text),) = texts_of(decide(fleet.snapshot()))
    assert "llama-8b misses its ITL target now: mean 34 ms measured, target 20 ms. Unchanged, it would" in text


def test_what_is_not_known_has_no_line(prepared: tuple[str, Plan]) -> None:
    for _, text in texts_of(prepared[1]):
        assert all("?" not in line for line in evidence(text))


def test_what_lacks_is_said_first_and_has_no_check_mark(fleet: Any) -> None:
    scarce(fleet)
    ((_, text),) = texts_of(decide(fleet.snapshot()))
    summary = next(line for line in text.splitlines() if line.startswith("> "))
    assert "stay unserved: us-east/H100 is full, priority 10 goes first" in summary
    assert "second gets" in summary


def texts_of(plan: Plan) -> Iterator[tuple[str, str]]:
    """Every pull request of a plan, its labels beside it; of a plan without any what it says."""
    groups = [group for group in plan.groups if group.changes]
    for group in groups:
        view = pull_request_view(plan, group, pages=PAGES)
        labels = ", ".join((*labels_for(group.changes), str(group.part)))
        body = RENDERER.render("pull_request/body.md.j2", view)
        yield "" if len(groups) == 1 else f".{group.part}", f"# {view.title} [{labels}]\n\n{body}"
    if not groups:
        view = plan_view(plan)
        yield "", f"# {view.title}\n\n{RENDERER.render('pull_request/body.md.j2', view)}"


def evidence(text: str) -> Iterator[str]:
    """The lines of the table's right column, and what the picture says."""
    for line in text.splitlines():
        if line.startswith(("| ▲", "| ▼", "| ⇄", "| •")):
            yield from line.split(" | ")[1].removesuffix(" |").split("<br>")
        if line.startswith("The uneven line"):
            yield from line.split(". Straight lines: ")
