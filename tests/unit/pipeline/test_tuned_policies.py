"""Policies of Kthena: followed here, unless they are to be tuned where they act."""

import pytest

from reconciler.domain.holds import HoldKind
from reconciler.domain.scalers import Signal
from reconciler.domain.settings import ClusterSettings, PrometheusSettings, Setting, Settings
from reconciler.domain.snapshot import Variant
from reconciler.domain.variant_settings import MIN_REPLICAS
from reconciler.manifests.documents import parse_documents
from reconciler.resources.declaration import merge
from reconciler.resources.reading import read_file
from reconciler.snapshot.variants import declared_variants

SERVING = """\
apiVersion: workload.serving.volcano.sh/v1alpha1
kind: ModelServing
metadata: {name: phi, namespace: llm}
spec:
  replicas: 3
  template:
    roles:
    - {name: server, workerReplicas: 0, entryTemplate: {spec: {containers: [{name: e, image: vllm/vllm-openai}]}}}
---
"""
POLICY = """\
apiVersion: workload.serving.volcano.sh/v1alpha1
kind: AutoscalingPolicy
metadata: {name: phi, namespace: llm}
spec:
  metrics: [{name: "vllm:num_requests_running", targetValue: 30}]
  homogeneousTarget:
    minReplicas: 2
    maxReplicas: 9
    target: {targetRef: {kind: ModelServing, name: phi}}
"""
GROUP = """\
apiVersion: workload.serving.volcano.sh/v1alpha1
kind: AutoscalingPolicy
metadata: {name: phi, namespace: llm}
spec:
  metrics: [{name: "vllm:num_requests_running", targetValue: 30}]
  heterogeneousTarget:
    params:
    - {cost: 3, minReplicas: 1, maxReplicas: 4, target: {targetRef: {kind: ModelServing, name: phi}}}
"""
BOUND = """\
apiVersion: workload.serving.volcano.sh/v1alpha1
kind: AutoscalingPolicy
metadata: {name: phi, namespace: llm}
spec:
  metrics: [{metricName: "vllm:num_requests_running", targetValue: 30}]
---
apiVersion: workload.serving.volcano.sh/v1alpha1
kind: AutoscalingPolicyBinding
metadata: {name: phi, namespace: llm}
spec:
  policyRef: {name: phi}
  homogeneousTarget: {minReplicas: 1, maxReplicas: 8, target: {targetRef: {kind: ModelServing, name: phi}}}
"""
HPA = """\
---
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: phi, namespace: llm}
spec:
  scaleTargetRef: {apiVersion: workload.serving.volcano.sh/v1alpha1, kind: ModelServing, name: phi}
  maxReplicas: 9
"""


def variants(text: str, when: str) -> tuple[Variant, ...]:
    """The variants of a manifest whose autoscalers are treated like that, by name."""
    settings = Settings(
        clusters=(ClusterSettings(name="prod", prometheus=PrometheusSettings(url="http://p")),),
        defaults={"whenAutoscaled": Setting(value=when)},
    )
    declaration = merge([read_file("prod", "a.yaml", parse_documents("a.yaml", (SERVING + text).encode()))])
    return declared_variants(settings, declaration)


def variant(text: str, when: str) -> Variant:
    """The only one of them."""
    (found,) = variants(text, when)
    return found


@pytest.mark.parametrize("when", ["hold", "bounds"])
@pytest.mark.parametrize("policy", [POLICY, GROUP, BOUND])
def test_a_policy_is_followed_as_long_as_it_is_not_tuned(policy: str, when: str) -> None:
    found = variant(policy, when)
    assert (found.is_autoscaled, found.tuned) == (False, None)
    assert found.tracked_by is not None
    assert not found.is_held_by(HoldKind.OWNED_BY_ANOTHER)


def test_one_that_is_tuned_sets_the_replicas_between_its_bounds() -> None:
    found = variant(POLICY, "tune")
    assert (found.is_autoscaled, found.tracked_by, found.holds) == (True, None, ())
    assert found.workload is not None
    assert (found.current.replicas, found.workload.bounds_of) == (2, "AutoscalingPolicy phi")
    assert [each.field[-1] for each in found.workload.written_at] == ["minReplicas", "maxReplicas"]
    assert found.settings[MIN_REPLICAS].value == 1, "the policy's own bounds limit nothing: they are what moves"
    assert found.tuned is not None
    assert found.tuned.metric is not None
    assert found.tuned.metric.signal is Signal.RUNNING
    assert found.tuned.metric.promql == ('sum(vllm:num_requests_running{namespace="llm",pod=~"phi-[0-9]+-[a-z].*-0"})')


@pytest.mark.parametrize("policy", [GROUP, BOUND])
def test_others_are_held_where_they_are_to_be_tuned(policy: str) -> None:
    """Groups by cost, and what Kthena did before v1.0, are not simulated as autoscalers that act."""
    found = variant(policy, "tune")
    assert found.hold is not None
    assert found.hold.kind is HoldKind.OWNED_BY_ANOTHER
    assert "of those only a homogeneousTarget of v1.0 is tuned" in found.hold.words


