"""What autoscalers scale by, read from each way of writing one, and the rules of prometheus-adapter."""

from collections.abc import Callable
from typing import Any

import pytest

from reconciler.domain.scalers import MetricSource
from reconciler.resources.declaration import Declaration

Declare = Callable[..., Declaration]
HPA = """\
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: phi, namespace: llm}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: phi}
  minReplicas: 2
  maxReplicas: 9
  metrics:
"""
PODS = """\
  - type: Pods
    pods:
      metric: {name: vllm_num_requests_running, selector: {matchLabels: {tier: hot}}}
      target: {type: AverageValue, averageValue: "40"}
"""
SCALED_OBJECT = """\
apiVersion: keda.sh/v1alpha1
kind: ScaledObject
metadata: {name: phi, namespace: llm}
spec:
  scaleTargetRef: {name: phi}
  minReplicaCount: 1
  maxReplicaCount: 8
  triggers:
"""
TRIGGER = """\
  - type: prometheus
    metadata:
      serverAddress: http://elsewhere.example
      query: sum(rate(vllm:request_success_total[2m]))
      threshold: "2.5"
"""
SERVICE = """\
apiVersion: serving.kserve.io/v1beta1
kind: InferenceService
metadata:
  name: phi
  namespace: llm
  annotations: {serving.kserve.io/deploymentMode: Standard, serving.kserve.io/autoscalerClass: keda}
spec:
  predictor:
    minReplicas: 1
    maxReplicas: 6
    model: {modelFormat: {name: huggingface}, args: [--model_name=phi]}
    autoScaling:
      metrics:
      - type: External
        external:
          metric:
            backend: prometheus
            serverAddress: http://elsewhere.example
            query: sum(vllm:num_requests_running)
          target: {type: AverageValue, averageValue: "500m"}
"""
LLM_SERVICE = """\
apiVersion: serving.kserve.io/v1alpha2
kind: LLMInferenceService
metadata: {name: phi, namespace: llm}
spec:
  model: {uri: "hf://org/phi", name: phi}
  scaling:
    minReplicas: 1
    maxReplicas: 6
    keda:
      triggers:
      - {type: prometheus, metadata: {query: "sum(vllm:num_requests_waiting)", threshold: "4"}}
  template: {containers: [{name: main, image: vllm/vllm-openai}]}
"""


def scaler(declare: Declare, text: str) -> Any:
    (owner,) = declare(text).owners
    return owner.scaler


def test_a_target_per_replica_of_a_pod_metric_is_read_with_its_place(declare: Declare) -> None:
    found = scaler(declare, HPA + PODS)
    (metric,) = found.metrics
    assert (metric.source, metric.name, metric.target, metric.text) == (
        MetricSource.PODS,
        "vllm_num_requests_running",
        40.0,
        "40",
    )
    assert (metric.selector, metric.is_per_replica, metric.written.field[-1]) == ({"tier": "hot"}, True, "averageValue")
    assert (found.hpa_name, found.least, found.most, found.bounds_only, found.behavior) == ("phi", 2, 9, "", None)


def test_a_behavior_is_read_as_it_is_written(declare: Declare) -> None:
    found = scaler(declare, HPA + PODS + "  behavior: {scaleDown: {stabilizationWindowSeconds: 600}}\n")
    assert found.behavior == {"scaleDown": {"stabilizationWindowSeconds": 600}}


def test_a_value_is_a_total(declare: Declare) -> None:
    (metric,) = scaler(declare, HPA + PODS.replace("AverageValue, averageValue", "Value, value")).metrics
    assert not metric.is_per_replica


@pytest.mark.parametrize(
    ("metrics", "why"),
    [
        (
            "  - {type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 60}}}\n",
            "by cpu",
        ),
        (PODS + PODS, "by 2 metrics"),
        (PODS.replace("vllm_num_requests_running", "wva_desired_replicas"), "another autoscaler"),
        ("  - not a metric\n", "no metric of Prometheus"),
    ],
)
def test_only_the_bounds_move_of_what_is_not_reproduced(declare: Declare, metrics: str, why: str) -> None:
    assert why in scaler(declare, HPA + metrics).bounds_only


