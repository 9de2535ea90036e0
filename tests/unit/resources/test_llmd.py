"""VariantAutoscaling: three forms, their numbers in base units, and what cannot be decided yet."""

from collections.abc import Callable

import pytest

from reconciler.domain.identity import Place
from reconciler.domain.snapshot import Condition, Form, StatusShape
from reconciler.domain.workloads import Annotation
from reconciler.resources.declaration import Declaration
from reconciler.resources.variants import SloClassRef, VariantResource

Declare = Callable[..., Declaration]

HEAD = """apiVersion: llmd.ai/v1alpha1
kind: VariantAutoscaling
metadata:
  name: vllme-deployment
  namespace: llm-d-sim
  labels: {inference.optimization/acceleratorName: A100}
"""


def only(declaration: Declaration) -> VariantResource:
    assert not [str(finding) for finding in declaration.findings]
    (variant,) = declaration.variants
    return variant


def flat(acc: str, count: int, alpha: str, beta: str, batch: int, tokens: int | None) -> str:
    at_tokens = "" if tokens is None else f", atTokens: {tokens}"
    numbers = f'alpha: "{alpha}", beta: "{beta}", maxBatchSize: {batch}{at_tokens}'
    return f"""{HEAD}spec:
  modelID: default
  sloClassRef: {{name: premium-slo, key: opt-125m}}
  modelProfile: {{accelerators: [{{acc: {acc}, accCount: {count}, {numbers}}}]}}
"""


@pytest.mark.parametrize(
    ("acc", "count", "alpha", "beta", "batch", "tokens"),
    [
        ("A100", 1, "20.58", "0.41", 32, 512),
        ("G2", 1, "17.15", "0.34", 38, 512),
        ("A100", 1, "20.13", "0.87", 32, 128),
        ("H100", 1, "12.98", "0.52", 38, 128),
        ("L40", 2, "46.81", "2.02", 20, 128),
        ("A100", 1, "20.58", "0.41", 4, 128),
        ("MI300X", 1, "7.77", "0.15", 4, 128),
        ("G2", 1, "17.15", "0.34", 4, 128),
        ("H100", 1, "6.958", "0.042", 512, None),
    ],
)
def test_published_profiles_are_read_in_seconds(
    declare: Declare, acc: str, count: int, alpha: str, beta: str, batch: int, tokens: int | None
) -> None:
    variant = only(declare(flat(acc, count, alpha, beta, batch, tokens)))
    (profile,) = variant.profiles
    assert profile.accelerator == acc
    assert profile.accelerators_per_replica == count
    assert profile.alpha_s == pytest.approx(float(alpha) / 1000, rel=1e-12)
    assert profile.beta_s == pytest.approx(float(beta) / 1000, rel=1e-12)
    assert (profile.max_batch_size, profile.at_tokens) == (batch, tokens)
    assert profile.law == "decode_only"
    assert variant.unsupported is None


@pytest.mark.parametrize(
    ("acc", "alpha", "beta", "gamma", "delta", "batch"),
    [
        ("L40S", "22.619", "0.181", "226.19", "0.018", 512),
        ("H100", "7.470", "0.044", "15.415", "0.000337", 512),
        ("A100", "20.58", "0.41", "5.2", "0.1", 4),
        ("A100", "20.28", "0.72", "0", "0", 4),
    ],
)
@pytest.mark.parametrize("form", [Form.PROFILE, Form.NAME])
def test_published_prefill_parameters_are_of_their_law(
    declare: Declare, form: Form, acc: str, alpha: str, beta: str, gamma: str, delta: str, batch: int
) -> None:
    reference = "  sloClassRef: {name: premium, key: default}\n" if form is Form.PROFILE else ""
    text = f"""{HEAD}spec:
  modelID: default
{reference}  modelProfile:
    accelerators:
      - acc: {acc}
        accCount: 1
        maxBatchSize: {batch}
        perfParms:
          decodeParms: {{alpha: "{alpha}", beta: "{beta}"}}
          prefillParms: {{gamma: "{gamma}", delta: "{delta}"}}
"""
    variant = only(declare(text))
    (profile,) = variant.profiles
    assert (variant.form, variant.status_shape) == (form, StatusShape.TTFT)
    assert profile.gamma_s == pytest.approx(float(gamma) / 1000, rel=1e-12)
    assert profile.delta_s == pytest.approx(float(delta) / 1000, rel=1e-12)
    assert profile.law == "prefill_decode"
    assert variant.unsupported is None


