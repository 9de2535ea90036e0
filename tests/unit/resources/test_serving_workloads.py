"""What serves a model without a resource of an autoscaler: which engine, which model, and whether it is a variant."""

from collections.abc import Callable, Mapping
from dataclasses import replace

import pytest

from reconciler.domain.answers import Absence, NoAnswer
from reconciler.domain.holds import HoldKind
from reconciler.domain.observed import DevicesSeen
from reconciler.domain.recording import Recording
from reconciler.domain.settings import (
    ClusterSettings,
    Override,
    PoolSettings,
    PrometheusSettings,
    Setting,
    Settings,
    SettingScalar,
)
from reconciler.domain.snapshot import Form, Variant
from reconciler.domain.variant_settings import MIN_REPLICAS
from reconciler.domain.workloads import Workload
from reconciler.resources.declaration import Declaration
from reconciler.snapshot.adoption import find_left, find_unmanaged
from reconciler.snapshot.build import ChangeOf, read_snapshot
from reconciler.snapshot.inventory import take_inventory
from reconciler.snapshot.variants import build_catalogs, declared_variants

Declare = Callable[..., Declaration]
SETTINGS = Settings(clusters=(ClusterSettings(name="prod"),))
DEPLOYMENT = """apiVersion: apps/v1
kind: Deployment
metadata: {name: NAME, namespace: llm, labels: {team: search}, annotations: ANNOTATIONS}
spec:
  replicas: 3
  template:
    metadata: {labels: {app: NAME}}
    spec:
      nodeSelector: {nvidia.com/gpu.product: NVIDIA-L4}
      containers: [{name: engine, CONTAINER, resources: {limits: {nvidia.com/gpu: 2}}}]
"""
VLLM = "image: vllm/vllm-openai:v0.9.1, args: [--model, meta/llama-8b]"
TARGET = """apiVersion: llmd.ai/v1alpha1
kind: VariantAutoscaling
metadata: {name: va, namespace: llm}
spec: {modelID: meta/llama-8b, scaleTargetRef: {kind: Deployment, name: llama}}
"""


def deployment(container: str = VLLM, name: str = "llama", annotations: str = "{}") -> str:
    return DEPLOYMENT.replace("NAME", name).replace("ANNOTATIONS", annotations).replace("CONTAINER", container)


def entry(match: Mapping[str, str], **settings: SettingScalar) -> Override:
    return Override(match=match, settings={name: Setting(value=value) for name, value in settings.items()})


def with_entries(*entries: Override) -> Settings:
    return replace(SETTINGS, workloads=entries)


def unmanaged(declaration: Declaration, settings: Settings = SETTINGS) -> list[str]:
    claimed = {each.workload.key for each in declared_variants(settings, declaration) if each.workload is not None}
    return [each.key.name for each in find_unmanaged(settings, find_left(settings, declaration, claimed))]


def recorded(settings: Settings) -> Recording:
    return Recording(
        now_s=0.0,
        repository="r",
        branch="main",
        commit="c",
        settings=settings,
        manifests=(),
        withheld=(),
        unread=(),
        answers=(),
        proposals=(),
    )


def only(declaration: Declaration, settings: Settings = SETTINGS) -> Variant:
    (variant,) = declared_variants(settings, declaration)
    return variant


def workload_of(declaration: Declaration) -> Workload:
    (workload,) = declaration.workloads
    return workload


