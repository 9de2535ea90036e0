"""Whole GitOps repositories in the ways that teams build them, each with several numbers to change at once."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldRepository:
    """Files by path; `said` is what a configuration says (see `sample_clusters`); `edits` is how many must succeed.

    `charts` are what a chart repository holds, `needs_helm` that Helm makes the targets.
    """

    files: Mapping[str, str]
    edits: int
    said: Mapping[str, Any] = field(default_factory=dict)
    charts: Mapping[str, str] = field(default_factory=dict)
    needs_helm: bool = False


NAMES = ("llama", "qwen", "mistral", "phi", "gemma", "mixtral")
SELF = "https://github.com/acme/fleet"


def workload(name: str, replicas: int = 1, kind: str = "Deployment", namespace: str = "") -> str:
    """A workload as it is often written, with what must stay as it is around its number."""
    where = f", namespace: {namespace}" if namespace else ""
    extra = f"\n  serviceName: {name}" if kind == "StatefulSet" else ""
    return f"""\
apiVersion: apps/v1
kind: {kind}
metadata: {{name: {name}{where}, labels: {{app.kubernetes.io/name: "{name}"}}}}
spec:{extra}
  replicas: {replicas}   # since June
  selector: {{matchLabels: {{app: {name}}}}}
  template:
    metadata: {{labels: {{app: {name}}}}}
    spec:
      containers:
        - name: vllm
          image: "vllm/vllm-openai:v0.11.0"
          args: [--model=acme/{name}]
          resources: {{limits: {{nvidia.com/gpu: "1"}}}}
"""


def groups(name: str, replicas: int = 2) -> str:
    """A LeaderWorkerSet."""
    return f"""\
apiVersion: leaderworkerset.x-k8s.io/v1
kind: LeaderWorkerSet
metadata: {{name: {name}}}
spec:
  replicas: {replicas}
  leaderWorkerTemplate:
    size: 2
    workerTemplate:
      spec:
        containers: [{{name: vllm, image: vllm, resources: {{limits: {{nvidia.com/gpu: "8"}}}}}}]
"""


def flux(name: str, path: str, more: str = "", namespace: str = "flux-system") -> str:
    """A Flux Kustomization of this repository."""
    where = f", namespace: {namespace}" if namespace else ""
    return f"""\
apiVersion: kustomize.toolkit.fluxcd.io/v1
kind: Kustomization
metadata: {{name: {name}{where}}}
spec:
  interval: 10m
  path: ./{path}
  prune: true
  sourceRef: {{kind: GitRepository, name: flux-system}}
{more}"""


def application(name: str, path: str, namespace: str = "llm", more: str = "") -> str:
    """An Argo CD Application of this repository; `more` stands in its source."""
    return f"""\
