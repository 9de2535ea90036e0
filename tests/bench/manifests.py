"""The fleet's files as people write them: resources of all three forms, Deployments, and what stands beside them."""

from collections.abc import Iterator

from tests.bench.fleet import CLUSTER, GPUS, Fleet, Gpu, Member

CLASSES = f"clusters/{CLUSTER}/llm-d-system/service-classes-config.yaml"


def repository_files(fleet: Fleet) -> dict[str, bytes]:
    """Path -> content of the whole repository."""
    files = {path: "---\n".join(_documents(members)) for path, members in fleet.files_of()}
    files["reconciler.yaml"] = _configuration(fleet)
    files[CLASSES] = _classes(fleet)
    files |= dict(_kustomizations(files))
    return {path: text.encode() for path, text in files.items()}


def _documents(members: tuple[Member, ...]) -> Iterator[str]:
    for member in members:
        yield _resource(member)
        yield _deployment(member)
        if member.number % 3 == 0:
            yield _service(member)


def _resource(member: Member) -> str:
    spec = {"target": _target_spec, "profile": _profile_spec, "name": _name_spec}[member.form](member)
    return (
        "apiVersion: llmd.ai/v1alpha1\n"
        "kind: VariantAutoscaling\n"
        "metadata:\n"
        f"  name: {member.name}\n"
        f"  namespace: {member.namespace}\n"
        "  labels:\n"
        f"    inference.optimization/acceleratorName: {member.gpu.name}\n"
        f"spec:\n{spec}{_status(member)}"
    )


def _target_spec(member: Member) -> str:
    return (
        "  scaleTargetRef:\n"
        "    apiVersion: apps/v1\n"
        "    kind: Deployment\n"
        f"    name: {member.name}\n"
        f"  modelID: {member.model_id}\n"
        f'  variantCost: "{member.gpu.cost_per_hour:.2f}"   # an hour, from the price list\n'
        "  minReplicas: 1\n"
        "  maxReplicas: 60\n"
    )


def _profile_spec(member: Member) -> str:
    offered = [gpu for gpu in GPUS if gpu.cost_per_hour >= member.gpu.cost_per_hour]
    return (
        f"  modelID: {member.model_id}\n"
        "  sloClassRef:\n"
        "    name: service-classes-config\n"
        "    key: standard.yaml\n"
        "  modelProfile:\n"
        "    accelerators:\n" + "".join(map(_flat_profile, offered))
    )


def _flat_profile(gpu: Gpu) -> str:
    return (
        f"      - acc: {gpu.name}\n"
        "        accCount: 1\n"
        f'        alpha: "{gpu.alpha_ms}"\n'
        f'        beta: "{gpu.beta_ms}"\n'
        f"        maxBatchSize: {gpu.max_batch_size}\n"
        "        atTokens: 256\n"
    )


def _name_spec(member: Member) -> str:
    return f'  modelID: {member.model_id}\n  variantCost: "{member.gpu.cost_per_hour:.2f}"\n'


def _status(member: Member) -> str:
    """What an earlier run wrote, in the shape of the target form."""
    if not member.has_status or member.form != "target":
        return ""
    return (
        "status:\n"
        "  desiredOptimizedAlloc:\n"
        '    lastRunTime: "2026-09-20T06:00:00Z"\n'
        f"    accelerator: {member.gpu.name}\n"
        "    numReplicas: 1\n"
        "  actuation:\n"
        "    applied: false\n"
        "  conditions:\n"
        "    - type: MetricsAvailable\n"
        '      status: "True"\n'
        "      reason: MetricsFound\n"
        "      message: metrics of one replica\n"
        '      lastTransitionTime: "2026-09-20T06:00:00Z"\n'
    )


