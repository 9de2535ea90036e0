"""Another setting of an autoscaler in its manifest: only what changes, in the form that the file has."""

from types import SimpleNamespace
from typing import Any

import pytest

from reconciler.decision.scaler_settings import declared_setting, has_tolerance, is_sound, written_setting
from reconciler.domain.inventory import Allocation
from reconciler.domain.plan import written_in
from reconciler.domain.records import replace
from reconciler.domain.scalers import ResolvedMetric, ScalerSetting, Signal, TunedScaler
from reconciler.domain.written import DocumentRef
from reconciler.manifests.documents import OpenFile, parse_documents
from reconciler.manifests.edits import EditRefused
from reconciler.pipeline.edits import Editor, Sheet, sheet_of, write_edits
from reconciler.rendering.renderer import Renderer
from reconciler.resources.declaration import FileDeclaration, merge
from reconciler.resources.reading import read_file

HPA = """\
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: phi, namespace: llm}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: phi}
  maxReplicas: 9
  metrics:
  - type: Pods
    pods: {metric: {name: running}, target: {type: AverageValue, averageValue: 40}} # by feeling
"""
SCALED_OBJECT = """\
apiVersion: keda.sh/v1alpha1
kind: ScaledObject
metadata: {name: phi, namespace: llm}
spec:
  scaleTargetRef: {name: phi}
  triggers:
  - type: prometheus
    metadata:
      query: sum(a)
      threshold: '2.5'
"""
DOWN = {
    "stabilizationWindowSeconds": 900,
    "policies": [{"type": "Percent", "value": 10, "periodSeconds": 60}],
}


AS_NOW = {"as": "now"}
SLOWLY = "  behavior:\n    scaleUp:\n      selectPolicy: Min # slowly\n"


def tuned(text: str, target: str, behavior: Any = AS_NOW, bounds: tuple[int, int] | None = None) -> str:
    """The manifest with another setting."""
    found: FileDeclaration = read_file("prod", "a.yaml", parse_documents("a.yaml", text.encode()))
    (owner,) = merge([found]).owners
    scaler = owner.scaler
    assert scaler is not None
    least, most = bounds or (scaler.least, scaler.most)
    wanted = ScalerSetting(
        target=target, behavior=scaler.behavior if behavior is AS_NOW else behavior, least=least, most=most
    )
    current = Allocation(accelerator="", replicas=scaler.least, scaling=str(scaler.setting))
    desired = Allocation(accelerator="", replicas=least, scaling=str(wanted))
    decision: Any = SimpleNamespace(
        current=current, desired=desired, written_in=lambda field: written_in(field, current, desired)
    )
    variant: Any = SimpleNamespace(tuned=TunedScaler(scaler=scaler), workload=SimpleNamespace(written_at=owner.fields))
    file = OpenFile("a.yaml", text.encode())

    def open_sheet(reference: DocumentRef) -> Sheet:
        return sheet_of(file.documents_near(reference.document), reference)

    editor = Editor(renderer=Renderer())
    edits = (*editor.count_edits(decision, variant, open_sheet), *editor.tuning_edits(decision, variant, open_sheet))
    return write_edits("a.yaml", text.encode(), edits, file).decode()


def test_a_plain_number_stays_plain_and_a_quoted_one_quoted() -> None:
    assert tuned(HPA, "52") == HPA.replace("averageValue: 40", "averageValue: 52")
    assert tuned(HPA, "1500m") == HPA.replace("averageValue: 40", 'averageValue: "1500m"')
    assert tuned(SCALED_OBJECT, "3.2") == SCALED_OBJECT.replace("'2.5'", "'3.2'")


def test_what_is_the_same_is_not_touched() -> None:
    assert tuned(HPA, "40") == HPA


def test_a_behavior_is_inserted_where_there_is_none() -> None:
    assert tuned(HPA, "40", {"scaleDown": DOWN}) == HPA + (
        "  behavior:\n"
        "    scaleDown:\n"
        "      policies:\n"
        "        - periodSeconds: 60\n"
        '          type: "Percent"\n'
        "          value: 10\n"
        "      stabilizationWindowSeconds: 900\n"
    )