apiVersion: argoproj.io/v1alpha1
kind: Application
metadata: {{name: {name}, namespace: argocd}}
spec:
  project: default
  source:
    repoURL: {SELF}
    targetRevision: HEAD
    path: {path}
{more}  destination: {{server: "https://kubernetes.default.svc", namespace: {namespace}}}
"""


def listed(*names: str, more: str = "") -> str:
    """A kustomization of files or directories."""
    return f"apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nresources: [{', '.join(names)}]\n{more}"


def patch(name: str, replicas: int, kind: str = "Deployment") -> str:
    """A strategic merge patch of a count."""
    return f"apiVersion: apps/v1\nkind: {kind}\nmetadata: {{name: {name}}}\nspec:\n  replicas: {replicas}\n"


def _home_lab() -> dict[str, str]:
    """A Flux home lab: one `ks.yaml` an app, its namespace from the kustomization around it."""
    files = {"kubernetes/flux/cluster.yaml": flux("cluster-apps", "kubernetes/apps")}
    for namespace, names in (("llm", NAMES[:3]), ("search", NAMES[3:5])):
        folder = f"kubernetes/apps/{namespace}"
        files[f"{folder}/kustomization.yaml"] = listed(
            "namespace.yaml", *(f"{name}/ks.yaml" for name in names), more=f"namespace: {namespace}\n"
        )
        files[f"{folder}/namespace.yaml"] = "apiVersion: v1\nkind: Namespace\nmetadata: {name: _}\n"
        for name in names:
            files[f"{folder}/{name}/ks.yaml"] = flux(
                name, f"{folder}/{name}/app", f"  targetNamespace: {namespace}\n", namespace=""
            )
            files[f"{folder}/{name}/app/kustomization.yaml"] = listed(f"./{name}.yaml")
            files[f"{folder}/{name}/app/{name}.yaml"] = workload(name)
    files["kubernetes/apps/kustomization.yaml"] = listed("./llm", "./search")
    return files


def _flux_fleet() -> dict[str, str]:
    """Flux clusters that each deploy their overlay of the same bases, patched by files."""
    files: dict[str, str] = {}
    for name in NAMES[:2]:
        files[f"apps/base/{name}/kustomization.yaml"] = listed("release.yaml", more="namespace: llm\n")
        files[f"apps/base/{name}/release.yaml"] = workload(name)
    for cluster, replicas in (("production", 4), ("staging", 2)):
        files[f"clusters/{cluster}/apps.yaml"] = flux("apps", f"apps/{cluster}")
        files[f"apps/{cluster}/kustomization.yaml"] = listed(
            "../base/llama", "../base/qwen", more="patches: [{path: llama.yaml}, {path: qwen.yaml}]\n"
        )
        for name in NAMES[:2]:
            files[f"apps/{cluster}/{name}.yaml"] = patch(name, replicas)
    return files


def _overlays() -> dict[str, str]:
    """Bases and overlays; one overlay counts all, one only some, one base has a single user."""
    files = {f"base/{name}.yaml": workload(name) for name in NAMES[:3]}
    files["base/kustomization.yaml"] = listed(*(f"{name}.yaml" for name in NAMES[:3]))
    files["extra/kustomization.yaml"] = listed("phi.yaml")
    files["extra/phi.yaml"] = workload("phi", 2)
    counts = "namespace: llm\nreplicas:\n  - {name: llama, count: 3}\n  - name: qwen\n    count: 2 # night\n"
    files["overlays/prod/kustomization.yaml"] = listed(
        "../../base", "../../extra", more=f"{counts}  - {{name: mistral, count: 5}}\n"
    )
    files["overlays/staging/kustomization.yaml"] = listed(
        "../../base", more="namespace: llm\nreplicas:\n- name: llama\n  count: 1\n"
    )
    return files


def _patches() -> dict[str, str]:
    """Every way to patch a count, in one overlay."""
    files = {f"base/{name}.yaml": workload(name) for name in NAMES}
    files["base/kustomization.yaml"] = listed(*(f"{name}.yaml" for name in NAMES))
    files["prod/llama.yaml"] = patch("llama", 2)
    files["prod/operations.yaml"] = "- op: replace\n  path: /spec/replicas\n  value: 3\n"
    files["prod/operations.json"] = '[{"op": "add", "path": "/spec/replicas", "value": 4}]\n'
    files["prod/kustomization.yaml"] = listed(
        "../base",
        more="""\
namespace: llm
patchesStrategicMerge:
  - llama.yaml
  - |-
    apiVersion: apps/v1
    kind: Deployment
    metadata: {name: qwen}
    spec: {replicas: 2}
patches:
  - path: operations.yaml
    target: {kind: Deployment, name: mistral}
  - target: {group: apps, version: v1, kind: Deployment, name: phi}
    patch: |
      - op: test
        path: /spec/replicas
        value: 1
      - op: replace
        path: /spec/replicas
        value: 7
  - patch: |
      kind: Deployment
      apiVersion: apps/v1
      metadata: {name: gemma}
      spec:
        replicas: 6 # six
patchesJson6902:
  - target: {group: apps, version: v1, kind: Deployment, name: mixtral}
    path: operations.json
