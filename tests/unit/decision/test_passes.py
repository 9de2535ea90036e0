"""A plan goes through passes before it is proposed: each a function of the situation and the plan so far."""

from dataclasses import replace
from typing import Any

import pytest

from reconciler.decision import passes
from reconciler.decision.staged_plan import Pass, Situation, StagedPlan
from reconciler.domain.holds import Hold, HoldKind
from reconciler.domain.plan import Outcome, VerdictKind

FROZEN = Hold(kind=HoldKind.IGNORED, words="changes are frozen until Monday")


def freeze(situation: Situation, staged: StagedPlan) -> StagedPlan:
    """A guard rail as one could be added: nothing changes."""
    return replace(staged, allocations=situation.current, holds=dict.fromkeys(situation.current, FROZEN))


@pytest.fixture
def changing(fleet: Any) -> Any:
    fleet.add("a", replicas=1)
    fleet.add("b", replicas=9, model_id="qwen")
    fleet.offer(33.0)
    fleet.offer(5.0, "qwen")
    return fleet


def test_one_more_pass_is_one_more_entry(changing: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passes, "PASSES", (freeze, *passes.PASSES))
    for decision in changing.plan().decisions:
        assert (decision.outcome, decision.hold, decision.desired) == (Outcome.HELD, FROZEN, decision.current)
        assert (decision.verdict.kind, decision.verdict.reason) == (VerdictKind.HOLD, FROZEN.words)


@pytest.mark.parametrize("each", passes.PASSES, ids=lambda each: each.__name__)
def test_a_pass_changes_nothing_that_it_is_given(changing: Any, each: Pass, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[str, str]] = []

    def watched(situation: Situation, staged: StagedPlan) -> StagedPlan:
        before = repr((situation, staged))
        after = each(situation, staged)
        seen.append((before, repr((situation, staged))))
        return after

    monkeypatch.setattr(passes, "PASSES", tuple(watched if own is each else own for own in passes.PASSES))
    changing.plan()
    ((before, after),) = seen
    assert before == after