@pytest.mark.parametrize(
    ("container", "engine", "model"),
    [
        ("image: vllm/vllm-openai:v1, args: [--model, a/b]", "vllm", "a/b"),
        ("image: vllm/vllm-openai:v1, args: [--model=a/b, --port, '8000']", "vllm", "a/b"),
        ("image: vllm/vllm-openai:v1, args: [a/b, --port, '8000']", "vllm", "a/b"),
        ("image: x, command: [vllm, serve, a/b, --tensor-parallel-size, '2']", "vllm", "a/b"),
        ("image: x, command: [vllm, serve], args: [a/b]", "vllm", "a/b"),
        ("image: x, command: [/usr/bin/vllm, serve, a/b]", "vllm", "a/b"),
        ("image: x, command: [sh, -c, 'exec vllm serve a/b --port 8000']", "vllm", "a/b"),
        ("image: x, command: [bash, -c], args: ['pip install y && vllm serve a/b --port 80']", "vllm", "a/b"),
        ("image: x, command: [python3, -m, vllm.entrypoints.openai.api_server], args: [--model, a/b]", "vllm", "a/b"),
        ("image: x, command: [vllm, serve, a/b, --served-model-name, c, d]", "vllm", "c"),
        ("image: x, command: [vllm, serve, $(M)], env: [{name: M, value: a/b}]", "vllm", "a/b"),
        ("image: x, command: [sh, -c, 'vllm serve ${M} --port 1'], env: [{name: M, value: a/b}]", "vllm", "a/b"),
        ("image: x, command: [sh, -c, 'vllm serve $M --port 1']", "vllm", ""),
        ("image: vllm/vllm-openai:v1, command: [sleep, infinity]", "vllm", ""),
        ("image: lmsysorg/sglang:v1, command: [python3, -m, sglang.launch_server, --model-path, a/b]", "sglang", "a/b"),
        ("image: x, command: [sglang, serve, --model-path, a/b, --tp, '2']", "sglang", "a/b"),
        ("image: ghcr.io/huggingface/text-generation-inference:3, args: [--model-id, a/b]", "tgi", "a/b"),
        ("image: ghcr.io/huggingface/text-generation-inference:3, env: [{name: MODEL_ID, value: a/b}]", "tgi", "a/b"),
        ("image: x, command: [trtllm-serve, a/b, --tp_size, '2']", "trtllm", "a/b"),
        ("image: x, command: [trtllm-serve, serve, a/b]", "trtllm", "a/b"),
        ("image: x, command: [trtllm-serve, a/b, --served_model_name, c]", "trtllm", "c"),
        ("image: nvcr.io/nim/meta/llama-3.1-8b-instruct:1.8.4", "nim", "meta/llama-3.1-8b-instruct"),
        ("image: nvcr.io/nim/meta/l:1, env: [{name: NIM_SERVED_MODEL_NAME, value: 'a,b'}]", "nim", "a"),
        ("image: vllm/vllm-openai:v1, command: [/usr/local/bin/run.sh, '2']", "vllm", ""),
        ("image: nvcr.io/nim/nvidia/llm-nim:1, env: [{name: NIM_MODEL_NAME, value: a/b}]", "nim", "a/b"),
        ("image: nvcr.io/nim/nvidia/llm-nim:1", "nim", ""),
        ("image: nvcr.io/nvidia/tritonserver:24.05, command: [tritonserver, --model-repository=/m]", "triton", ""),
        ("image: ghcr.io/ggml-org/llama.cpp:server-cuda, args: [-m, /m.gguf, --alias, a/b]", "llama.cpp", "a/b"),
        ("image: x, command: [/app/llama-server, -hf, a/b]", "llama.cpp", "a/b"),
        ("image: ollama/ollama:0.5", "ollama", ""),
        ("image: openmmlab/lmdeploy:v0.9, command: [lmdeploy, serve, api_server, a/b]", "lmdeploy", "a/b"),
    ],
)
def test_engine_and_model_are_read_off_the_container(declare: Declare, container: str, engine: str, model: str) -> None:
    found = workload_of(declare(deployment(container)))
    assert (found.engine, found.model_id) == (engine, model)
    assert found.is_serving


@pytest.mark.parametrize(
    "container",
    [
        "image: nginx",
        "image: nvcr.io/nvidia/tritonserver:24.05-py3-sdk",
        "image: acme/sglang-diffusers:1",
        "image: lmcache/lmstack-router, args: [--static-models, a/b]",
        "image: acme/vllm-router:v1",
        "image: ghcr.io/open-webui/open-webui:ollama",
        "image: acme/ollama-exporter:1",
    ],
)
def test_what_runs_no_engine_is_not_listed(declare: Declare, container: str) -> None:
    assert unmanaged(declare(deployment(container))) == []


def test_what_nobody_wants_managed_is_listed_and_left_alone(declare: Declare) -> None:
    declaration = declare(deployment())
    assert declared_variants(SETTINGS, declaration) == ()
    assert unmanaged(declaration) == ["llama"]


