"""Live replicas that stay away from Git: held for as long as the sync delay tells, and never on a guess."""

import math
from dataclasses import replace
from typing import Any

import pytest

from reconciler.decision.decide import decide
from reconciler.decision.explanation import asked_queries
from reconciler.decision.questions import ask_by_cluster
from reconciler.domain.answers import Absence
from reconciler.domain.observed import Observed
from reconciler.domain.plan import Outcome
from reconciler.domain.snapshot import Form
from reconciler.domain.workloads import ReplicaOwner
from reconciler.domain.written import DocumentRef, WrittenField
from reconciler.snapshot.variants import declared_variants

NAN = math.nan
WINDOW = 13
"""Moments in 3 minutes, 15 s apart, both ends counted."""


@pytest.fixture
def busy(fleet: Any) -> Any:
    """Three replicas in Git, which carry their load."""
    fleet.add(replicas=3)
    fleet.offer(25.0)
    return fleet


def test_a_number_that_stays_away_is_held_and_both_are_named(busy: Any) -> None:
    busy.watch([5.0] * WINDOW)
    decision = busy.decision()
    assert decision.outcome is Outcome.HELD
    assert decision.desired == decision.current
    assert decision.hold.words == (
        "spec.replicas of Deployment llm/llama is 5 in the cluster and 3 in Git (apps/llm/llama.yaml:20), for longer "
        "than the sync delay of 3m (built-in): something that is not in Git sets it, or Git is not applied; stop "
        "that and write the live count into Git, or put its owner there (an HPA or ScaledObject, with whenAutoscaled: "
        "bounds), or set ignore"
    )


@pytest.mark.parametrize("counts", [[0.0] * WINDOW, [1.0, 2.0, 4.0, 5.0] * 4, [3.0] + [5.0] * WINDOW])
def test_any_other_number_is_away_zero_among_them(busy: Any, counts: list[float]) -> None:
    busy.watch(counts)
    assert busy.decision().outcome is Outcome.HELD
    assert f"is {counts[-1]:g} in the cluster" in busy.decision().hold.words


@pytest.mark.parametrize(
    "counts",
    [
        pytest.param([3.0] * WINDOW, id="as in Git"),
        pytest.param([3.0] * 8 + [5.0] * 5, id="away only lately"),
        pytest.param([5.0] * 12 + [3.0], id="back by now"),
        pytest.param([5.0] * 6 + [3.0] + [5.0] * 6, id="back once between"),
        pytest.param([5.0] * (WINDOW - 1), id="seen for less than the delay"),
        pytest.param([NAN] + [5.0] * (WINDOW - 1), id="not known at first"),
        pytest.param([5.0] * 6 + [NAN] + [5.0] * 6, id="not known between"),
        pytest.param([5.0] * 8 + [NAN] * 5, id="stale by now"),
        pytest.param([NAN] * WINDOW, id="never known"),
        pytest.param([], id="nothing asked"),
    ],
)
def test_what_was_not_away_at_every_moment_is_not_held(busy: Any, counts: list[float]) -> None:
    busy.watch(counts)
    assert busy.decision().outcome is Outcome.UNCHANGED


@pytest.mark.parametrize("absence", list(Absence))
def test_a_cluster_without_an_answer_is_not_held(busy: Any, make: Any, absence: Absence) -> None:
    busy.live[make.key("llama")] = make.no_answer(absence, "no kube-state-metrics")
    assert busy.decision().outcome is Outcome.UNCHANGED


@pytest.mark.parametrize(
    ("age_s", "outcome"),
    [(-60.0, Outcome.UNCHANGED), (200.0, Outcome.UNCHANGED), (300.0, Outcome.UNCHANGED), (301.0, Outcome.HELD)],
)
def test_a_commit_has_its_delay_and_two_minutes_to_show_in_metrics(busy: Any, age_s: float, outcome: Outcome) -> None:
    busy.watch([5.0] * WINDOW)
    busy.committed_s = busy.now_s - age_s
    assert busy.decision().outcome is outcome


def test_a_recording_that_does_not_say_when_it_was_committed_holds_nothing(busy: Any) -> None:
    busy.watch([5.0] * WINDOW)
    busy.committed_s = None
    assert busy.decision().outcome is Outcome.UNCHANGED


def test_a_given_delay_is_the_one_that_counts(busy: Any) -> None:
    busy.watch([5.0] * WINDOW)
    busy.default(**{"actuationDelay.sync": 240.0})
    assert busy.decision().outcome is Outcome.UNCHANGED
    busy.watch([5.0] * 17)
    assert "the sync delay of 4m (reconciler.yaml:70)" in busy.decision().hold.words


def test_what_git_says_itself_goes_first(busy: Any) -> None:
    busy.watch([5.0] * WINDOW)
    busy.default(ignore=True)
    assert busy.decision().hold.words.startswith("ignored: ")


def test_missing_metrics_are_not_what_is_told_of_a_number_that_is_away(busy: Any) -> None:
    busy.lack(Absence.MISSING, "no series")
    busy.watch([0.0] * WINDOW)
    assert "is 0 in the cluster" in busy.decision().hold.words


def test_another_variant_of_the_model_goes_on(busy: Any) -> None:
    busy.watch([5.0] * WINDOW)
    busy.add("qwen", model_id="qwen", replicas=1)
    busy.offer(25.0, "qwen")
    assert busy.desired() == {"llama": "[3 x H100]", "qwen": "3 x H100"}