def test_of_a_scaled_object_it_stands_below_advanced() -> None:
    written = tuned(SCALED_OBJECT, "2.5", {"scaleDown": {"stabilizationWindowSeconds": 900}})
    assert written == SCALED_OBJECT + (
        "  advanced:\n"
        "    horizontalPodAutoscalerConfig:\n"
        "      behavior:\n"
        "        scaleDown:\n"
        "          stabilizationWindowSeconds: 900\n"
    )


def test_what_a_behavior_has_is_kept() -> None:
    own = HPA + "  behavior:\n    scaleUp: {selectPolicy: Min}\n    scaleDown:\n      stabilizationWindowSeconds: 60\n"
    behavior = {"scaleUp": {"selectPolicy": "Min"}, "scaleDown": {"stabilizationWindowSeconds": 900}}
    assert tuned(own, "40", behavior) == own.replace("Seconds: 60", "Seconds: 900")


@pytest.mark.parametrize(
    ("behavior", "wanted", "left"),
    [
        ("  behavior:\n    scaleDown:\n      stabilizationWindowSeconds: 900\n", None, "  behavior: {}\n"),
        (
            SLOWLY + "    scaleDown:\n      selectPolicy: Min\n",
            {"scaleUp": {"selectPolicy": "Min"}},
            '  behavior:\n    scaleUp:\n      selectPolicy: "Min"\n',
        ),
        (
            SLOWLY + "    scaleDown:\n      stabilizationWindowSeconds: 900\n      selectPolicy: Min\n",
            {"scaleUp": {"selectPolicy": "Min"}, "scaleDown": {"selectPolicy": "Min"}},
            SLOWLY + '    scaleDown:\n      selectPolicy: "Min"\n',
        ),
    ],
)
def test_a_behavior_that_is_taken_back_is_gone(behavior: str, wanted: Any, left: str) -> None:
    """What a pull request inserted is what the one that takes it back removes."""
    assert tuned(HPA + behavior, "40", wanted) == HPA + left


def test_a_behavior_comes_again_where_one_was_taken_back() -> None:
    again = tuned(HPA + "  behavior: {}\n", "40", {"scaleDown": {"stabilizationWindowSeconds": 900}})
    assert again == HPA + "  behavior:\n    scaleDown:\n      stabilizationWindowSeconds: 900\n"


@pytest.mark.parametrize("empty", ["  behavior:\n", "  behavior: ~\n", "  behavior:\n    scaleDown:\n"])
def test_a_behavior_is_written_where_a_key_has_no_value(empty: str) -> None:
    written = tuned(HPA + empty, "40", {"scaleDown": {"stabilizationWindowSeconds": 900}})
    assert written == HPA + "  behavior:\n    scaleDown:\n      stabilizationWindowSeconds: 900\n"


@pytest.mark.parametrize(
    ("text", "target", "words"),
    [
        (
            HPA.replace("maxReplicas: 9", "maxReplicas: &n 9").replace("Value: 40", "Value: *n"),
            "52",
            "this is an alias",
        ),
        (HPA + "  behavior:\n    scaleDown: &d\n      selectPolicy: Min\n    scaleUp: *d\n", "40", "used by aliases"),
    ],
)
def test_what_an_anchor_shares_is_not_changed_for_one(text: str, target: str, words: str) -> None:
    behavior = {"scaleDown": {"selectPolicy": "Min", "stabilizationWindowSeconds": 900}}
    with pytest.raises(EditRefused, match=words):
        tuned(text, target, AS_NOW if target == "52" else {**behavior, "scaleUp": {"selectPolicy": "Min"}})


def test_a_manifest_on_one_line_gets_no_block() -> None:
    flow = HPA.replace("  maxReplicas: 9\n", "  maxReplicas: 9\n  behavior: {scaleUp: {selectPolicy: Min}}\n")
    with pytest.raises(EditRefused):
        tuned(flow, "40", {"scaleUp": {"selectPolicy": "Min"}, "scaleDown": DOWN})