def test_a_managed_workload_is_a_variant_of_the_model_that_its_arguments_name(declare: Declare) -> None:
    variant = only(declare(deployment(annotations='{reconciler.io/managed: "true"}')))
    assert (variant.form, variant.model.model_id, variant.served_names) == (
        Form.ADOPTED,
        "meta/llama-8b",
        ("meta/llama-8b",),
    )
    assert (variant.current.accelerator, variant.current.replicas, variant.holds) == ("L4", 3, ())


def test_an_annotated_model_goes_before_the_arguments_but_metrics_keep_the_name_of_the_engine(declare: Declare) -> None:
    variant = only(declare(deployment(annotations="{reconciler.io/model: llama}")))
    assert (variant.model.model_id, variant.served_names) == ("llama", ("meta/llama-8b",))


@pytest.mark.parametrize(
    "match",
    [
        {"namespace": "ll*"},
        {"name": "llama", "kind": "Deployment"},
        {"model": "meta/*"},
        {"path": "*.yaml"},
        {"cluster": "prod"},
    ],
)
def test_an_entry_of_workloads_manages_what_fits_with_its_settings(declare: Declare, match: Mapping[str, str]) -> None:
    declaration = declare({"a.yaml": deployment(), "b.yaml": deployment("image: nginx", name="web")})
    settings = with_entries(entry(match, minReplicas=2))
    variant = only(declaration, settings)
    assert variant.key.name == "llama"
    assert variant.settings[MIN_REPLICAS].value == 2
    assert unmanaged(declaration, settings) == []


@pytest.mark.parametrize("match", [{"namespace": "other"}, {"kind": "StatefulSet"}, {"name": "llam"}])
def test_an_entry_leaves_alone_what_does_not_fit(declare: Declare, match: Mapping[str, str]) -> None:
    assert declared_variants(with_entries(entry(match)), declare(deployment())) == ()


def test_labels_of_the_workload_must_fit(declare: Declare) -> None:
    def managed_by(labels: Mapping[str, str]) -> int:
        settings = with_entries(Override(match={}, labels=labels))
        return len(declared_variants(settings, declare(deployment())))

    assert (managed_by({"team": "search"}), managed_by({"team": "ads"})) == (1, 0)


def test_the_last_entry_that_fits_counts_and_an_annotation_goes_before_all(declare: Declare) -> None:
    settings = with_entries(entry({"namespace": "llm"}), entry({"name": "scratch*"}, managed=False))
    files = {
        "a.yaml": deployment(),
        "b.yaml": deployment(name="scratch"),
        "c.yaml": deployment(name="own", annotations='{reconciler.io/managed: "false"}'),
        "d.yaml": deployment(name="scratch-2", annotations='{reconciler.io/managed: "true"}'),
    }
    assert [each.key.name for each in declared_variants(settings, declare(files))] == ["llama", "scratch-2"]
    assert unmanaged(declare(files), settings) == [], "the team has said no to the others"


def test_an_engine_that_is_not_recognised_needs_its_name_and_model(declare: Declare) -> None:
    declaration = declare(deployment("image: acme/server"))
    assert declared_variants(with_entries(entry({"name": "*"}, model="a/b")), declaration) == ()
    variant = only(declaration, with_entries(entry({"name": "llama"}, model="a/b")))
    assert variant.model.model_id == "a/b"


def test_a_workload_that_a_resource_scales_is_that_resources_variant(declare: Declare) -> None:
    declaration = declare({"a.yaml": deployment(annotations='{reconciler.io/managed: "true"}'), "b.yaml": TARGET})
    variant = only(declaration, with_entries(entry({"namespace": "*"})))
    assert (variant.key.kind, variant.holds) == ("VariantAutoscaling", ())
    assert unmanaged(declaration) == []


def test_an_ignored_workload_is_not_listed(declare: Declare) -> None:
    assert unmanaged(declare(deployment(annotations='{reconciler.io/ignore: "true"}'))) == []