def test_a_trigger_has_its_own_query_and_its_server_is_not_read(declare: Declare) -> None:
    found = scaler(declare, SCALED_OBJECT + TRIGGER)
    (metric,) = found.metrics
    assert (metric.source, metric.target, metric.text) == (MetricSource.QUERY, 2.5, "2.5")
    assert "elsewhere" not in str(found)
    assert (found.hpa_name, found.behavior_path[1]) == ("keda-hpa-phi", "advanced")


def test_modifiers_and_other_triggers_leave_the_bounds(declare: Declare) -> None:
    modified = SCALED_OBJECT + TRIGGER + '  advanced: {scalingModifiers: {formula: "a + 1", target: "3"}}\n'
    assert "scalingModifiers" in scaler(declare, modified).bounds_only
    assert "trigger cron" in scaler(declare, SCALED_OBJECT + "  - {type: cron, metadata: {}}\n").bounds_only


def test_what_kserve_makes_is_read_where_it_is_written(declare: Declare) -> None:
    found = scaler(declare, SERVICE)
    (metric,) = found.metrics
    assert (found.key.kind, found.hpa_name) == ("InferenceService", "keda-hpa-phi-predictor")
    assert (metric.query, metric.target, metric.text) == ("sum(vllm:num_requests_running)", 0.5, "500m")
    assert metric.written.field[:3] == ("spec", "predictor", "autoScaling")


def test_triggers_of_a_service_for_language_models_are_its_own(declare: Declare) -> None:
    found = scaler(declare, LLM_SERVICE)
    assert (found.metrics[0].target, found.hpa_name) == (4.0, "keda-hpa-phi-kserve-keda")
    assert found.behavior_path == ("spec", "scaling", "keda", "advanced", "horizontalPodAutoscalerConfig", "behavior")


@pytest.mark.parametrize("target", ['"${TARGET}"', "[]", '"many"', "-3", "true"])
def test_a_target_that_is_no_amount_is_none(declare: Declare, target: str) -> None:
    (metric,) = scaler(declare, HPA + PODS.replace('"40"', target)).metrics
    assert metric.target is None


def test_rules_of_the_adapter_are_read_from_its_config_map(declare: Declare) -> None:
    text = """\
apiVersion: v1
kind: ConfigMap
metadata: {name: adapter-config, namespace: monitoring}
data:
  config.yaml: |
    rules:
    - seriesQuery: 'vllm:num_requests_running{namespace!="",pod!=""}'
      resources: {overrides: {namespace: {resource: namespace}, pod: {resource: pod}}}
      name: {matches: "^vllm:num_requests_running$", as: vllm_num_requests_running}
      metricsQuery: sum(<<.Series>>{<<.LabelMatchers>>}) by (<<.GroupBy>>)
    externalRules:
    - {seriesQuery: '{__name__=~"^queue_.*"}', resources: {namespaced: false}}
    - no rule
"""
    pods, external = declare(text).adapter_rules
    assert (pods.is_external, pods.labels, pods.place.line) == (False, {"namespace": "namespace", "pod": "pod"}, 7)
    assert (external.is_external, external.is_namespaced) == (True, False)


def test_other_config_maps_have_no_rules(declare: Declare) -> None:
    text = 'apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: b}\ndata: {config.yaml: "seriesQuery: ["}\n'
    assert declare(text).adapter_rules == ()


POD_AUTOSCALER = """\
apiVersion: autoscaling.aibrix.ai/v1alpha1
kind: PodAutoscaler
metadata:
  name: phi
  namespace: llm
  annotations: {autoscaling.aibrix.ai/scale-down-cooldown-window: 10m, autoscaling.aibrix.ai/max-scale-up-rate: "3"}
spec:
  scalingStrategy: HPA
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: phi}
  minReplicas: 2
  maxReplicas: 9
  metricsSources:
  - {metricSourceType: pod, protocolType: http, port: "8000", path: metrics, targetMetric: running, targetValue: "29.5"}
"""


