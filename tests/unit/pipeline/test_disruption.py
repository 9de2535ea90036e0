"""A PodDisruptionBudget over the pods of a scale target is a lower bound of its replicas."""

import pytest

from reconciler.domain.plan import Outcome
from tests.servers.answers import Replica, answering
from tests.servers.desk import GRANITE, QWEN, Desk

PATH = "clusters/prod/chat/budget.yaml"
BUDGET = """\
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: llama, namespace: chat}
spec:
  minAvailable: 2
  selector: {matchLabels: {app: llama}}
"""
IDLE = answering(
    *(
        Replica(namespace="chat", pod=f"llama-5d4c8b7f9-{name}", model="llama", per_s=0.5)
        for name in ("bcdfg", "hjklm")
    ),
    GRANITE,
    QWEN,
)


def replicas_of_chat(desk: Desk) -> int:
    (decision,) = (each for each in desk.plan(IDLE).plan.decisions if each.variant.namespace == "chat")
    assert decision.outcome is not Outcome.HELD
    return decision.desired.replicas


def test_replicas_are_not_taken_below_what_must_be_available(desk: Desk) -> None:
    assert replicas_of_chat(desk) == 1
    desk.write(PATH, BUDGET)
    assert replicas_of_chat(desk) == 2


def test_a_smaller_minimum_that_somebody_wrote_gives_way_and_is_shown(desk: Desk) -> None:
    desk.configure("defaults: {", "defaults: {minReplicas: 1, ")
    desk.write(PATH, BUDGET)
    prepared = desk.plan(IDLE)
    (variant,) = (each for each in prepared.snapshot.variants if each.key.namespace == "chat")
    least = next(each for name, each in variant.settings.values.items() if name == "minReplicas")
    assert (least.value, str(least.source.place)) == (2, f"{PATH}:5")
    assert {each.value for each in least.displaced} == {1}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("minAvailable: 2", "minAvailable: 50%"),
        ("minAvailable: 2", "maxUnavailable: 1"),
        ("app: llama", "app: other"),
        ("namespace: chat", "namespace: code"),
        ("matchLabels: {app: llama}", "{}"),
        ("{matchLabels: {app: llama}}", "{matchExpressions: [{key: app, operator: Exists}]}"),
    ],
)
def test_what_asks_for_no_number_of_these_pods_binds_nothing(desk: Desk, old: str, new: str) -> None:
    assert old in BUDGET
    desk.write(PATH, BUDGET.replace(old, new).replace("{{}}", "{}"))
    assert replicas_of_chat(desk) == 1
