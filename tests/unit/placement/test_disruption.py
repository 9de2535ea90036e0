"""What a PodDisruptionBudget keeps of so many pods, and whether a rollout takes more away than that."""

import json
from typing import Any

import pytest

from reconciler.domain.identity import Place
from reconciler.domain.workloads import DisruptionBudget
from reconciler.placement.rollouts import why_not_rolled
from tests.unit.placement.conftest import Build


@pytest.mark.parametrize(
    ("asked", "pods", "kept"),
    [
        ({"amount": 50, "is_percent": True}, 7, 4),
        ({"amount": 50, "is_percent": True, "is_unavailable": True}, 7, 3),
        ({"amount": 34, "is_percent": True}, 3, 2),
        ({"amount": 1, "is_percent": True, "is_unavailable": True}, 100, 99),
        ({"amount": 100, "is_percent": True}, 0, 0),
        ({"amount": 3, "is_unavailable": True}, 2, 0),
        ({"amount": 3}, 2, 3),
    ],
)
def test_shares_are_rounded_as_kubernetes_does(asked: dict[str, Any], pods: int, kept: int) -> None:
    assert DisruptionBudget(name="a", place=Place(path="a"), **asked).keeps(pods) == kept


STRATEGIES = [
    ("Deployment", 4, {}, 1),
    ("Deployment", 3, {}, 0),
    ("Deployment", 4, {"strategy": {"type": "Recreate"}}, 4),
    ("Deployment", 4, {"strategy": {"rollingUpdate": {"maxUnavailable": 0}}}, 0),
    ("Deployment", 4, {"strategy": {"rollingUpdate": {"maxUnavailable": 0, "maxSurge": 0}}}, 1),
    ("Deployment", 4, {"strategy": {"rollingUpdate": {"maxUnavailable": "74%"}}}, 2),
    ("Deployment", 4, {"strategy": {"rollingUpdate": {"maxUnavailable": 9}}}, 4),
    ("Deployment", 4, {"strategy": {"rollingUpdate": {"maxUnavailable": "none"}}}, 1),
    ("Deployment", 0, {}, 0),
    ("StatefulSet", 4, {}, 1),
    ("StatefulSet", 4, {"updateStrategy": {"type": "OnDelete"}}, 0),
    ("StatefulSet", 4, {"updateStrategy": {"rollingUpdate": {"maxUnavailable": "26%"}}}, 2),
    ("LeaderWorkerSet", 4, {}, 1),
    ("LeaderWorkerSet", 4, {"rolloutStrategy": {"rollingUpdateConfiguration": {"maxUnavailable": 3}}}, 3),
    ("Playground", 4, {}, None),
]


@pytest.mark.parametrize(("kind", "replicas", "spec", "taken"), STRATEGIES)
@pytest.mark.parametrize("allowed", range(5))
def test_a_rollout_that_takes_more_than_may_be_away_is_not_begun(
    build: Build, kind: str, replicas: int, spec: Any, taken: int | None, allowed: int
) -> None:
    manifest = {"apiVersion": "v1", "kind": kind, "metadata": {"name": "llama", "namespace": "chat"}, "spec": spec}
    (source,) = build({"llama.json": json.dumps(manifest)}).of_kinds("prod", (kind,))
    budget = DisruptionBudget(name="llama", place=Place(path="b.yaml", line=5), amount=allowed, is_unavailable=True)
    hold = why_not_rolled(source, replicas, (budget,))
    assert (hold is not None) == (taken is not None and taken > allowed)
    if hold is not None:
        assert (
            f"may take {taken} of {replicas} replicas at once, and PodDisruptionBudget llama (b.yaml:5)" in hold.words
        )
    assert why_not_rolled(source, replicas, ()) is None
    assert why_not_rolled(source, None, (budget,)) is None