def test_aibrix_makes_an_hpa_of_its_strategy(declare: Declare) -> None:
    (owner,) = declare(POD_AUTOSCALER).owners
    scaler = owner.scaler
    assert scaler is not None
    (metric,) = scaler.metrics
    assert (metric.source, metric.name, metric.text) == (MetricSource.PODS, "running", "29.5")
    assert (metric.target, metric.is_whole) == (30.0, True), "its operator rounds up"
    assert (scaler.hpa_name, scaler.least, scaler.most, scaler.bounds_only) == ("phi-hpa", 2, 9, "")
    assert scaler.behavior == {
        "scaleUp": {
            "stabilizationWindowSeconds": 0,
            "selectPolicy": "Max",
            "policies": [{"type": "Percent", "value": 200, "periodSeconds": 60}],
        },
        "scaleDown": {
            "stabilizationWindowSeconds": 600,
            "selectPolicy": "Min",
            "policies": [{"type": "Percent", "value": 50, "periodSeconds": 60}],
        },
    }


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        ("Strategy: HPA", "Strategy: KPA", "AIBrix's own strategy KPA is not simulated"),
        ("  scalingStrategy: HPA\n", "", "AIBrix's own strategy is not written and is not simulated"),
        ("window: 10m", "window: soon", "an annotation of its way to scale cannot be read"),
        ('rate: "3"', 'rate: "many"', "an annotation of its way to scale cannot be read"),
        ("targetMetric: running", "targetMetric: cpu", "it scales by cpu, which says little of requests"),
    ],
)
def test_of_other_pod_autoscalers_only_bounds_move(declare: Declare, before: str, after: str, words: str) -> None:
    (owner,) = declare(POD_AUTOSCALER.replace(before, after)).owners
    assert owner.scaler is not None
    assert owner.scaler.bounds_only == words


POLICY = """\
apiVersion: workload.serving.volcano.sh/v1alpha1
kind: AutoscalingPolicy
metadata: {name: phi, namespace: llm}
spec:
  metrics: [{name: load, targetValue: "2500m"}]
  tolerancePercent: 20
  behavior: {scaleDown: {stabilizationWindow: 15m}}
  homogeneousTarget:
    minReplicas: 2
    maxReplicas: 9
    target:
      targetRef: {kind: ModelServing, name: phi}
      metricSources: {load: SOURCE}
"""
SCRAPED = '{pod: {name: "vllm:num_requests_running"}}'
QUERIED = '{prometheus: {serverURL: "http://elsewhere.example", query: sum(a)}}'


@pytest.mark.parametrize(
    ("source", "kind", "name", "query"),
    [
        (SCRAPED, MetricSource.PODS, "vllm:num_requests_running", ""),
        (QUERIED, MetricSource.QUERY, "load", "sum(a)"),
        ("{pod: {}}", MetricSource.PODS, "load", ""),
    ],
)
def test_a_policy_of_kthena_sets_replicas_between_bounds_of_its_own(
    declare: Declare, source: str, kind: MetricSource, name: str, query: str
) -> None:
    (owner,) = declare(POLICY.replace("SOURCE", source)).owners
    assert (owner.owner, owner.target_kind, owner.target_name, owner.least, owner.is_followed) == (
        "AutoscalingPolicy phi",
        "ModelServing",
        "phi",
        2,
        True,
    )
    assert [(each.field[-1], each.value, each.is_ceiling) for each in owner.fields] == [
        ("minReplicas", 2, False),
        ("maxReplicas", 9, True),
    ]
    found = owner.scaler
    assert found is not None
    assert found.policy is not None
    (metric,) = found.metrics
    assert (metric.source, metric.name, metric.query, metric.target, metric.text) == (kind, name, query, 2.5, "2500m")
    assert (found.policy.tolerance_percent, found.policy.behavior.down.stabilization_s) == (20, 900.0)
    assert (found.behavior, found.bounds_only) == ({"scaleDown": {"stabilizationWindow": "15m"}}, "")


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        (
            '[{name: load, targetValue: "2500m"}]',
            "[{name: load, targetValue: 1}, {name: b, targetValue: 2}]",
            "2 metrics",
        ),
        ("SOURCE", "{pod: {labelSelector: {matchLabels: {tier: hot}}}}", "that a selector picks"),
    ],
)
def test_of_other_policies_only_the_bounds_move(declare: Declare, old: str, new: str, why: str) -> None:
    (owner,) = declare(POLICY.replace(old, new).replace("SOURCE", SCRAPED)).owners
    assert owner.scaler is not None
    assert why in owner.scaler.bounds_only


def test_a_policy_before_it_had_a_target_moves_nothing_here(declare: Declare) -> None:
    text = POLICY[: POLICY.index("  homogeneousTarget")].replace("name: load", "metricName: load")
    assert declare(text).owners == ()