def _deployment(member: Member) -> str:
    labelled = f"        llm-d.ai/variant: {member.name}\n" if member.has_pod_label else ""
    return f"""\
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {member.name}
  namespace: {member.namespace}
  labels: {{app: {member.name}}}
spec:
  replicas: 1
  selector:
    matchLabels: {{app: {member.name}}}
  strategy:
    rollingUpdate: {{maxSurge: 1, maxUnavailable: 0}}
  template:
    metadata:
      labels:
        app: {member.name}
{labelled}\
    spec:
      nodeSelector:
        nvidia.com/gpu.product: {member.gpu.product}
      tolerations:
        - {{key: nvidia.com/gpu, operator: Exists, effect: NoSchedule}}
      terminationGracePeriodSeconds: 120
      containers:
        - name: vllm
          image: vllm/vllm-openai:v0.11.0
          args:
            - --model={member.model_id}
            - --max-num-seqs={member.gpu.max_batch_size}
            - --max-model-len=8192
          ports:
            - {{name: http, containerPort: 8000}}
          resources:
            requests: {{cpu: "8", memory: 64Gi}}
            limits:
              memory: 64Gi
              nvidia.com/gpu: "1"
          readinessProbe:
            httpGet: {{path: /health, port: http}}
            periodSeconds: 5
          volumeMounts:
            - {{name: models, mountPath: /root/.cache/huggingface}}
      volumes:
        - name: models     # weights, filled by a job
          persistentVolumeClaim: {{claimName: model-cache, readOnly: true}}
"""


def _service(member: Member) -> str:
    return f"""\
apiVersion: v1
kind: Service
metadata:
  name: {member.name}
  namespace: {member.namespace}
spec:
  selector: {{app: {member.name}}}
  ports:
    - {{name: http, port: 80, targetPort: http}}
"""


def _configuration(fleet: Fleet) -> str:
    profiles = "".join(
        f"      - {{accelerator: {gpu.name}, alpha: {gpu.alpha_ms}ms, beta: {gpu.beta_ms}ms, "
        f"maxBatchSize: {gpu.max_batch_size}}}\n"
        for gpu in GPUS
    )
    models = "".join(
        f"  - id: {model_id}\n    serviceClass: standard\n    profiles:\n{profiles}" for model_id in fleet.model_ids
    )
    accelerators = "".join(
        f"  - name: {gpu.name}\n    nodeSelector: {{nvidia.com/gpu.product: {gpu.product}}}\n"
        f"    costPerHour: {gpu.cost_per_hour}\n"
        for gpu in GPUS
    )
    return f"""\
apiVersion: reconciler.io/v1alpha1
kind: Configuration
clusters:
  - name: {CLUSTER}
    paths: {{include: ["clusters/{CLUSTER}/**"]}}
    prometheus: {{url: "https://prometheus.example.com"}}
accelerators:
{accelerators}\
serviceClasses:
  - {{name: standard, priority: 5, ttft: 1s, itl: 60ms}}
  - {{name: overnight, priority: -10, ttft: 30s, itl: 100ms}}
models:
{models}\
overrides:
  - {{match: {{name: "*-bulk", namespace: "batch-*"}}, serviceClass: overnight}}
  - {{match: {{namespace: "team-0*"}}, sizing: {{headroom: 15%}}}}
"""


def _classes(fleet: Fleet) -> str:
    """Upstream's ConfigMap, with every model in one class."""
    models = "".join(
        f"      - model: {model_id}\n        slo-itl: 60\n        slo-ttw: 1000\n" for model_id in fleet.model_ids
    )
    return f"""\
apiVersion: v1
kind: ConfigMap
metadata:
  name: service-classes-config
  namespace: llm-d-system
data:
  standard.yaml: |
    name: Standard
    priority: 5
    data:
{models}"""


def _kustomizations(files: dict[str, str]) -> Iterator[tuple[str, str]]:
    folders: dict[str, list[str]] = {}
    for path in sorted(files):
        folder, _, name = path.rpartition("/")
        if folder:
            folders.setdefault(folder, []).append(name)
    for folder, names in folders.items():
        listed = "".join(f"  - {name}\n" for name in names)
        text = f"apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nresources:\n{listed}"
        yield f"{folder}/kustomization.yaml", text