""",
    )
    return files


def _components() -> dict[str, str]:
    """Components that scale, that patch, and that only bring a base along."""
    component = "apiVersion: kustomize.config.k8s.io/v1alpha1\nkind: Component\n"
    return {
        "base/kustomization.yaml": listed("llama.yaml", "qwen.yaml"),
        "base/llama.yaml": workload("llama"),
        "base/qwen.yaml": workload("qwen"),
        "components/scale/kustomization.yaml": f"{component}replicas: [{{name: llama, count: 4}}]\n",
        "components/large/kustomization.yaml": f"{component}patches: [{{path: qwen.yaml}}]\n",
        "components/large/qwen.yaml": patch("qwen", 3),
        "components/extra/kustomization.yaml": f"{component}resources: [../../extra]\n",
        "extra/kustomization.yaml": listed("phi.yaml"),
        "extra/phi.yaml": workload("phi"),
        "prod/kustomization.yaml": listed(
            "../base",
            more="namespace: llm\ncomponents: [../components/scale, ../components/large, ../components/extra]\n",
        ),
        "staging/kustomization.yaml": listed(
            "../base", more="namespace: staging\ncomponents:\n  - ../components/extra\n"
        ),
    }


def _lists() -> dict[str, str]:
    """Objects in lists, in documents of one file, behind comments, and of three kinds."""
    items = "".join(f"- {workload(name).replace(chr(10), chr(10) + '  ').rstrip()}\n" for name in NAMES[:2])
    return {
        "prod/kustomization.yaml": listed("list.yaml", "many.yaml", "groups.yaml", more="namespace: llm\n"),
        "prod/list.yaml": f"apiVersion: v1\nkind: List\nitems:\n{items}",
        "prod/many.yaml": f"# All of them.\n---\n{workload('phi', 2)}---\n{workload('gemma', 3, 'StatefulSet')}",
        "prod/groups.yaml": groups("mixtral"),
    }


def _prefixed() -> dict[str, str]:
    """Three kustomizations in each other, each of which renames."""
    return {
        "base/kustomization.yaml": listed("llama.yaml", "qwen.yaml", more="namePrefix: vllm-\n"),
        "base/llama.yaml": workload("llama"),
        "base/qwen.yaml": workload("qwen", 1, "StatefulSet"),
        "team/kustomization.yaml": listed("../base", more="nameSuffix: -v2\ncommonLabels: {team: chat}\n"),
        "prod/kustomization.yaml": listed(
            "../team",
            more="namespace: llm\nnamePrefix: prod-\nreplicas: [{name: qwen, count: 2}]\n"
            "images: [{name: vllm/vllm-openai, newTag: v0.12.0}]\n",
        ),
    }


def _generated() -> dict[str, str]:
    """Generators, merges, replacements and annotations around a workload."""
    return {
        "base/kustomization.yaml": listed(
            "llama.yaml", "qwen.yaml", more="configMapGenerator: [{name: settings, literals: [A=1, TAG=v1]}]\n"
        ),
        "base/llama.yaml": workload("llama"),
        "base/qwen.yaml": workload("qwen"),
        "prod/kustomization.yaml": listed(
            "../base",
            more="""\
namespace: llm
configMapGenerator:
  - {name: settings, behavior: merge, literals: [A=2]}
secretGenerator:
  - {name: token, literals: [token=x]}
patches:
  - target: {kind: Deployment}
    patch: |
      - op: add
        path: /metadata/annotations/team
        value: chat
replacements:
  - source: {kind: ConfigMap, name: settings, fieldPath: data.TAG}
    targets:
      - select: {kind: Deployment, name: llama}
        fieldPaths: [spec.template.metadata.labels.tag]
        options: {create: true}
replicas:
  - {name: qwen, count: 2}
""",
        ),
    }


def _two_clusters() -> dict[str, str]:
    """One base for two clusters and for a trial that no cluster's paths hold: each gets counts of its own."""
    files = {f"base/{name}.yaml": workload(name) for name in NAMES[:3]}
    files["base/kustomization.yaml"] = listed(*(f"{name}.yaml" for name in NAMES[:3]))
    for cluster in ("east", "west", "trial"):
        files[f"{cluster}/kustomization.yaml"] = listed("../base", more="namespace: llm\n")
    files["west/kustomization.yaml"] += "replicas: [{name: llama, count: 2}]\n"
    return files


def _applications() -> dict[str, str]:
    """An Argo CD app of apps: directories of plain files, one of them read in depth."""
    deep = "    directory: {recurse: true}\n"
    return {
        "argocd/root.yaml": application("root", "argocd/apps", "argocd"),
        "argocd/apps/llama.yaml": application("llama", "workloads/llama"),
        "argocd/apps/qwen.yaml": application("qwen", "workloads/qwen"),
        "argocd/apps/more.yaml": application("more", "workloads/more", "search", deep),
        "workloads/llama/llama.yaml": workload("llama", 2),
        "workloads/qwen/qwen.yaml": workload("qwen", 3, namespace="other"),
        "workloads/more/a/phi.yaml": workload("phi"),
        "workloads/more/b/gemma.yaml": workload("gemma", 1, "StatefulSet"),
    }