@pytest.mark.parametrize(
    ("behavior", "is_known"),
    [("", False), ("  behavior: {scaleDown: {selectPolicy: Max}}\n", False),
     ("  behavior:\n    scaleDown:\n      tolerance: 100m\n", True)],
)  # fmt: skip
def test_a_tolerance_is_changed_where_git_has_one(behavior: str, is_known: bool) -> None:
    (owner,) = merge([read_file("prod", "a.yaml", parse_documents("a.yaml", (HPA + behavior).encode()))]).owners
    assert owner.scaler is not None
    assert has_tolerance(owner.scaler) is is_known


def test_a_tolerance_is_written_into_both_directions() -> None:
    own = HPA + "  behavior:\n    scaleDown:\n      tolerance: 100m\n"
    (owner,) = merge([read_file("prod", "a.yaml", parse_documents("a.yaml", own.encode()))]).owners
    assert owner.scaler is not None
    metric = ResolvedMetric(promql="", signal=Signal.RUNNING, source="")
    setting = declared_setting(owner.scaler, metric)
    assert setting is not None
    assert written_setting(owner.scaler, setting) == owner.scaler.setting, "what stays is not touched"
    chosen = written_setting(owner.scaler, replace(setting, tolerance_up=0.05, tolerance_down=0.05))
    assert is_sound(chosen)
    assert chosen.changes(owner.scaler.setting) != ()
    written = tuned(own, "40", chosen.behavior)
    assert "      tolerance: 0.05\n" in written.replace('"', "")
    assert "    scaleUp:\n      tolerance: " in written


POD_AUTOSCALER = """\
apiVersion: autoscaling.aibrix.ai/v1alpha1
kind: PodAutoscaler
metadata:
  name: phi
  namespace: llm
spec:
  scalingStrategy: HPA
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: phi}
  maxReplicas: 9
  metricsSources:
  - {metricSourceType: pod, targetMetric: running, targetValue: '30'}
"""


def aibrix_behavior(window_s: int, percent: int) -> dict[str, Any]:
    policies = {"policies": [{"type": "Percent", "value": percent, "periodSeconds": 60}]}
    up = {"stabilizationWindowSeconds": 0, "selectPolicy": "Max"}
    up["policies"] = [{"type": "Percent", "value": 100, "periodSeconds": 60}]
    return {"scaleUp": up, "scaleDown": {"stabilizationWindowSeconds": window_s, "selectPolicy": "Min", **policies}}


def test_aibrix_is_told_by_annotations() -> None:
    written = tuned(POD_AUTOSCALER, "52", aibrix_behavior(900, 10))
    assert written == POD_AUTOSCALER.replace("'30'", "'52'").replace(
        "  namespace: llm\n",
        "  namespace: llm\n"
        "  annotations:\n"
        '    autoscaling.aibrix.ai/max-scale-down-rate: "1.117"\n'
        '    autoscaling.aibrix.ai/scale-down-cooldown-window: "900s"\n',
    )
    assert tuned(written, "52", aibrix_behavior(900, 10)) == written, "it is read as it is written"
    assert tuned(written, "52", aibrix_behavior(1800, 10)) == written.replace("900s", "1800s")
    assert tuned(written, "52", aibrix_behavior(300, 50)) == written.replace("900s", "300s").replace("1.117", "2.020")