def test_another_autoscaler_on_its_target_still_owns_the_replicas() -> None:
    found = variant(POLICY + HPA, "hold")
    assert found.hold is not None
    assert found.hold.words.startswith("replicas are owned by HorizontalPodAutoscaler phi")


SECOND = POLICY.replace("metadata: {name: phi,", "metadata: {name: more,")
AGAIN = BOUND[BOUND.index("---") :].replace("metadata: {name: phi,", "metadata: {name: again,")
BINDING = BOUND.replace("{name: phi, namespace: llm}", "{name: bound, namespace: llm}").replace(
    "policyRef: {name: phi}", "policyRef: {name: bound}"
)


@pytest.mark.parametrize(
    ("text", "rivals"),
    [
        (f"{POLICY}---\n{SECOND}", "AutoscalingPolicy more and AutoscalingPolicy phi"),
        (f"{SECOND}---\n{POLICY}", "AutoscalingPolicy more and AutoscalingPolicy phi"),
        (f"{POLICY}---\n{BINDING}", "AutoscalingPolicy phi and AutoscalingPolicyBinding bound"),
        (POLICY + HPA, "AutoscalingPolicy phi and HorizontalPodAutoscaler phi"),
        (
            POLICY + HPA + HPA.replace("{name: phi, n", "{name: other, n"),
            "AutoscalingPolicy phi, HorizontalPodAutoscaler other and HorizontalPodAutoscaler phi",
        ),
    ],
)
def test_several_autoscalers_of_one_workload_are_not_tuned(text: str, rivals: str) -> None:
    """Each undoes what the other does, and a history tells nothing of either."""
    found = variant(text, "tune")
    assert found.hold is not None
    assert (found.hold.kind, found.tuned is None) == (HoldKind.REPLICAS_CONTESTED, False)
    assert found.hold.words.startswith(f"ModelServing llm/phi is scaled by {rivals}")
    assert found.hold.words.endswith(": leave one of them")


@pytest.mark.parametrize(
    ("text", "rivals"),
    [
        (BOUND + AGAIN, "AutoscalingPolicyBinding again and AutoscalingPolicyBinding phi"),
        (f"{GROUP}---\n{BINDING}", "AutoscalingPolicy phi and AutoscalingPolicyBinding bound"),
    ],
)
def test_several_that_could_not_be_tuned_alone_are_contested_first(text: str, rivals: str) -> None:
    """Which of them is no policy of v1.0 is of no use to a reader before one is left."""
    found = variant(text, "tune")
    assert [(each.kind, each.words) for each in found.holds] == [
        (HoldKind.REPLICAS_CONTESTED, f"ModelServing llm/phi is scaled by {rivals}: leave one of them")
    ]
    assert (found.is_autoscaled, found.tuned, found.tracked_by) == (False, None, None)


@pytest.mark.parametrize("when", ["hold", "tune"])
def test_a_policy_that_two_bindings_share_is_never_changed_for_one_of_them(when: str) -> None:
    """A change of it would change both targets: both are held where they are to be tuned, else both are followed."""
    two = SERVING.replace("name: phi", "name: two")
    bindings = BOUND + "\n" + AGAIN.replace("ModelServing, name: phi", "ModelServing, name: two")
    both = variants(two + bindings, when)
    assert [each.key.name for each in both] == ["phi", "two"]
    for each, binding in zip(both, ("phi", "again"), strict=True):
        assert (each.is_autoscaled, each.tuned, each.current.scaling) == (False, None, "")
        if when == "tune":
            assert each.hold is not None
            assert each.hold.kind is HoldKind.OWNED_BY_ANOTHER
            assert f"AutoscalingPolicyBinding {binding}, and of those only" in each.hold.words
        else:
            assert each.tracked_by is not None
            assert (each.hold, each.tracked_by.name) == (None, binding)


def test_a_binding_that_is_left_over_changes_nothing_of_a_policy_with_a_target() -> None:
    """Kthena has none since v1.0: the policy is tuned for its own target, and what the binding names is no variant."""
    left = AGAIN.replace("ModelServing, name: phi", "ModelServing, name: two")
    two = SERVING.replace("name: phi", "name: two")
    (found,) = variants(f"{two}{POLICY}{left}", "tune")
    assert (found.key.name, found.is_autoscaled, found.holds) == ("phi", True, ())
    assert found.tuned is not None
    assert found.tuned.scaler.setting.target == "30"


def test_the_hpa_that_keda_makes_is_no_autoscaler_of_its_own() -> None:
    scaled_object = HPA.replace("autoscaling/v2", "keda.sh/v1alpha1").replace("HorizontalPodAutoscaler", "ScaledObject")
    scaled_object = scaled_object.replace("maxReplicas", "maxReplicaCount")
    found = variant(POLICY + HPA + scaled_object, "tune")
    assert found.hold is not None
    assert "is scaled by AutoscalingPolicy phi and ScaledObject phi: leave" in found.hold.words