def _argo_kustomize() -> dict[str, str]:
    """Counts that an Application says itself, by its section, a patch, or a file of its own."""
    section = "    kustomize:\n      namePrefix: prod-\n      replicas:\n        - {name: llama, count: 3}\n"
    patched = "    kustomize:\n      patches:\n        - target: {kind: Deployment, name: qwen}\n          patch: |-\n"
    patched += "            - op: replace\n              path: /spec/replicas\n              value: 2\n"
    return {
        "argocd/llama.yaml": application("llama", "apps/llama", more=section),
        "argocd/qwen.yaml": application("qwen", "apps/qwen", more=patched),
        "argocd/phi.yaml": application("phi", "apps/phi"),
        "apps/llama/kustomization.yaml": listed("llama.yaml"),
        "apps/llama/llama.yaml": workload("llama"),
        "apps/qwen/kustomization.yaml": listed("qwen.yaml"),
        "apps/qwen/qwen.yaml": workload("qwen"),
        "apps/phi/kustomization.yaml": listed("phi.yaml"),
        "apps/phi/phi.yaml": workload("phi"),
        "apps/phi/.argocd-source-phi.yaml": "kustomize:\n  replicas:\n    - {name: phi, count: 4}\n",
    }


def application_set(generators: str, path: str, namespace: str, name: str = "apps") -> str:
    """An ApplicationSet over this repository."""
    return f"""\
apiVersion: argoproj.io/v1alpha1
kind: ApplicationSet
metadata: {{name: {name}, namespace: argocd}}
spec:
  generators:
{generators}
  template:
    metadata: {{name: "{name}-{{{{path.basename}}}}"}}
    spec:
      project: default
      source: {{repoURL: {SELF}, targetRevision: HEAD, path: {path}}}
      destination: {{server: "https://kubernetes.default.svc", namespace: {namespace}}}
"""


def _set_of_directories() -> dict[str, str]:
    """An ApplicationSet that makes an Application of each directory."""
    generator = f"    - git:\n        repoURL: {SELF}\n        directories: [{{path: apps/*}}]"
    files = {"argocd/set.yaml": application_set(generator, '"{{path}}"', '"{{path.basename}}"')}
    for number, name in enumerate(NAMES[:5], start=1):
        files[f"apps/{name}/kustomization.yaml"] = listed(f"{name}.yaml")
        files[f"apps/{name}/{name}.yaml"] = workload(name, number)
    return files


def _set_of_elements() -> dict[str, str]:
    """An ApplicationSet that lists what it deploys, and where to."""
    elements = "".join(
        f"          - {{path: teams/{name}, path.basename: {name}, namespace: team-{name}}}\n" for name in NAMES[:3]
    )
    generator = f"    - list:\n        elements:\n{elements}".rstrip()
    files = {"argocd/set.yaml": application_set(generator, '"{{path}}"', '"{{namespace}}"')}
    for name in NAMES[:3]:
        files[f"teams/{name}/{name}.yaml"] = workload(name)
    return files


def _set_of_clusters() -> dict[str, str]:
    """An ApplicationSet for every cluster that Argo CD knows: each gets the overlay of its name."""
    generator = "    - clusters: {}"
    files = {"argocd/set.yaml": application_set(generator, '"clusters/{{name}}"', "llm")}
    files |= {f"base/{name}.yaml": workload(name) for name in NAMES[:2]}
    files["base/kustomization.yaml"] = listed("llama.yaml", "qwen.yaml")
    for cluster in ("east", "west"):
        files[f"clusters/{cluster}/kustomization.yaml"] = listed("../../base", more="namespace: llm\n")
    return files


def _substituted() -> dict[str, str]:
    """Names and images that Flux fills in, components that a Kustomization adds, and a patch of its own."""
    component = "apiVersion: kustomize.config.k8s.io/v1alpha1\nkind: Component\nreplicas: [{name: llama, count: 2}]\n"
    patched = "  patches:\n    - target: {kind: Deployment, name: phi}\n      patch: |\n"
    patched += "        - op: replace\n          path: /spec/replicas\n          value: 3\n"
    filled = "  postBuild: {substitute: {APP: qwen, TAG: v2}}\n"
    named = workload("qwen", 2).replace("name: qwen,", 'name: "${APP}",').replace("v0.11.0", "${TAG:=v1}")
    return {
        "cluster/llama.yaml": flux("llama", "apps/llama", "  targetNamespace: llm\n  components: [../../scale]\n"),
        "cluster/qwen.yaml": flux("qwen", "apps/qwen", f"  targetNamespace: llm\n{filled}"),
        "cluster/phi.yaml": flux("phi", "apps/phi", f"  targetNamespace: llm\n{patched}"),
        "cluster/gemma.yaml": flux("gemma", "apps/gemma", "  targetNamespace: llm\n"),
        "scale/kustomization.yaml": component,
        "apps/llama/kustomization.yaml": listed("llama.yaml"),
        "apps/llama/llama.yaml": workload("llama"),
        "apps/qwen/kustomization.yaml": listed("qwen.yaml"),
        "apps/qwen/qwen.yaml": named,
        "apps/phi/phi.yaml": workload("phi"),
        "apps/gemma/gemma.yaml": workload("gemma"),
    }


