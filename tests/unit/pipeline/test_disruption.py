"""A PodDisruptionBudget over the pods of a scale target is a lower bound of its replicas."""

import pytest

from reconciler.domain.plan import Outcome
from reconciler.domain.variant_settings import MIN_REPLICAS
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
        ("minAvailable: 2", "maxUnavailable: 1%"),  # one of two: the share of what may be away is rounded up
        ("minAvailable: 2", "minAvailable: 101%"),
        ("minAvailable: 2", "minAvailable: 2\n  maxUnavailable: 0"),
        ("minAvailable: 2", "minAvailable: -2"),
        ("minAvailable: 2", "minAvailable: true"),
        ("minAvailable: 2", "minAvailable: 60 %"),
        ("app: llama", "app: other"),
        ("namespace: chat", "namespace: code"),
        ("selector: {matchLabels: {app: llama}}", ""),
        ("{matchLabels: {app: llama}}", "null"),
        ("{matchLabels: {app: llama}}", "{matchExpressions: [{key: app, operator: DoesNotExist}]}"),
        ("{matchLabels: {app: llama}}", "{matchExpressions: [{key: app, operator: NotIn, values: [a, llama]}]}"),
        ("{matchLabels: {app: llama}}", "{matchExpressions: [{key: app, operator: In, values: []}]}"),
        ("{matchLabels: {app: llama}}", "{matchLabels: {app: llama}, matchExpressions: [{key: x, operator: Exists}]}"),
        ("policy/v1", "policy/v1beta1"),
    ],
)
def test_what_leaves_one_of_these_pods_binds_nothing(desk: Desk, old: str, new: str) -> None:
    assert old in BUDGET
    budget = BUDGET.replace(old, new)
    desk.write(PATH, budget.replace("{matchLabels: {app: llama}}", "{}") if "v1beta1" in new else budget)
    assert replicas_of_chat(desk) == 1


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("minAvailable: 2", "minAvailable: 51%"),  # two of two: the share is rounded up
        ("minAvailable: 2", "minAvailable: 100%"),
        ("minAvailable: 2", "maxUnavailable: 0"),
        ("minAvailable: 2", 'maxUnavailable: "0%"'),
        ("{matchLabels: {app: llama}}", "{}"),
        ("{matchLabels: {app: llama}}", "{matchExpressions: [{key: app, operator: Exists}]}"),
        ("{matchLabels: {app: llama}}", "{matchExpressions: [{key: app, operator: In, values: [a, llama]}]}"),
        ("{matchLabels: {app: llama}}", "{matchExpressions: [{key: x, operator: NotIn, values: [a]}]}"),
        ("{matchLabels: {app: llama}}", "{matchExpressions: [{key: x, operator: DoesNotExist}]}"),
    ],
)
def test_one_change_takes_no_more_pods_than_may_be_away(desk: Desk, old: str, new: str) -> None:
    assert old in BUDGET
    desk.write(PATH, BUDGET.replace(old, new))
    assert replicas_of_chat(desk) == 2


def test_of_pods_that_two_budgets_select_none_is_taken(desk: Desk) -> None:
    desk.write(PATH, BUDGET.replace("minAvailable: 2", "maxUnavailable: 1"))
    assert replicas_of_chat(desk) == 1
    other = BUDGET.replace("minAvailable: 2", "minAvailable: 10%").replace("name: llama", "name: all")
    desk.write("clusters/prod/chat/all.yaml", other)
    prepared = desk.plan(IDLE)
    (variant,) = (each for each in prepared.snapshot.variants if each.key.namespace == "chat")
    source = variant.settings[MIN_REPLICAS].source
    assert "2 PodDisruptionBudgets over the same pods (all, llama), which Kubernetes cannot evict" in str(source)
    assert replicas_of_chat(desk) == 2
    (finding,) = prepared.plan.findings
    assert (finding.rule, str(finding.place)) == ("overlapping-budgets", f"{PATH}:5")
    assert finding.message == (
        "2 PodDisruptionBudgets select the pods of Deployment chat/llama: all (clusters/prod/chat/all.yaml:5), "
        f"llama ({PATH}:5); Kubernetes cannot evict these pods, so none is removed: keep one"
    )


@pytest.mark.parametrize("asked", ["maxUnavailable: 0", "minAvailable: 100%"])
def test_a_largest_number_that_somebody_wrote_goes_first(desk: Desk, asked: str) -> None:
    desk.configure("defaults: {", "defaults: {maxReplicas: 1, ")
    desk.write(PATH, BUDGET.replace("minAvailable: 2", asked))
    assert replicas_of_chat(desk) == 1
