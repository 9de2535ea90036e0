"""What policies scale: one target for a workload, a group or a role, in every generation (rules/upstream.md#pods)."""

from collections.abc import Callable

import pytest

from reconciler.domain.identity import ResourceKey
from reconciler.domain.metric_targets import (
    DEFAULT_BEHAVIOR,
    Backend,
    Generation,
    LabelOperator,
    LabelRequirement,
    LabelSelector,
    MetricTarget,
    PodMetric,
    PrometheusMetric,
    RatioRange,
    RolePairing,
    TrackedTarget,
)
from reconciler.resources.declaration import Declaration
from reconciler.resources.kthena.targets import DEFAULT_COST_EXPANSION_PERCENT
from reconciler.resources.kthena.tracked_targets import tracked_targets
from reconciler.snapshot.variants import settle_minimums

Follow = Callable[[str], dict[str, TrackedTarget]]
Declare = Callable[..., Declaration]


def key(kind: str, name: str, part: str = "", namespace: str = "llm") -> ResourceKey:
    return ResourceKey(cluster="prod", namespace=namespace, kind=kind, name=name, part=part)


@pytest.mark.parametrize(
    ("generation", "targets"),
    [
        ("g0", {"llm/alone": Generation.G1, "llm/qwen": Generation.G1}),
        ("g1", {"llm/group": Generation.G1, "llm/deepseek": Generation.G1, "llm/phi/alone": Generation.G1}),
        ("g2", {"llm/alone": Generation.G2}),
        ("g3", {"llm/role": Generation.G3, "llm/group": Generation.G3, "llm/mixtral": Generation.G3}),
        (
            "g4",
            dict.fromkeys(
                ["llm/single", "llm/group", "llm/roles/prefill", "llm/roles/decode", "llm/booster"], Generation.G4
            ),
        ),
    ],
)
def test_fields_tell_the_generation(follow: Follow, generation: str, targets: dict[str, Generation]) -> None:
    assert {label: target.generation for label, target in follow(generation).items()} == targets


@pytest.mark.parametrize(
    ("generation", "label", "index", "labels"),
    [
        (
            "g0",
            "llm/alone",
            0,
            {"modelinfer.matrixinfer.ai/name": "mistral", "modelinfer.matrixinfer.ai/role": "leader"},
        ),
        (
            "g1",
            "llm/group",
            0,
            {"modelinfer.volcano.sh/name": "llama-h100", "modelinfer.volcano.sh/role": "leader", "tier": "gold"},
        ),
        (
            "g1",
            "llm/deepseek",
            1,
            {"modelinfer.volcano.sh/name": "deepseek-a100", "modelinfer.volcano.sh/role": "leader"},
        ),
        ("g2", "llm/alone", 0, {"modelserving.volcano.sh/name": "gemma", "modelserving.volcano.sh/role": "leader"}),
        (
            "g3",
            "llm/role",
            0,
            {
                "modelserving.volcano.sh/name": "deepseek",
                "modelserving.volcano.sh/entry": "true",
                "modelserving.volcano.sh/role": "decode",
            },
        ),
        ("g4", "llm/single", 0, {"modelserving.volcano.sh/name": "podinfo", "modelserving.volcano.sh/entry": "true"}),
        (
            "g4",
            "llm/roles/prefill",
            0,
            {
                "modelserving.volcano.sh/name": "podinfo-pd",
                "modelserving.volcano.sh/entry": "true",
                "modelserving.volcano.sh/role": "prefill",
            },
        ),
    ],
)
def test_pods_are_told_by_the_labels_of_their_generation(
    follow: Follow, generation: str, label: str, index: int, labels: dict[str, str]
) -> None:
    assert follow(generation)[label].backends[index].pod_labels == labels


def test_a_binding_scales_a_group_by_cost(follow: Follow) -> None:
    group = follow("g1")["llm/group"]
    assert group.key == key("AutoscalingPolicyBinding", "group")
    assert [each.backend for each in group.backends] == [
        Backend(name="llama-h100", min_replicas=0, max_replicas=4, cost=100),
        Backend(name="llama-a100", min_replicas=1, max_replicas=8, cost=60),
    ]
    assert [each.scale_target for each in group.backends] == [
        key("ModelInfer", "llama-h100"),
        key("ModelInfer", "llama-a100"),
    ]
    assert [each.replicas for each in group.backends] == [1, None]
    assert group.cost_expansion_percent == 150
    assert follow("g3")["llm/group"].cost_expansion_percent == DEFAULT_COST_EXPANSION_PERCENT
    assert group.backends[0].source_of("kthena:num_requests_waiting") == PodMetric(
        name="kthena:num_requests_waiting", uri="/engine", port=8000
    )
    assert group.policy.metrics[0] == MetricTarget(name="kthena:num_requests_waiting", per_replica=0.01)