def own(fleet: Any, make: Any) -> None:
    document, place = DocumentRef(path="hpa.yaml", document=0), make.place("hpa.yaml", 9)
    fields = tuple(
        WrittenField(document=document, field=("spec", name), place=place, written=value, value=value)
        for name, value in (("minReplicas", 2), ("maxReplicas", 6))
    )
    fleet.owners.append(
        ReplicaOwner(
            cluster="us-east",
            namespace="llm",
            owner="HorizontalPodAutoscaler phi",
            target_kind="Deployment",
            target_name="llama",
            place=place,
            least=2,
            fields=fields,
        )
    )


def watched(fleet: Any) -> dict[str, int]:
    declaration = fleet.declaration()
    return ask_by_cluster(declared_variants(fleet.settings, declaration), declaration)["us-east"].watched


def test_what_an_autoscaler_moves_between_its_bounds_is_not_asked_about(busy: Any, make: Any) -> None:
    busy.default(whenAutoscaled="bounds")
    assert ask_by_cluster(declared_variants(busy.settings, busy.declaration()), busy.declaration())[
        "us-east"
    ].watched == {"llm": 1}
    own(busy, make)
    assert (
        ask_by_cluster(declared_variants(busy.settings, busy.declaration()), busy.declaration())["us-east"].watched
        == {}
    )


def test_bounds_without_an_autoscaler_in_git_excuse_nothing(busy: Any) -> None:
    busy.default(whenAutoscaled="bounds")
    busy.watch([5.0] * WINDOW)
    assert busy.decision().outcome is Outcome.HELD


def test_a_cluster_is_asked_over_the_longest_of_its_delays(fleet: Any) -> None:
    fleet.add("a")
    fleet.add("b", namespace="other", form=Form.TARGET)
    fleet.add("c", workload={"replicas": None})
    fleet.override({"name": "b"}, **{"actuationDelay.sync": 600.0})
    asking = ask_by_cluster(declared_variants(fleet.settings, fleet.declaration()), fleet.declaration())["us-east"]
    assert (asking.watched, asking.sync_delay_s) == ({"llm": 1, "other": 1}, 600.0)


def test_an_open_proposal_is_left_as_it_is_for_merging_it_may_be_what_helps(busy: Any, make: Any) -> None:
    busy.offer(45.0)
    busy.watch([5.0] * WINDOW)
    busy.propose(make.change("llama", "3 x H100", "5 x H100"))
    (group,) = busy.plan().groups
    assert not group.changes
    assert group.blocked.words == (
        "open pull request #7 stays as it is: live replicas of us-east/llm/VariantAutoscaling/llama stay away from Git"
    )


def figures(fleet: Any) -> dict[str, tuple[Any, str]]:
    plan = decide(fleet.snapshot())
    (decision,) = plan.decisions
    told = [each for each in plan.figures[decision.variant] if each.name.startswith("replicas in")]
    return {each.name: (each.value, each.reason) for each in told}


def test_explain_shows_both_numbers(busy: Any) -> None:
    busy.watch([5.0] * WINDOW)
    place = "apps/llm/llama.yaml:20"
    assert figures(busy) == {"replicas in the cluster": (5.0, ""), "replicas in Git": (3, place)}
    busy.committed_s = busy.now_s - 10.0
    unsure = ", in a commit too new to be sure that it was applied"
    assert figures(busy)["replicas in Git"] == (3, f"{place}{unsure}")


def test_explain_says_what_was_asked_and_why_a_number_is_not_known(busy: Any, make: Any) -> None:
    assert figures(busy) == {}
    busy.watch([NAN] * WINDOW)
    assert figures(busy)["replicas in the cluster"] == (
        None,
        "not reported lately, or by several series with different values",
    )
    busy.live[make.key("llama")] = make.no_answer(Absence.MISSING, "no kube-state-metrics")
    assert figures(busy)["replicas in the cluster"] == (None, "no kube-state-metrics")


def test_the_query_is_among_those_that_explain_prints(busy: Any) -> None:
    busy.watch([5.0] * WINDOW)
    busy.observed = replace(busy.observed, queries={"us-east": {"live_replicas": "max(kube)"}})
    snapshot = busy.snapshot()
    plan = decide(snapshot)
    (decision,) = plan.decisions
    (figure,) = (each for each in plan.figures[decision.variant] if each.name == "replicas in the cluster")
    assert asked_queries(snapshot, decision, (figure,)) == {"live_replicas": ("max(kube)",)}


@pytest.mark.parametrize(
    ("asked", "ready", "is_applied"),
    [
        (3, None, True),
        (3, 3, True),
        (3, 1, False),
        (5, 5, False),
        (None, 3, True),
        (None, 4, False),
        (None, None, None),
    ],
)
def test_it_is_applied_where_the_cluster_asks_for_it_and_has_it_ready(
    busy: Any, asked: int | None, ready: int | None, is_applied: bool | None
) -> None:
    (key,) = busy.observations
    if asked is not None:
        busy.watch([asked] * WINDOW)
    busy.observed = Observed(ready={} if ready is None else {key: ready})
    decision = busy.decision()
    assert decision.desired.replicas == 3
    assert decision.is_applied is is_applied