SERVICE = """\
apiVersion: serving.kserve.io/v1beta1
kind: InferenceService
metadata:
  name: phi
  namespace: llm
  annotations: {serving.kserve.io/deploymentMode: Standard, serving.kserve.io/autoscalerClass: keda}
spec:
  predictor:
    minReplicas: 4
    maxReplicas: 9 # what the team pays for
    model: {modelFormat: {name: huggingface}, args: [--model_name=phi]}
    autoScaling:
      metrics:
      - type: External
        external:
          metric: {backend: prometheus, serverAddress: http://elsewhere.example, query: sum(a)}
          target: {type: AverageValue, averageValue: "30"}
"""
LLM_SERVICE = """\
apiVersion: serving.kserve.io/v1alpha2
kind: LLMInferenceService
metadata: {name: phi, namespace: llm}
spec:
  model: {uri: "hf://org/phi", name: phi}
  scaling:
    minReplicas: 4
    maxReplicas: 9
    keda:
      triggers:
      - {type: prometheus, metadata: {query: "sum(a)", threshold: "30"}}
  template: {containers: [{name: main, image: vllm/vllm-openai}]}
"""
FAMILIES = {
    "hpa": (HPA.replace("maxReplicas: 9", "minReplicas: 4\n  maxReplicas: 9"), "40", ("minReplicas", "maxReplicas")),
    "keda": (
        SCALED_OBJECT.replace("  triggers", "  minReplicaCount: 4\n  maxReplicaCount: 9\n  triggers"),
        "2.5",
        ("minReplicaCount", "maxReplicaCount"),
    ),
    "aibrix": (
        POD_AUTOSCALER.replace("maxReplicas: 9", "minReplicas: 4\n  maxReplicas: 9"),
        "30",
        ("minReplicas", "maxReplicas"),
    ),
    "kserve": (SERVICE, "30", ("minReplicas", "maxReplicas")),
    "kserve-llm": (LLM_SERVICE, "30", ("minReplicas", "maxReplicas")),
}


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("bounds", [(2, 14), (4, 14), (2, 9), (5, 8), (4, 9)])
def test_bounds_stand_where_those_of_each_kind_stand(name: str, bounds: tuple[int, int]) -> None:
    """Lowered and raised, and back: a ceiling that was raised is taken back to what it was."""
    text, target, (least, most) = FAMILIES[name]
    wanted = text.replace(f"{least}: 4", f"{least}: {bounds[0]}").replace(f"{most}: 9", f"{most}: {bounds[1]}")
    assert tuned(text, target, bounds=bounds) == wanted


def test_a_ceiling_that_stands_nowhere_is_written_where_it_moves() -> None:
    assert tuned(SCALED_OBJECT, "2.5", bounds=(0, 100)) == SCALED_OBJECT
    assert tuned(SCALED_OBJECT, "2.5", bounds=(0, 120)) == SCALED_OBJECT + "  maxReplicaCount: 120\n"


POLICY = """\
apiVersion: workload.serving.volcano.sh/v1alpha1
kind: AutoscalingPolicy
metadata: {name: phi, namespace: llm}
spec:
  metrics:
  - name: "vllm:num_requests_running"
    targetValue: 30 # by feeling
  homogeneousTarget:
    minReplicas: 4
    maxReplicas: 9
    target: {targetRef: {kind: ModelServing, name: phi}}
"""
SLOW_DOWN = {"instances": 1, "percent": 10, "period": "60s", "stabilizationWindow": "900s"}


def test_a_policy_of_kthena_is_written_as_its_schema_has_it() -> None:
    assert tuned(POLICY, "30") == POLICY
    assert tuned(POLICY, "2500m") == POLICY.replace("targetValue: 30", "targetValue: 2500m")
    assert tuned(POLICY, "52", {"scaleDown": SLOW_DOWN}, (2, 14)) == POLICY.replace(": 30", ": 52").replace(
        "minReplicas: 4\n    maxReplicas: 9", "minReplicas: 2\n    maxReplicas: 14"
    ) + (
        "  behavior:\n"
        "    scaleDown:\n"
        "      instances: 1\n"
        "      percent: 10\n"
        '      period: "60s"\n'
        '      stabilizationWindow: "900s"\n'
    )
    own = POLICY + "  behavior:\n    scaleDown:\n      percent: 50\n      stabilizationWindow: 10m\n"
    down = {"percent": 50, "stabilizationWindow": "1800s"}
    assert tuned(own, "30", {"scaleDown": down}) == own.replace("10m", "1800s")
    bare = POLICY + "  behavior:\n    scaleDown:\n      percent: 50\n"
    assert tuned(bare, "30", {"scaleDown": down}) == bare + '      stabilizationWindow: "1800s"\n'
