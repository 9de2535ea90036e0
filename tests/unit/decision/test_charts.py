"""Values of known charts: which workloads they make, where the numbers stand, and that an edit changes just those."""

from collections.abc import Mapping

import pytest

from reconciler.domain.identity import ResourceKey
from reconciler.domain.recording import ManifestFile
from reconciler.domain.settings import ClusterSettings, Settings
from reconciler.domain.workloads import Workload
from reconciler.domain.written import DocumentRef
from reconciler.manifests.documents import parse_documents
from reconciler.pipeline.edits import Sheet, set_field, sheet_of, write_edits
from reconciler.resources.charts import FILES, charts, find_chart
from reconciler.resources.declaration import Declaration
from reconciler.snapshot.adoption import find_left, find_unmanaged
from reconciler.snapshot.declarations import read_declaration
from reconciler.snapshot.variants import declared_variants

SETTINGS = Settings(clusters=(ClusterSettings(name="prod"),))
REMOTE = "https://github.com/acme/fleet"
STACK = """servingEngineSpec:
  modelSpec:
    - name: llama
      repository: vllm/vllm-openai
      tag: v0.10
      modelURL: meta-llama/Llama-3.1-8B-Instruct
      replicaCount: 2     # two of them
      annotations: {reconciler.io/managed: "true"}
      requestGPU: 2
      vllmConfig: {tensorParallelSize: 2, maxNumSeqs: 64, extraArgs: [--served-model-name, llama-8b]}
      nodeSelectorTerms:
        - matchExpressions: [{key: nvidia.com/gpu.product, operator: In, values: [NVIDIA-L4]}]
    - {name: qwen, repository: vllm/vllm-openai, tag: v0.10, modelURL: Qwen/Qwen3-8B, replicaCount: 1, requestGPU: 1}
"""
APPLICATION = """apiVersion: argoproj.io/v1alpha1
kind: Application
metadata: {name: stack, namespace: argocd}
spec:
  destination: {server: "https://kubernetes.default.svc", namespace: llm}
  sources:
    - repoURL: https://vllm-project.github.io/production-stack
      chart: vllm-stack
      helm:
        releaseName: vllm
        valueFiles: [$values/values/stack.yaml]
    - {repoURL: "https://github.com/acme/fleet", ref: values}
"""
RELEASE = """apiVersion: helm.toolkit.fluxcd.io/v2
kind: HelmRelease
metadata: {name: vllm, namespace: llm}
spec:
  chart: {spec: {chart: vllm-stack, sourceRef: {kind: HelmRepository, name: vllm}}}
  values:
"""
LLAMA, QWEN = "vllm-llama-deployment-vllm", "vllm-qwen-deployment-vllm"


def indented(text: str, by: int = 4) -> str:
    return "".join(f"{' ' * by}{line}\n" for line in text.splitlines())


BY_ARGO = {"apps/stack.yaml": APPLICATION, "values/stack.yaml": STACK}
BY_FLUX = {"apps/stack.yaml": RELEASE + indented(STACK)}
IN_TEXT = {
    "apps/stack.yaml": APPLICATION.replace("        valueFiles: [$values/values/stack.yaml]\n", "        values: |\n")
    .replace('    - {repoURL: "https://github.com/acme/fleet", ref: values}\n', "")
    .rstrip("\n")
    + "\n"
    + indented(STACK, 10)
}
FROM_CONFIG_MAP = {
    "apps/stack.yaml": RELEASE.replace("  values:\n", "  valuesFrom: [{kind: ConfigMap, name: values}]\n"),
    "apps/values.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: values, namespace: llm}\ndata:\n"
    "  values.yaml: |\n" + indented(STACK),
}
LAYOUTS = {"argo": BY_ARGO, "argo, in a text": IN_TEXT, "flux": BY_FLUX, "flux, in a ConfigMap": FROM_CONFIG_MAP}


def declared(files: Mapping[str, str]) -> Declaration:
    manifests = [ManifestFile(path=path, body=text.encode()) for path, text in files.items()]
    return read_declaration(manifests, (), SETTINGS, files, REMOTE)


def made(files: Mapping[str, str]) -> dict[str, Workload]:
    return {each.key.name: each for each in declared(files).workloads}


def edited(files: Mapping[str, str], workload: Workload, replicas: int) -> dict[str, str]:
    """The files after the edits of another number."""

    def open_sheet(reference: DocumentRef) -> Sheet:
        return sheet_of(parse_documents(reference.path, files[reference.path].encode()), reference)

    after = dict(files)
    for written in workload.written_at:
        path, edit = written.document.path, set_field(written, replicas, open_sheet)
        after[path] = write_edits(path, after[path].encode(), [edit]).decode()
    return after