def _plain() -> dict[str, str]:
    """Files that somebody applies as they stand: Windows line ends, a mark at the start, quotes, odd indentation."""
    return {
        "prod/llama.yaml": workload("llama", namespace="llm").replace("\n", "\r\n"),
        "prod/qwen.yaml": "\ufeff" + workload("qwen", 2, namespace="llm"),
        "prod/phi.yaml": workload("phi", 3, namespace="llm").replace("  replicas: 3", '  "replicas" :   3'),
        "prod/all.yaml": "---\n# empty\n---\n".join(workload(name, 4, namespace="llm") for name in NAMES[2:5:2]),
        "prod/groups.yaml": groups("mixtral").replace("{name: mixtral}", "{name: mixtral, namespace: llm}"),
    }


def _bounds() -> dict[str, str]:
    """Autoscalers whose bounds are proposed in place of a count: plain, and patched by an overlay."""
    hpa = """\
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: NAME}
spec:
  minReplicas: 1
  maxReplicas: 8
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: NAME}
"""
    keda = """\
apiVersion: keda.sh/v1alpha1
kind: ScaledObject
metadata: {name: phi}
spec:
  minReplicaCount: 1
  maxReplicaCount: 1
  scaleTargetRef: {name: phi}
  triggers: []
"""
    return {
        "base/kustomization.yaml": listed("llama.yaml", "qwen.yaml", "phi.yaml"),
        "base/llama.yaml": workload("llama") + "---\n" + hpa.replace("NAME", "llama"),
        "base/qwen.yaml": workload("qwen") + "---\n" + hpa.replace("NAME", "qwen"),
        "base/phi.yaml": workload("phi") + "---\n" + keda,
        "prod/kustomization.yaml": listed(
            "../base",
            more="""\
namespace: llm
patches:
  - patch: |
      apiVersion: autoscaling/v2
      kind: HorizontalPodAutoscaler
      metadata: {name: qwen}
      spec:
        minReplicas: 2
""",
        ),
    }


CHART = """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: {{ .Release.Name }}-decode}
spec:
  replicas: {{ .Values.decode.replicas }}
  template:
    spec:
      containers: [{name: vllm, image: "vllm:{{ .Values.image.tag }}"}]
"""


def chart(folder: str, replicas: int = 1) -> dict[str, str]:
    """A chart of a model server."""
    return {
        f"{folder}/Chart.yaml": "apiVersion: v2\nname: vllm\nversion: 0.1.0\n",
        f"{folder}/values.yaml": f"image: {{tag: v1}}\ndecode:\n  replicas: {replicas}  # default\n  gpu: 1\n",
        f"{folder}/templates/decode.yaml": CHART,
    }


def release(name: str, chart_name: str, values: str, source: str = "{kind: HelmRepository, name: charts}") -> str:
    """A HelmRelease of Flux."""
    return f"""\
apiVersion: helm.toolkit.fluxcd.io/v2
kind: HelmRelease
metadata: {{name: {name}, namespace: llm}}
spec:
  interval: 1h
  chart: {{spec: {{chart: {chart_name}, sourceRef: {source}}}}}
{values}"""