@pytest.mark.parametrize(
    ("container", "words"),
    [
        ("image: nvcr.io/nvidia/tritonserver:24.05", "annotate it with reconciler.io/model"),
        ("image: x, command: [vllm, serve, a/b, --task, embed]", "embeddings"),
        ("image: nvcr.io/nim/nvidia/riva-tts:1", "no language model"),
        ("image: ollama/ollama", "metrics of ollama are not read"),
        ("image: x, command: [sglang, serve, --model-path, a, --disaggregation-mode, prefill]", "the prefill half"),
        (
            'image: x, command: [vllm, serve, a/b, --kv-transfer-config, \'{"kv_role":"kv_consumer"}\']',
            "the decode half",
        ),
    ],
)
def test_what_cannot_be_sized_is_held_and_says_why(declare: Declare, container: str, words: str) -> None:
    variant = only(declare(deployment(container, annotations='{reconciler.io/managed: "true"}')))
    assert [each.kind for each in variant.holds] == [HoldKind.RESOURCE_UNSUPPORTED]
    assert words in variant.holds[0].words


def test_a_role_that_both_halves_share_is_no_half(declare: Declare) -> None:
    container = 'image: x, command: [vllm, serve, a/b, --kv-transfer-config, \'{"kv_role":"kv_both"}\']'
    assert only(declare(deployment(container, annotations='{reconciler.io/managed: "true"}'))).holds == ()


def test_annotations_of_workloads_mean_nothing_on_a_resource(declare: Declare) -> None:
    text = TARGET.replace(
        "{name: va, namespace: llm}", "{name: va, namespace: llm, annotations: {reconciler.io/model: x}}"
    )
    assert "unknown annotation" in str(declare(text).findings[0])


SCALED = """apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: NAME, namespace: llm}
spec: {scaleTargetRef: {kind: Deployment, name: NAME}, minReplicas: 5, maxReplicas: 9}
"""
POD_AUTOSCALER = """apiVersion: autoscaling.aibrix.ai/v1alpha1
kind: PodAutoscaler
metadata: {name: llama, namespace: llm}
spec: {scaleTargetRef: [llama], minReplicas: 5, maxReplicas: 9}
"""


@pytest.mark.parametrize(
    "scaler",
    [
        TARGET.replace("modelID: meta/llama-8b", "modelID: meta/llama-8b, minReplicas: some"),
        SCALED.replace("NAME", "llama").replace("minReplicas: 5", 'minReplicas: "5"'),
        POD_AUTOSCALER,
    ],
    ids=["VariantAutoscaling", "HorizontalPodAutoscaler", "PodAutoscaler"],
)
def test_what_a_resource_that_cannot_be_read_may_scale_is_held(declare: Declare, scaler: str) -> None:
    declaration = declare({"a.yaml": deployment(), "b.yaml": scaler})
    variant = only(declaration, with_entries(entry({"namespace": "*"})))
    assert [each.kind for each in variant.holds] == [HoldKind.OWNED_BY_ANOTHER]
    assert "cannot be read (b.yaml" in variant.holds[0].words
    elsewhere = declare({"a.yaml": deployment(), "b.yaml": scaler.replace("namespace: llm", "namespace: other")})
    assert only(elsewhere, with_entries(entry({"namespace": "*"}))).holds == ()


@pytest.mark.parametrize(
    ("sibling", "is_held"),
    [
        (deployment(name="b"), True),
        (deployment(name="b", annotations='{reconciler.io/managed: "false"}'), True),
        (deployment(name="b").replace("replicas: 3", "replicas: 0"), False),
        (deployment(name="b").replace("namespace: llm", "namespace: other"), False),
        (deployment(VLLM.replace("llama-8b", "llama-8b, --served-model-name, b"), "b"), False),
    ],
    ids=["sibling", "managed: false", "no replicas", "other namespace", "other name"],
)
def test_a_model_that_an_unmanaged_workload_serves_too_is_held(
    declare: Declare, sibling: str, *, is_held: bool
) -> None:
    own = deployment(annotations='{reconciler.io/managed: "true"}')
    variant = only(declare({"a.yaml": own, "b.yaml": sibling}))
    assert ["cannot be told apart: manage both" in each.words for each in variant.holds] == [True] * is_held


# ---- devices of what is not managed