@pytest.mark.parametrize("files", LAYOUTS.values(), ids=LAYOUTS)
def test_each_model_of_the_production_stack_is_a_deployment(files: Mapping[str, str]) -> None:
    found = made(files)
    assert set(found) == {LLAMA, QWEN}
    llama = found[LLAMA]
    assert llama.key == ResourceKey(cluster="prod", namespace="llm", kind="Deployment", name=LLAMA)
    assert (llama.replicas, llama.devices, llama.engine) == (2, {"nvidia.com/gpu": 2}, "vllm")
    assert (llama.model_id, llama.served_names) == ("meta-llama/Llama-3.1-8B-Instruct", ("llama-8b",))
    assert llama.affinity == {"nvidia.com/gpu.product": ("NVIDIA-L4",)}
    assert llama.launch is not None
    assert (llama.launch.tensor_parallel, llama.launch.max_num_seqs) == (2, 64)
    assert (llama.unsized, llama.unwritable, found[QWEN].served_names) == ("", None, ("Qwen/Qwen3-8B",))
    assert llama.template_labels == {"model": "llama", "helm-release-name": "vllm"}


@pytest.mark.parametrize("files", LAYOUTS.values(), ids=LAYOUTS)
def test_an_edit_changes_the_number_of_one_model_and_nothing_else(files: Mapping[str, str]) -> None:
    after = edited(files, made(files)[LLAMA], 7)
    assert {name: each.replicas for name, each in made(after).items()} == {LLAMA: 7, QWEN: 1}
    pairs = [
        (old, new) for path in files for old, new in zip(files[path].split("\n"), after[path].split("\n"), strict=True)
    ]
    ((old, new),) = [pair for pair in pairs if pair[0] != pair[1]]
    assert (old.strip(), new.strip()) == ("replicaCount: 2     # two of them", "replicaCount: 7     # two of them")


def test_a_model_that_is_annotated_in_its_values_is_a_variant() -> None:
    declaration = declared(BY_ARGO)
    (variant,) = declared_variants(SETTINGS, declaration)
    assert (variant.key.name, variant.model.model_id, variant.holds) == (LLAMA, "meta-llama/Llama-3.1-8B-Instruct", ())
    left = find_left(SETTINGS, declaration, {variant.key})
    assert [each.key.name for each in find_unmanaged(SETTINGS, left)] == [QWEN]


def test_a_model_that_is_switched_off_is_not_made() -> None:
    off = STACK.replace("    - name: llama\n", "    - name: llama\n      enabled: false\n")
    assert set(made(BY_ARGO | {"values/stack.yaml": off})) == {QWEN}
    whole = STACK.replace("servingEngineSpec:\n", "servingEngineSpec:\n  enableEngine: false\n")
    assert made(BY_ARGO | {"values/stack.yaml": whole}) == {}


def test_a_list_replaces_the_one_below_it() -> None:
    inline = APPLICATION.replace(
        "        releaseName: vllm\n",
        "        releaseName: vllm\n        valuesObject: {servingEngineSpec: {modelSpec: [{name: qwen}]}}\n",
    )
    found = made(BY_ARGO | {"apps/stack.yaml": inline})
    assert set(found) == {QWEN}
    hold = found[QWEN].unwritable
    assert hold is not None
    # replicaCount of the file is that of another model, and does not reach the chart
    assert 'have no "servingEngineSpec.modelSpec[0].replicaCount": write the live count there' in hold.words


def test_a_parameter_goes_before_the_files() -> None:
    name = "servingEngineSpec.modelSpec[0].replicaCount"
    files = BY_ARGO | {
        "apps/stack.yaml": APPLICATION.replace(
            "        releaseName: vllm\n",
            f'        releaseName: vllm\n        parameters: [{{name: "{name}", value: "5"}}]\n',
        )
    }
    llama = made(files)[LLAMA]
    assert (llama.replicas, llama.written_at[0].document.path) == (5, "apps/stack.yaml")
    assert made(edited(files, llama, 6))[LLAMA].replicas == 6


def test_a_parameter_changes_no_other_release_of_the_same_file() -> None:
    name = "servingEngineSpec.modelSpec[0].vllmConfig.tensorParallelSize"
    other = APPLICATION.replace("name: stack", "name: other").replace(
        "        releaseName: vllm\n",
        f'        releaseName: other\n        parameters: [{{name: "{name}", value: "8"}}]\n',
    )
    found = made({"apps/0-other.yaml": other, **BY_ARGO})
    launches = [found[each].launch for each in (LLAMA, "other-llama-deployment-vllm")]
    assert [each.tensor_parallel for each in launches if each is not None] == [2, 8]