def test_the_oldest_binding_names_its_target_without_a_reference(follow: Follow) -> None:
    (backend,) = follow("g0")["llm/alone"].backends
    assert backend.scale_target == key("ModelInfer", "mistral")
    assert backend.replicas == 2
    assert backend.source_of("matrixinfer:num_requests_waiting") == PodMetric(
        name="matrixinfer:num_requests_waiting", uri="/stats", port=9000
    )


def test_pods_of_one_replica_are_those_with_the_labels(follow: Follow) -> None:
    assert follow("g1")["llm/group"].backends[0].pods_per_replica == 2, "a leader with one worker"
    assert follow("g1")["llm/deepseek"].backends[0].pods_per_replica == 2, "two pods a server"
    assert follow("g4")["llm/single"].backends[0].pods_per_replica == 2, "one entry pod for each of two replicas"
    assert follow("g3")["llm/role"].backends[0].pods_per_replica == 3, "a role in each of three groups"
    assert follow("g2")["llm/alone"].backends[0].pods_per_replica == 1


def test_a_policy_on_the_model_makes_its_backends_a_group(follow: Follow) -> None:
    model = follow("g1")["llm/deepseek"]
    assert [each.scale_target for each in model.backends] == [
        key("Model", "deepseek", "h100"),
        key("Model", "deepseek", "a100"),
    ]
    assert model.cost_expansion_percent == 300
    assert [each.replicas for each in model.backends] == [4, 0], "the number in Git is minReplicas"
    assert [each.backend.cost for each in model.backends] == [100, 60]
    assert [each.backend.scale_to_zero_grace_s for each in model.backends] == [600.0, 30.0]
    assert model.grace_s == 600.0


def test_a_policy_by_name_on_the_model_is_that_policy(follow: Follow) -> None:
    model = follow("g0")["llm/qwen"]
    assert model.policy.metrics == (MetricTarget(name="matrixinfer:num_requests_waiting", per_replica=10.0),)
    assert model.policy.behavior == DEFAULT_BEHAVIOR, "applied by a person, so the webhook's defaults hold"
    assert [each.backend.cost for each in model.backends] == [100, 30]
    assert model.cost_expansion_percent == 100


def test_the_number_of_a_backend_is_a_bound_that_we_may_have_written_and_an_annotation_is_one_anyway(
    follow: Follow,
) -> None:
    written = follow("g0")["llm/qwen"]
    assert [(each.backend.min_replicas, each.counts_at_minimum) for each in written.backends] == [(1, True), (2, True)]
    assert written.least_replicas == 1
    assert not any(each.counts_at_minimum for each in follow("g1")["llm/deepseek"].backends)
    assert [each.backend.min_replicas for each in follow("g1")["llm/deepseek"].backends] == [2, 2]
    assert [each.backend.max_replicas for each in follow("g1")["llm/deepseek"].backends] == [6, 8]


ANNOTATED = """\
apiVersion: %s
kind: %s
metadata: {name: phi, namespace: llm, annotations: {reconciler.io/min-replicas: "0"}}
spec:
  autoscalingPolicy: {metrics: [{metricName: waiting, targetValue: 10}]}
"""
BACKEND = "type: vLLM, modelURI: 'hf://a/b', minReplicas: 1, maxReplicas: 8, workers: [{type: server, pods: 1}]"
BOOSTER = ANNOTATED % ("workload.serving.volcano.sh/v1alpha1", "ModelBooster") + f"  backend: {{{BACKEND}}}\n"
OLD_MODEL = (
    ANNOTATED % ("registry.volcano.sh/v1alpha1", "Model")
    + "  costExpansionRatePercent: 200\n  backends:\n"
    + "".join(f"  - {{name: {name}, scalingCost: {cost}, {BACKEND}}}\n" for name, cost in (("dear", 9), ("cheap", 5)))
)


@pytest.mark.parametrize(("text", "settled", "is_raised"), [(BOOSTER, [0], False), (OLD_MODEL, [0, 1], True)])
def test_an_annotation_of_zero_beats_a_written_one_as_far_as_upstream_takes_it(
    declare: Declare, text: str, settled: list[int], is_raised: bool
) -> None:
    declared = declare(text)
    (target,) = settle_minimums(tracked_targets(declared.kthena), ())
    assert [each.backend.min_replicas for each in target.backends] == settled
    found = [each for each in declared.findings if "is raised to 1 on the cheapest backend" in each.message]
    assert len(found) == is_raised


def test_a_policy_on_a_backend_scales_that_one_alone(follow: Follow) -> None:
    alone = follow("g1")["llm/phi/alone"]
    assert alone.key == key("Model", "phi", "alone")
    assert [each.scale_target for each in alone.backends] == [key("Model", "phi", "alone")]