def test_the_profile_form_aims_at_the_deployment_of_its_name(declare: Declare) -> None:
    variant = only(declare(flat("A100", 1, "20.58", "0.41", 4, 128)))
    assert (variant.form, variant.status_shape) == (Form.PROFILE, StatusShape.FULL)
    assert (variant.target_kind, variant.target_name) == ("Deployment", "vllme-deployment")
    assert variant.slo_class_ref == SloClassRef(name="premium-slo", key="opt-125m")
    assert variant.model_id == "default"
    assert variant.profiles[0].place == Place(path="a.yaml", line=10, field="spec.modelProfile.accelerators[0]")
    assert variant.places["spec.modelID"] == Place(path="a.yaml", line=8, field="spec.modelID")
    assert variant.labels == {"inference.optimization/acceleratorName": "A100"}


def test_the_target_form_states_only_what_is_written(declare: Declare) -> None:
    text = HEAD + "spec:\n  scaleTargetRef: {kind: Deployment, name: llama}\n  modelID: meta/llama\n"
    variant = only(declare(text))
    assert (variant.form, variant.status_shape) == (Form.TARGET, StatusShape.TARGET)
    assert (variant.target_kind, variant.target_name) == ("Deployment", "llama")
    assert (variant.variant_cost, variant.min_replicas, variant.max_replicas) == (None, None, None)


def test_the_target_form_carries_its_cost_and_bounds(declare: Declare) -> None:
    spec = "spec:\n  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: llama}\n  modelID: m\n"
    variant = only(declare(HEAD + spec + '  variantCost: "12.50"\n  minReplicas: 0\n  maxReplicas: 9\n'))
    assert (variant.variant_cost, variant.min_replicas, variant.max_replicas) == (12.5, 0, 9)
    assert variant.places["spec.maxReplicas"].line == 12


@pytest.mark.parametrize(
    ("kind", "version"), [("StatefulSet", "apps/v1"), ("LeaderWorkerSet", "leaderworkerset.x-k8s.io/v1")]
)
def test_the_target_may_be_another_kind_with_replicas(declare: Declare, kind: str, version: str) -> None:
    text = f"{HEAD}spec:\n  scaleTargetRef: {{apiVersion: VERSION, kind: {kind}, name: big}}\n  modelID: m\n"
    variant = only(declare(text.replace("VERSION", version)))
    assert (variant.target_kind, variant.target_name, variant.unsupported) == (kind, "big", None)
    (finding,) = declare(text.replace("VERSION", "example.com/v1")).findings
    assert str(finding).endswith(f'spec.scaleTargetRef.apiVersion: expected "{version}", got "example.com/v1"')


def test_other_scale_targets_are_named_as_not_available(declare: Declare) -> None:
    variant = only(declare(f"{HEAD}spec:\n  scaleTargetRef: {{kind: Rollout, name: big}}\n  modelID: m\n"))
    assert variant.target_kind == "Rollout"
    assert str(variant.unsupported) == "scale targets of kind Rollout are not available yet"


@pytest.mark.parametrize("spec", ["{modelID: '${MODEL}'}", "{modelID: m, scaleTargetRef: {name: '{{ x }}'}}"])
def test_a_spec_that_is_filled_in_later_is_held_and_no_mistake(declare: Declare, spec: str) -> None:
    declaration = declare(f"{HEAD}spec: {spec}\n")
    assert [str(finding.severity) for finding in declaration.findings] == ["warning"]
    assert [broken.reason.endswith("cannot be read from Git") for broken in declaration.broken] == [True]
    assert not declaration.variants


def test_the_name_form_wants_its_accelerator_label(declare: Declare) -> None:
    text = HEAD + 'spec: {modelID: m, variantCost: "10.0"}\n'
    variant = only(declare(text))
    assert (variant.form, variant.target_name, variant.variant_cost) == (Form.NAME, "vllme-deployment", 10.0)
    unlabelled = declare(text.replace("  labels: {inference.optimization/acceleratorName: A100}\n", ""))
    (finding,) = unlabelled.findings
    assert finding.message == (
        "expected the label inference.optimization/acceleratorName with the current accelerator, found nothing"
    )
    assert unlabelled.variants