def test_keda_owns_the_number_with_bounds_in_the_values() -> None:
    keda = STACK.replace(
        "      requestGPU: 2\n",
        "      requestGPU: 2\n      keda: {enabled: true, minReplicaCount: 1, maxReplicaCount: 4}\n",
    )
    (owner,) = declared(BY_ARGO | {"values/stack.yaml": keda}).owners
    assert (owner.owner, owner.target_name, owner.least) == ("ScaledObject vllm-llama-scaledobject", LLAMA, 1)
    assert [(each.written, each.is_ceiling) for each in owner.fields] == [(1, False), (4, True)]
    unbound = keda.replace(", maxReplicaCount: 4", "")
    assert [each.fields for each in declared(BY_ARGO | {"values/stack.yaml": unbound}).owners] == [()]


@pytest.mark.parametrize("switch", ["raySpec: {enabled: true}", "lmcacheConfig: {enablePD: true}"])
def test_what_is_no_count_of_equal_replicas_is_not_sized(switch: str) -> None:
    text = STACK.replace("      requestGPU: 2\n", f"      requestGPU: 2\n      {switch}\n")
    assert made(BY_ARGO | {"values/stack.yaml": text})[LLAMA].unsized


def test_values_that_are_not_in_git_are_noted() -> None:
    release = RELEASE.replace("  values:\n", "  valuesFrom: [{kind: Secret, name: values}]\n  values: {}\n")
    declaration = declared({"apps/stack.yaml": release})
    assert declaration.workloads == ()
    assert [each.rule for each in declaration.notes] == ["chart-values"]


def test_a_marker_comment_goes_before_the_chart() -> None:
    marked = STACK.replace("# two of them", f"# reconciler.io/replicas: Deployment/{LLAMA}")
    assert made(BY_ARGO | {"values/stack.yaml": marked})[LLAMA].replicas == 2
    ignored = STACK.replace("# two of them", "# reconciler.io/ignore")
    hold = made(BY_ARGO | {"values/stack.yaml": ignored})[LLAMA].unwritable
    assert hold is not None
    assert hold.kind == "ignored"


MODEL_SERVICE = """apiVersion: helm.toolkit.fluxcd.io/v2
kind: HelmRelease
metadata: {name: ms-qwen, namespace: llm}
spec:
  chart: {spec: {chart: llm-d-modelservice, sourceRef: {kind: HelmRepository, name: llmd}}}
  values:
    modelArtifacts: {name: Qwen/Qwen3-32B}
    decode:
      replicas: 2
      parallelism: {tensor: 4}
      containers: [{name: vllm, image: ghcr.io/llm-d/llm-d-cuda:v0.9, args: [--max-num-seqs, "64"]}]
"""


def test_decode_of_llm_d_alone_is_a_variant_of_its_own() -> None:
    (workload,) = made({"a.yaml": MODEL_SERVICE}).values()
    assert workload.key.label == "llm/ms-qwen-llm-d-modelservice-decode"
    assert (workload.replicas, workload.devices, workload.unsized) == (2, {"nvidia.com/gpu": 4}, "")
    assert (workload.model_id, workload.served_names) == ("Qwen/Qwen3-32B", ("Qwen/Qwen3-32B",))
    assert workload.launch is not None
    assert (workload.launch.tensor_parallel, workload.launch.max_num_seqs) == (4, 64)
    after = made(edited({"a.yaml": MODEL_SERVICE}, workload, 3))
    assert [each.replicas for each in after.values()] == [3]


def test_prefill_of_llm_d_makes_both_halves() -> None:
    found = made({"a.yaml": MODEL_SERVICE + "    prefill: {replicas: 3, parallelism: {tensor: 2}}\n"})
    assert [each.rpartition("-")[2] for each in found] == ["decode", "prefill"]
    assert all("one half of a disaggregated model" in each.unsized for each in found.values())


def test_llm_d_over_several_nodes_is_a_leader_worker_set() -> None:
    text = MODEL_SERVICE.replace("parallelism: {tensor: 4}", "parallelism: {tensor: 1, data: 16, dataLocal: 8}")
    (workload,) = made({"a.yaml": text + "    multinode: true\n"}).values()
    assert (workload.key.kind, workload.devices) == ("LeaderWorkerSet", {"nvidia.com/gpu": 16})


def test_llm_d_on_one_node_is_a_deployment_of_one_pod() -> None:
    text = MODEL_SERVICE.replace("parallelism: {tensor: 4}", "parallelism: {tensor: 1, data: 16, dataLocal: 8}")
    (workload,) = made({"a.yaml": text}).values()
    assert (workload.key.kind, workload.devices) == ("Deployment", {"nvidia.com/gpu": 8})
    own = text.replace("image: ghcr.io", "resources: {limits: {nvidia.com/gpu: 4}}, image: ghcr.io")
    assert [each.devices for each in made({"a.yaml": own}).values()] == [{"nvidia.com/gpu": 4}]


def test_a_number_that_stands_only_in_the_chart_is_held_until_it_is_written() -> None:
    (workload,) = made({"a.yaml": MODEL_SERVICE.replace("      replicas: 2\n", "")}).values()
    assert workload.replicas == 1
    assert workload.unwritable is not None


