"""Which numbers in Git bound a backend of a model, and which are only what we wrote there last."""

from typing import Any

import pytest

from reconciler.domain.identity import ResourceKey
from reconciler.domain.metric_targets import Backend, Generation, MetricTarget, Policy, TrackedBackend, TrackedTarget
from reconciler.domain.proposals import Proposal, ProposalState, ProposedChange
from reconciler.snapshot.variants import settle_minimums

MODEL = ResourceKey(cluster="prod", namespace="llm", kind="Model", name="phi")


def backend(name: str, least: int, *, most: int = 8, cost: int = 0, annotated: bool = False) -> TrackedBackend:
    key = ResourceKey(cluster="prod", namespace="llm", kind="Model", name="phi", part=name)
    return TrackedBackend(
        backend=Backend(name=name, min_replicas=least, max_replicas=most, cost=cost),
        scale_target=key,
        replicas=least,
        counts_at_minimum=not annotated,
    )


def target(*backends: TrackedBackend, least: int = 1) -> TrackedTarget:
    return TrackedTarget(
        key=MODEL,
        policy=Policy(metrics=(MetricTarget(name="m", per_replica=10.0),)),
        backends=backends,
        generation=Generation.G1,
        least_replicas=least,
    )


def merged(number: int, before: int, after: int, *, part: str = "a", **changes: Any) -> Proposal:
    change = ProposedChange(
        resource=f"prod/llm/Model/phi/{part}",
        replicas_before=before,
        replicas_after=after,
        accelerator_before="A100",
        accelerator_after="A100",
    )
    told = {"state": ProposalState.MERGED, "closed_at_s": 1_000.0 + number, **changes}
    return Proposal(group="g", number=number, head_branch="b", decision="d", changes=(change,), **told)


def least(*proposals: Proposal, given: TrackedTarget | None = None) -> list[int]:
    (found,) = settle_minimums([given or target(backend("a", 4))], proposals)
    return [each.backend.min_replicas for each in found.backends]


def test_the_samples_key_is_spelled_as_proposals_spell_it() -> None:
    assert str(backend("a", 1).scale_target) == merged(1, 1, 2).changes[0].resource


def test_a_number_that_a_person_wrote_is_a_bound() -> None:
    assert least() == [4]
    assert least(merged(1, 2, 6)) == [4], "a person wrote 4 after we wrote 6"
    assert least(merged(1, 2, 4, part="other")) == [4]


def test_our_own_answer_is_none_and_what_it_replaced_is() -> None:
    assert least(merged(1, 2, 4)) == [2]
    assert least(merged(2, 6, 4), merged(1, 2, 6)) == [2]
    assert least(merged(1, 2, 6), merged(2, 6, 4)) == [2], "in whatever order they are listed"
    assert least(merged(3, 6, 4), merged(2, 3, 6), merged(1, 1, 2)) == [3], "a person wrote 3 over our 2"


@pytest.mark.parametrize("state", [ProposalState.OPEN, ProposalState.CLOSED, ProposalState.WITHDRAWN])
def test_what_was_never_merged_wrote_nothing(state: ProposalState) -> None:
    assert least(merged(1, 2, 4, state=state)) == [4]


def test_an_annotation_is_a_bound_whoever_wrote_the_number() -> None:
    assert least(merged(1, 2, 4), given=target(backend("a", 4, annotated=True))) == [4]


def test_a_bound_is_never_above_the_other_one() -> None:
    assert least(merged(1, 9, 4), given=target(backend("a", 4, most=5))) == [5]


def test_all_together_have_what_upstream_asks_for_and_the_cheapest_has_it() -> None:
    three = target(backend("a", 0, cost=9), backend("b", 0, cost=3), backend("c", 0, cost=3))
    assert least(given=three) == [0, 1, 0]
    assert least(given=target(backend("a", 0, cost=9), backend("b", 0), least=0)) == [0, 0]
    assert least(given=target(backend("a", 1, cost=9), backend("b", 0))) == [1, 0]