def test_a_role_is_scaled_as_a_part_of_its_workload(follow: Follow) -> None:
    (backend,) = follow("g3")["llm/role"].backends
    assert backend.scale_target == key("ModelServing", "deepseek", "decode")
    assert backend.replicas == 1
    selector = LabelSelector(
        match_labels={"app": "vllm"},
        match_expressions=(LabelRequirement(key="canary", operator=LabelOperator.DOES_NOT_EXIST),),
    )
    source = backend.source_of("kthena:num_requests_waiting")
    assert source == PodMetric(name="kthena:num_requests_waiting", selector=selector, port=8000, uri="/metrics")


def test_what_a_booster_generates_is_scaled_where_its_number_stands(follow: Follow) -> None:
    assert follow("g3")["llm/group"].backends[1].scale_target == key("ModelBooster", "qwen", "main")
    assert follow("g3")["llm/mixtral"].backends[0].scale_target == key("ModelBooster", "mixtral", "main")
    (booster,) = follow("g4")["llm/booster"].backends
    assert (booster.scale_target, booster.replicas) == (key("ModelBooster", "gemma", "main"), 2)


def test_sources_are_by_metric_and_in_the_namespace_of_the_target(follow: Follow) -> None:
    (backend,) = follow("g4")["llm/single"].backends
    assert backend.scale_target == key("ModelServing", "podinfo", namespace="apps")
    assert backend.source_of("rps") == PrometheusMetric(
        query='sum(rate(http_requests_total{namespace="apps"}[2m]))', server_url="http://prometheus.monitoring.svc:9090"
    )
    assert backend.source_of("waiting") == PodMetric(
        name="vllm:num_requests_waiting", selector=LabelSelector(match_labels={"app": "vllm"}), port=8000
    )


def test_roles_of_one_policy_are_paired_and_inherit_its_metrics(follow: Follow) -> None:
    roles = follow("g4")
    prefill, decode = roles["llm/roles/prefill"], roles["llm/roles/decode"]
    pairing = RolePairing(numerator=prefill.key, denominator=decode.key, ratio=RatioRange(minimum=0.25, maximum=1.0))
    assert prefill.pairing == decode.pairing == pairing
    assert prefill.policy.metrics == (MetricTarget(name="prefill_rps", per_replica=0.5),)
    assert decode.policy.metrics == (MetricTarget(name="waiting", per_replica=4.0),)
    assert decode.policy.tolerance_percent == 5
    assert decode.backends[0].scale_target == key("ModelServing", "podinfo-pd", "decode")
    assert [prefill.backends[0].replicas, decode.backends[0].replicas] == [2, 4]


def test_two_roles_without_a_ratio_still_move_together(declare: Declare) -> None:
    text = """apiVersion: workload.serving.volcano.sh/v1alpha1
kind: AutoscalingPolicy
metadata: {name: p}
spec:
  disaggregatedTarget:
    targetRef: {name: pd}
    roles:
      prefill: {minReplicas: 2, maxReplicas: 2}
      decode: {minReplicas: 3, maxReplicas: 3}
"""
    decode, prefill = tracked_targets(declare(text).kthena)
    assert prefill.pairing == RolePairing(numerator=decode.key, denominator=prefill.key)
    assert prefill.policy.metrics == ()


def test_a_policy_that_nothing_binds_scales_nothing(declare: Declare) -> None:
    text = """apiVersion: registry.volcano.sh/v1alpha1
kind: AutoscalingPolicy
metadata: {name: p}
spec: {metrics: [{metricName: a, targetValue: 1}]}
"""
    declaration = declare(text)
    assert tracked_targets(declaration.kthena) == ()
    assert declaration.kthena.policies[0].target is None


def test_sources_of_the_short_time_between_releases_are_read_in_bindings(declare: Declare) -> None:
    text = """apiVersion: workload.serving.volcano.sh/v1alpha1
kind: List
items:
  - apiVersion: workload.serving.volcano.sh/v1alpha1
    kind: AutoscalingPolicy
    metadata: {name: p}
    spec: {metrics: [{metricName: a, targetValue: 1}]}
  - apiVersion: workload.serving.volcano.sh/v1alpha1
    kind: AutoscalingPolicyBinding
    metadata: {name: b}
    spec:
      policyRef: {name: p}
      homogeneousTarget:
        minReplicas: 1
        maxReplicas: 2
        target:
          targetRef: {name: s}
          metricSources: {a: {type: Pod, pod: {name: x}}}
"""
    declaration = declare(text)
    (target,) = tracked_targets(declaration.kthena)
    assert target.backends[0].source_of("a") == PodMetric(name="x")
    assert [finding.message for finding in declaration.findings] == [
        "ModelServing default/s is not in Git: nothing to write to"
    ]