def test_two_releases_of_one_name_are_contested() -> None:
    second = MODEL_SERVICE.replace("name: ms-qwen", "name: other").replace(
        "spec:\n  chart", "spec:\n  releaseName: ms-qwen\n  chart"
    )
    (workload,) = made({"a.yaml": MODEL_SERVICE, "b.yaml": second}).values()
    assert workload.unwritable is not None
    assert workload.unwritable.kind == "replicas-contested"


# ---- charts that a chart of one's own depends on

OWN = """apiVersion: v2
name: chat
version: 0.1.0
dependencies:
- {name: vllm-stack, version: 0.1.7, repository: "https://example.com", condition: chat.served}
"""
OF_OWN = """apiVersion: argoproj.io/v1alpha1
kind: Application
metadata: {name: vllm, namespace: argocd}
spec:
  destination: {server: "https://kubernetes.default.svc", namespace: llm}
  source:
    repoURL: https://github.com/acme/fleet
    path: charts/chat
    helm: {valueFiles: [prod.yaml]}
"""
PROD = "vllm-stack:\n" + indented(STACK, 2)
DEFAULTS = "chat: {served: true}\nvllm-stack: {servingEngineSpec: {modelSpec: []}}\n"
BY_OWN_CHART = {
    "apps/chat.yaml": OF_OWN,
    "charts/chat/Chart.yaml": OWN,
    "charts/chat/prod.yaml": PROD,
    "charts/chat/values.yaml": DEFAULTS,
}
OWN_BY_FLUX = {
    "apps/source.yaml": "apiVersion: source.toolkit.fluxcd.io/v1\nkind: GitRepository\n"
    "metadata: {name: fleet, namespace: llm}\nspec: {url: 'https://github.com/acme/fleet'}\n",
    "apps/vllm.yaml": RELEASE.replace(
        "chart: vllm-stack, sourceRef: {kind: HelmRepository, name: vllm}",
        "chart: ./charts/chat, sourceRef: {kind: GitRepository, name: fleet}",
    )
    + indented(PROD),
    "charts/chat/Chart.yaml": OWN,
    "charts/chat/values.yaml": DEFAULTS,
}


@pytest.mark.parametrize("files", [BY_OWN_CHART, OWN_BY_FLUX], ids=["argo", "flux"])
def test_models_of_a_chart_that_another_depends_on(files: Mapping[str, str]) -> None:
    found = made(files)
    assert {name: each.replicas for name, each in found.items()} == {LLAMA: 2, QWEN: 1}
    after = edited(files, found[LLAMA], 7)
    assert {name: each.replicas for name, each in made(after).items()} == {LLAMA: 7, QWEN: 1}
    (changed,) = [path for path in files if files[path] != after[path]]
    assert after[changed] == files[changed].replace("replicaCount: 2", "replicaCount: 7")


def test_a_dependency_may_have_another_name_and_be_there_twice() -> None:
    chart = """dependencies:
- {name: llm-d-modelservice, alias: small, version: 0.4.0, repository: "https://llm-d"}
- {name: llm-d-modelservice, alias: large, version: 0.4.0, repository: "https://llm-d"}
- {name: nginx, version: 1.0.0, repository: "https://charts.example.com"}
"""
    values = "decode: {replicas: 9}\nsmall: {decode: {replicas: 2}}\nlarge: {decode: {replicas: 3}}\n"
    files = {"charts/chat/Chart.yaml": chart, "charts/chat/prod.yaml": values, "apps/chat.yaml": OF_OWN}
    assert {name: each.replicas for name, each in made(files).items()} == {
        "vllm-small-decode": 2,
        "vllm-large-decode": 3,
    }


@pytest.mark.parametrize(
    ("chart", "switch"),
    [
        (OWN, "chat: {served: false}"),
        (OWN.replace("chat.served", "'other.served, chat.served'"), "other: {served: false}\nchat: {served: true}"),
        (OWN.replace("condition: chat.served", "tags: [gpu]"), "tags: {gpu: false}"),
    ],
)
def test_a_dependency_that_is_switched_off_makes_nothing(chart: str, switch: str) -> None:
    values = DEFAULTS.replace("chat: {served: true}", switch)
    assert made(BY_OWN_CHART | {"charts/chat/Chart.yaml": chart, "charts/chat/values.yaml": values}) == {}


def test_every_file_of_a_chart_is_valid_and_found_by_the_name_of_the_chart() -> None:
    assert len(charts()) == len(FILES)
    for name, chart in charts().items():
        assert find_chart(name, "", "") == chart
        for repository, path in chart.sources.items():
            assert find_chart("helm", f"https://github.com/{repository}.git", path) == chart
    assert find_chart("nginx", "https://charts.example.com", "") is None