@pytest.mark.parametrize(
    ("holdings", "taken"),
    [(NoAnswer(Absence.MISSING, "no kube-state-metrics"), 16), ((), 0)],
    ids=["unknown", "measured"],
)
def test_devices_of_unmanaged_workloads_are_taken(declare: Declare, holdings: tuple[()] | NoAnswer, taken: int) -> None:
    declaration = declare(
        {"a.yaml": deployment(), "b.yaml": deployment(name="b"), "c.yaml": SCALED.replace("NAME", "b")}
    )
    pools = (PoolSettings(name="l4", device="L4", devices=64),)
    settings = Settings(clusters=(ClusterSettings(name="prod", pools=pools),))
    seen = {"prod": DevicesSeen(nodes=NoAnswer(Absence.MISSING, "x"), holdings=holdings)}
    if holdings == ():
        seen = {"prod": DevicesSeen(nodes=(), holdings=())}
    inventory = take_inventory(
        settings, build_catalogs(settings, declaration), (), seen, 0.0, find_left(settings, declaration, ())
    )
    pool = inventory.find("prod", "L4")
    assert pool is not None
    assert (pool.taken, pool.devices) == (taken, 64 - taken), "3 replicas of 2 devices, and at least 5 of 2"


@pytest.mark.parametrize("annotations", ['{reconciler.io/managed: "false"}', '{reconciler.io/ignore: "true"}'])
def test_devices_of_what_must_stay_unmanaged_are_taken_too(declare: Declare, annotations: str) -> None:
    pools = (PoolSettings(name="l4", device="L4", devices=64),)
    prometheus = PrometheusSettings(url="http://prometheus:9090")
    settings = Settings(clusters=(ClusterSettings(name="prod", pools=pools, prometheus=prometheus),))
    managed = deployment(VLLM.replace("llama", "other"), "other", '{reconciler.io/managed: "true"}')
    declaration = declare({"a.yaml": deployment(annotations=annotations), "b.yaml": managed})
    snapshot = read_snapshot(recorded(settings), declaration, "f")
    pool = snapshot.inventory.find("prod", "L4")
    assert pool is not None
    assert (snapshot.unmanaged, pool.taken) == ((), 6)


@pytest.mark.parametrize(("devices", "left"), [(64, 48), (24, 12), (12, 12), (8, 8)])
def test_a_claim_that_is_not_measured_never_takes_what_variants_run_on(
    declare: Declare, devices: int, left: int
) -> None:
    declaration = declare(
        {
            "a.yaml": deployment().replace("replicas: 3", "replicas: 8"),
            "b.yaml": deployment(name="b", annotations="{reconciler.io/model: m}").replace(": 3", ": 6"),
        }
    )
    pools = (PoolSettings(name="l4", device="L4", devices=devices),)
    settings = Settings(clusters=(ClusterSettings(name="prod", pools=pools),))
    unknown = NoAnswer(Absence.MISSING, "x")
    variants = declared_variants(settings, declaration)
    claimed = {each.workload.key for each in variants if each.workload is not None}
    inventory = take_inventory(
        settings,
        build_catalogs(settings, declaration),
        variants,
        {"prod": DevicesSeen(nodes=unknown, holdings=unknown)},
        0.0,
        find_left(settings, declaration, claimed),
    )
    pool = inventory.find("prod", "L4")
    assert pool is not None
    assert pool.devices == left, "16 are claimed, and the variant runs on 12"


# ---- a change that has a workload managed


@pytest.mark.parametrize(("scaler", "replicas"), [("", 3), (SCALED.replace("NAME", "llama"), 5)])
def test_what_a_change_has_managed_runs_already(declare: Declare, scaler: str, replicas: int) -> None:
    files = {"a.yaml": deployment(), "b.yaml": scaler} if scaler else {"a.yaml": deployment()}
    managed = with_entries(entry({"namespace": "llm"}, whenAutoscaled="bounds"))

    base = read_snapshot(recorded(SETTINGS), declare(files), "f")
    assert [each.key.name for each in base.unmanaged] == ["llama"]
    change = ChangeOf(base=base, variants=declared_variants(managed, declare(files)))
    head = read_snapshot(recorded(managed), declare(files), "f", change)
    assert [each.current.replicas for each in head.variants] == [replicas], "it costs nothing more"