def test_annotations_become_settings_of_their_type(declare: Declare) -> None:
    annotations = """  annotations:
    reconciler.io/service-class: premium
    reconciler.io/accelerator: keep
    reconciler.io/min-replicas: "0"
    reconciler.io/max-replicas: "8"
    reconciler.io/group: eu/west
    reconciler.io/ignore: "false"
    wva.llmd.ai/exclude: "true"
"""
    variant = only(declare(HEAD + annotations + "spec: {modelID: m}\n"))
    values = {name: annotation.value for name, annotation in variant.settings.items()}
    assert values == {
        "serviceClass": "premium",
        "accelerator": "keep",
        "minReplicas": 0,
        "maxReplicas": 8,
        "group": "eu/west",
        "ignore": False,
    }
    place = Place(path="a.yaml", line=10, field='metadata.annotations["reconciler.io/min-replicas"]')
    assert variant.settings["minReplicas"] == Annotation(value=0, place=place)


def test_well_formed_conditions_are_kept_among_others(declare: Declare) -> None:
    status = """spec: {scaleTargetRef: {kind: Deployment, name: llama}, modelID: m}
status:
  conditions:
    - type: MetricsAvailable
      status: "True"
      reason: MetricsAvailable
      message: Saturation metrics data is available for scaling decisions
      lastTransitionTime: "2026-01-09T22:00:00Z"
      observedGeneration: 3
    - nonsense
"""
    declaration = declare(HEAD + status)
    assert [str(finding.severity) for finding in declaration.findings] == ["warning"]
    assert declaration.variants[0].conditions == (
        Condition(
            type="MetricsAvailable",
            status="True",
            reason="MetricsAvailable",
            message="Saturation metrics data is available for scaling decisions",
            last_transition_time="2026-01-09T22:00:00Z",
        ),
    )


def test_a_status_of_each_shape_is_accepted(declare: Declare) -> None:
    full = """status:
  currentAlloc:
    accelerator: A100
    numReplicas: 1
    maxBatch: 4
    variantCost: "40.00"
    itlAverage: "21.32"
    waitAverage: "17.22"
    load: {arrivalRate: "20.00", avgLength: "228.00"}
  desiredOptimizedAlloc: {lastRunTime: "2025-07-24T10:00:00Z", accelerator: A100, numReplicas: 2}
  actuation: {applied: true, lastAttemptTime: "2025-07-24T10:00:00+02:00"}
"""
    only(declare(flat("A100", 1, "20.58", "0.41", 4, 128) + full))
    ttft = full.replace("waitAverage", "ttftAverage").replace(
        'avgLength: "228.00"', 'avgInputTokens: "1", avgOutputTokens: "2"'
    )
    ttft = ttft.replace(', lastAttemptTime: "2025-07-24T10:00:00+02:00"', "") + "  conditions: []\n"
    only(declare(HEAD + "spec: {modelID: m}\n" + ttft))
    target = "status:\n  desiredOptimizedAlloc: {numReplicas: null}\n  actuation: {applied: false}\n"
    only(declare(HEAD + "spec: {modelID: m, scaleTargetRef: {kind: Deployment, name: a}}\n" + target))


def test_items_of_a_list_are_read_where_they_stand(declare: Declare) -> None:
    text = """apiVersion: llmd.ai/v1alpha1
kind: VariantAutoscalingList
items:
  - metadata: {name: a, labels: {inference.optimization/acceleratorName: A100}}
    spec: {modelID: m}
  - apiVersion: llmd.ai/v1alpha1
    kind: VariantAutoscaling
    metadata: {name: b, namespace: llm, labels: {inference.optimization/acceleratorName: A100}}
    spec: {modelID: m}
"""
    declaration = declare(text)
    assert [variant.key.label for variant in declaration.variants] == ["default/a", "llm/b"]
    second = declaration.variants[1]
    assert second.document.prefix == ("items", 1)
    assert (second.place.line, second.places["spec.modelID"].line) == (6, 9)
    beside = declare(text + "  - nonsense\n")
    assert len(beside.variants) == 2
    assert [str(found) for found in beside.findings] == [
        'a.yaml:10: error: items[2]: expected a mapping, got "nonsense"'
    ]
    mixed = text.replace("VariantAutoscalingList", "List").replace("llmd.ai/v1alpha1\nkind: List", "v1\nkind: List")
    assert [variant.key.label for variant in declare(mixed).variants] == ["llm/b"]
