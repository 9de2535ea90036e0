"""How long `validate` takes for a repository of 4,500 files, as Flux fleets lay them out, and what memory it holds."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

from tests.bench.processes import Spent, run_python

APPS, APPS_PER_NAMESPACE, REPEATS = 745, 25, 3
Row = dict[str, str | int | float]

_FLUX = """\
apiVersion: kustomize.toolkit.fluxcd.io/v1
kind: Kustomization
metadata: {name: NAME}
spec:
  interval: 30m
  path: ./kubernetes/apps/NAMESPACE/NAME/app
  prune: true
  sourceRef: {kind: GitRepository, name: flux-system, namespace: flux-system}
  targetNamespace: NAMESPACE
  postBuild: {substitute: {APP: NAME}}
"""
_DEPLOYMENT = """\
apiVersion: apps/v1
kind: Deployment
metadata:
  name: NAME
  labels: {app.kubernetes.io/name: NAME}
spec:
  replicas: 2
  selector:
    matchLabels: {app.kubernetes.io/name: NAME}
  template:
    metadata:
      labels: {app.kubernetes.io/name: NAME}
    spec:
      nodeSelector: {nvidia.com/gpu.product: NVIDIA-H100-80GB-HBM3}
      containers:
        - name: vllm
          image: vllm/vllm-openai:v0.11.0
          args: [--model=acme/NAME, --served-model-name=NAME]
          ports: [{containerPort: 8000, name: http}]
          envFrom: [{configMapRef: {name: NAME}}]
          resources: {limits: {nvidia.com/gpu: "1"}}
          readinessProbe: {httpGet: {path: /health, port: http}, periodSeconds: 10}
"""
_RELEASE = """\
apiVersion: helm.toolkit.fluxcd.io/v2
kind: HelmRelease
metadata: {name: NAME}
spec:
  interval: 1h
  chartRef: {kind: OCIRepository, name: app-template}
  values:
    controllers:
      NAME:
        replicas: 2
        containers: {app: {image: {repository: "ghcr.io/acme/NAME", tag: 1.0.0}, env: {TZ: UTC}}}
    service: {app: {controller: NAME, ports: {http: {port: 80}}}}
"""
_SERVICE = """\
apiVersion: v1
kind: Service
metadata: {name: NAME}
spec: {selector: {app.kubernetes.io/name: NAME}, ports: [{name: http, port: 80, targetPort: http}]}
"""
_CONFIG = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: NAME}\ndata: {LOG_LEVEL: info, MODEL: NAME}\n"
_VARIANT = """\
apiVersion: llmd.ai/v1alpha1
kind: VariantAutoscaling
metadata: {name: NAME, labels: {inference.optimization/acceleratorName: H100}}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: NAME}
  modelID: acme/NAME
"""


def measure() -> list[Row]:
    """The processor's seconds and the peak of memory; medians of whole processes."""
    with tempfile.TemporaryDirectory() as directory:
        files = dict(_files())
        for path, text in files.items():
            (Path(directory) / path).parent.mkdir(parents=True, exist_ok=True)
            (Path(directory) / path).write_text(text)
        runs = [run_python("reconciler", "validate", directory) for _ in range(REPEATS)]
    spent = Spent.median_of(runs)
    return [
        {
            "name": "validate, a Flux fleet",
            "number": len(files),
            "duration_s": spent.processor_s,
            "peak_mib": spent.peak_mib,
        }
    ]


def _files() -> Iterator[tuple[str, str]]:
    folder = "kubernetes/apps"
    yield "kubernetes/flux/apps.yaml", _named(_FLUX, "apps", "apps").replace("/apps/apps/apps/app", "/apps")
    namespaces: dict[str, list[str]] = {}
    for number in range(APPS):
        name, namespace = f"app-{number:03d}", f"team-{number // APPS_PER_NAMESPACE:02d}"
        namespaces.setdefault(namespace, []).append(name)
        own = f"{folder}/{namespace}/{name}"
        files = {"service": _SERVICE, "config": _CONFIG}
        files |= {"release": _RELEASE} if number % 3 else {"deployment": _DEPLOYMENT, "variant": _VARIANT}
        yield f"{own}/ks.yaml", _named(_FLUX, name, namespace)
        yield f"{own}/app/kustomization.yaml", f"resources: [{', '.join(f'{each}.yaml' for each in files)}]\n"
        for each, text in files.items():
            yield f"{own}/app/{each}.yaml", _named(text, name, namespace)
        if number % 3:
            yield f"{own}/app/values.yaml", f"replicas: {number % 7}\n"
    for namespace, names in namespaces.items():
        listed = ", ".join(f"{name}/ks.yaml" for name in names)
        yield f"{folder}/{namespace}/kustomization.yaml", f"namespace: {namespace}\nresources: [{listed}]\n"
    yield f"{folder}/kustomization.yaml", f"resources: [{', '.join(namespaces)}]\n"


def _named(text: str, name: str, namespace: str) -> str:
    return text.replace("NAMESPACE", namespace).replace("NAME", name)