def _releases() -> dict[str, str]:
    """HelmReleases with values of their own, from a ConfigMap, from both, and from the chart beside them."""
    git = "{kind: GitRepository, name: flux-system, namespace: flux-system}"
    values = "  values:\n    decode:\n      replicas: 2    # busy\n"
    return {
        **chart("charts/own", 3),
        "prod/kustomization.yaml": listed("config.yaml", *(f"{name}.yaml" for name in NAMES[:4])),
        "prod/llama.yaml": release("llama", "vllm", values),
        "prod/qwen.yaml": release("qwen", "vllm", "  valuesFrom: [{kind: ConfigMap, name: values}]\n"),
        "prod/mistral.yaml": release(
            "mistral", "vllm", f"  valuesFrom: [{{kind: ConfigMap, name: common}}]\n{values.replace('2', '4')}"
        ),
        "prod/phi.yaml": release("phi", "./charts/own", "", git),
        "prod/config.yaml": """\
apiVersion: v1
kind: ConfigMap
metadata: {name: values, namespace: llm}
data:
  values.yaml: |
    image: {tag: v2}
    decode:
      replicas: 5
---
apiVersion: v1
kind: ConfigMap
metadata: {name: common, namespace: llm}
data:
  values.yaml: |
    decode: {replicas: 1}
""",
    }


def _argo_charts() -> dict[str, str]:
    """Applications of charts: values as an object, as a text, as parameters, in files, and nothing at all."""
    files = {**chart("charts/shared"), **chart("charts/gemma", 2), **chart("charts/mixtral", 3)}
    said = {
        "llama": "      valuesObject: {image: {tag: v2}, decode: {replicas: 2}}\n",
        "qwen": "      values: |\n        decode:\n          replicas: 3\n",
        "mistral": "      parameters: [{name: image.tag, value: v3}, {name: decode.replicas, value: '4'}]\n",
        "phi": "      valueFiles: [common.yaml, phi.yaml]\n",
        "gemma": "      valueFiles: [values.yaml]\n",
    }
    for name, words in said.items():
        folder = "charts/gemma" if name == "gemma" else "charts/shared"
        files[f"argocd/{name}.yaml"] = application(name, folder, more=f"    helm:\n{words}")
    files["argocd/mixtral.yaml"] = application("mixtral", "charts/mixtral")
    files["charts/shared/common.yaml"] = "decode: {replicas: 5, gpu: 1}\n"
    files["charts/shared/phi.yaml"] = "decode:\n  replicas: 6 # last\n"
    return files


def _decodes(*names: str) -> dict[str, Any]:
    targets = [f"prod/llm/Deployment/{name}-decode" for name in names]
    return {"helmValues": {"replicas": "decode.replicas"}, "asked": targets}


def _of(*clusters: str, folder: str = "") -> dict[str, Any]:
    return {"clusters": {name: [f"{folder}{name}/**"] for name in clusters}}


REPOSITORIES: Mapping[str, FieldRepository] = {
    "flux home lab": FieldRepository(files=_home_lab(), edits=5),
    "flux fleet": FieldRepository(files=_flux_fleet(), edits=4, said=_of("production", "staging", folder="clusters/")),
    "bases and overlays": FieldRepository(files=_overlays(), edits=7, said=_of("prod", "staging", folder="overlays/")),
    "patches": FieldRepository(files=_patches(), edits=6, said=_of("prod")),
    "components": FieldRepository(files=_components(), edits=6, said=_of("prod", "staging")),
    "lists": FieldRepository(files=_lists(), edits=5),
    "prefixes": FieldRepository(files=_prefixed(), edits=2, said=_of("prod")),
    "generators": FieldRepository(files=_generated(), edits=2, said=_of("prod")),
    "two clusters and a trial": FieldRepository(files=_two_clusters(), edits=6, said=_of("east", "west")),
    "app of apps": FieldRepository(files=_applications(), edits=4),
    "applications that count": FieldRepository(files=_argo_kustomize(), edits=3),
    "set of directories": FieldRepository(files=_set_of_directories(), edits=5),
    "set of elements": FieldRepository(files=_set_of_elements(), edits=3),
    "set of clusters": FieldRepository(files=_set_of_clusters(), edits=4, said=_of("east", "west", folder="clusters/")),
    "substitutions": FieldRepository(files=_substituted(), edits=4),
    "plain files": FieldRepository(files=_plain(), edits=6),
    "bounds": FieldRepository(files=_bounds(), edits=3, said={**_of("prod"), "whenAutoscaled": "bounds"}),
    "releases": FieldRepository(
        files=_releases(), edits=4, said=_decodes(*NAMES[:4]), charts=chart(".charts/vllm"), needs_helm=True
    ),
    "applications of charts": FieldRepository(files=_argo_charts(), edits=6, said=_decodes(*NAMES), needs_helm=True),
}
