"""How fast a large GitOps repository is read, and a file of it edited; `measure` is called by the benchmark runner.

20,000 documents in 3,000 files, half of them of kinds that nobody here reads. Three directories of four are kustomized.
"""

import gc
import json
import re
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from statistics import median

import yaml

from reconciler.domain.recording import ManifestFile
from reconciler.domain.settings import ClusterSettings, Settings
from reconciler.manifests.editing import apply_edits
from reconciler.manifests.edits import InsertBlock, SetScalar
from reconciler.snapshot.declarations import clusters_of, fold, read_commit
from reconciler.snapshot.variants import declared_variants
from tests.bench.processes import Spent, run_python

DIRECTORIES = 500
FILES_PER_DIRECTORY = 6
DOCUMENTS = 20_000
EDITED_FILES = 400
DOCUMENTS_PER_EDITED_FILE = 6
REPEATS = 3
READING = ("read and build", "fold", "join variants")
FOLDER = "clusters/prod"
SETTINGS = Settings(clusters=(ClusterSettings(name="prod", include=(f"{FOLDER}/**",)),))
STATUS = "desiredOptimizedAlloc:\n  accelerator: H100\n  numReplicas: 4\nconditions:\n  - type: OptimizationReady\n"
Row = dict[str, str | int | float]

# What stands behind a marker is how many of a hundred documents look so.
_SHARES = """\
--- 13
apiVersion: llmd.ai/v1alpha1
kind: VariantAutoscaling
metadata: {{name: {name}, namespace: {team}}}
spec:
  scaleTargetRef: {{apiVersion: apps/v1, kind: Deployment, name: {name}}}
  modelID: example-org/Model-{model:03d}
  variantCost: "5.49"
  minReplicas: 1
  maxReplicas: 8
--- 15
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {name}
  namespace: {team}
  labels: {{app: {name}}}
spec:
  replicas: 2 # of eight
  selector:
    matchLabels: {{app: {name}}}
  template:
    metadata:
      labels: {{app: {name}}}
    spec:
      nodeSelector: {{nvidia.com/gpu.product: NVIDIA-H100-80GB-HBM3}}
      containers:
        - name: vllm
          image: vllm/vllm-openai:v0.11.0
          args: [--model=example-org/Model-{model:03d}, --max-num-seqs=256, --max-model-len=8192]
          ports: [{{name: http, containerPort: 8000}}]
          resources:
            requests: {{cpu: "8", memory: 64Gi}}
            limits: {{memory: 64Gi, nvidia.com/gpu: "1"}}
          readinessProbe:
            httpGet: {{path: /health, port: http}}
            periodSeconds: 5
--- 4
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {{name: {name}, namespace: web}}
spec:
  scaleTargetRef: {{apiVersion: apps/v1, kind: Deployment, name: web-{name}}}
  minReplicas: 2
  maxReplicas: 9
  metrics:
    - type: Resource
      resource: {{name: cpu, target: {{type: Utilization, averageUtilization: 70}}}}
--- 5
apiVersion: v1
kind: ConfigMap
metadata: {{name: {name}, namespace: {team}}}
data:
  app.ini: |
    [server]
    port = 8080
    [cache]
    size = 10
--- 3
apiVersion: workload.serving.volcano.sh/v1alpha1
kind: AutoscalingPolicy
metadata: {{name: {name}, namespace: {team}}}
spec:
  metrics:
    - {{metricName: 'vllm:num_requests_waiting', targetValue: 5}}
  tolerancePercent: 10
--- 3
apiVersion: workload.serving.volcano.sh/v1alpha1
kind: ModelServing
metadata: {{name: {name}, namespace: {team}}}
spec:
  replicas: 2
  schedulerName: volcano
  template:
    roles:
      - name: decode
        replicas: 2
        workerReplicas: 0
        entryTemplate:
          spec:
            containers:
              - name: vllm
                image: vllm/vllm-openai:v0.11.0
                resources: {{limits: {{nvidia.com/gpu: '1'}}}}
--- 2
apiVersion: llmaz.io/v1alpha1
kind: OpenModel
metadata: {{name: {name}}}
spec:
  familyName: opt
  source: {{modelHub: {{modelID: facebook/opt-125m}}}}
  inferenceConfig:
    flavors:
      - {{name: h100, limits: {{nvidia.com/gpu: 1}}, params: {{INSTANCE-TYPE: p5}}}}
--- 2
apiVersion: inference.llmaz.io/v1alpha1
kind: Playground
metadata: {{name: {name}, namespace: {team}}}
spec:
  replicas: 1
  modelClaim: {{modelName: {name}}}
--- 2
apiVersion: inference.networking.k8s.io/v1
kind: InferencePool
metadata: {{name: {name}, namespace: {team}}}
spec:
  selector: {{matchLabels: {{app: {name}}}}}
  targetPorts: [{{number: 8000}}]
  endpointPickerRef: {{name: epp, port: {{number: 9002}}}}
--- 1
apiVersion: inference.networking.x-k8s.io/v1alpha2
kind: InferenceObjective
metadata: {{name: {name}, namespace: {team}}}
spec:
  priority: 5
  poolRef: {{name: {name}}}
--- 14
apiVersion: v1
kind: Service
metadata:
  name: {name}
  namespace: {team}
spec:
  selector: {{app: {name}}}
  ports:
    - {{name: http, port: 80, targetPort: http}}
--- 10
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {{name: {name}, namespace: {team}}}
roleRef: {{apiGroup: rbac.authorization.k8s.io, kind: Role, name: {name}}}
subjects:
  - {{kind: ServiceAccount, name: {name}, namespace: {team}}}
--- 10
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {{name: {name}, namespace: {team}}}
spec:
  podSelector: {{matchLabels: {{app: {name}}}}}
  ingress:
    - from:
        - podSelector: {{}}
--- 8
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {{name: {name}, namespace: {team}}}
spec:
  accessModes: [ReadWriteOnce]
  resources: {{requests: {{storage: 100Gi}}}}
--- 8
apiVersion: batch/v1
kind: CronJob
metadata: {{name: {name}, namespace: {team}}}
spec:
  schedule: '0 3 * * *'
  jobTemplate:
    spec:
      template:
        spec:
          restartPolicy: Never
          containers:
            - {{name: job, image: 'busybox:1.36', command: [sh, -c, 'echo {name}']}}
"""
_KINDS = tuple(
    (int(share), text) for share, text in re.findall(r"^--- (\d+)\n((?:(?!---).*\n)+)", _SHARES, re.MULTILINE)
)


def measure() -> list[Row]:
    """Rows of reading, by act and of the whole process, and of edits by touched file; medians."""
    with tempfile.TemporaryDirectory() as directory:
        num_documents = _write(Path(directory))
        runs = [run_python("tests.bench.repository", directory) for _ in range(REPEATS)]
    acts = [json.loads(run.output) for run in runs]
    rows: list[Row] = [
        {"name": act, "number": num_documents, "duration_s": median(each[act] for each in acts)} for act in acts[0]
    ]
    whole = sum(median(each[act] for each in acts) for act in READING)
    peak_mib = Spent.median_of(runs).peak_mib
    rows.append({"name": "reading in all", "number": num_documents, "duration_s": whole, "peak_mib": peak_mib})
    return [*rows, *_measure_edits()]


def _write(directory: Path) -> int:
    num_documents = 0
    for path, documents in _files():
        num_documents += len(documents)
        file = directory / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("---\n".join(documents))
    return num_documents


def _files() -> Iterator[tuple[str, list[str]]]:
    documents = _documents()
    manifests = [
        (number, part) for number in range(DIRECTORIES) for part in range(FILES_PER_DIRECTORY - (number % 4 > 0))
    ]
    kustomized = [number for number in range(DIRECTORIES) if number % 4 > 0]
    num_documents = DOCUMENTS - len(kustomized)
    for position, (number, part) in enumerate(manifests):
        share = num_documents * (position + 1) // len(manifests) - num_documents * position // len(manifests)
        yield f"{FOLDER}/team-{number:03d}/app-{part}.yaml", [next(documents) for _ in range(share)]
    listed = "".join(f"  - app-{part}.yaml\n" for part in range(FILES_PER_DIRECTORY - 1))
    for number in kustomized:
        yield f"{FOLDER}/team-{number:03d}/kustomization.yaml", [f"resources:\n{listed}"]


def _documents() -> Iterator[str]:
    """Without end: the kinds by their shares, evenly mixed; what has one number belongs together."""
    mixed = [kind for _, kind in sorted((place / count, kind) for count, kind in _KINDS for place in range(count))]
    written = Counter[str]()
    while True:
        for kind in mixed:
            number = written[kind]
            written[kind] += 1
            yield kind.format(name=f"model-{number:04d}", team=f"team-{number // 40:03d}", model=number % 400)


def time_acts(directory: Path) -> dict[str, float]:
    """Seconds of every act of reading what lies in a directory; the collector is off, as in a run."""
    gc.disable()
    started_s = time.process_time()
    acts_s: dict[str, float] = {}

    def stop(act: str) -> None:
        nonlocal started_s
        acts_s[act] = time.process_time() - started_s
        started_s = time.process_time()

    paths = sorted(path.relative_to(directory).as_posix() for path in directory.rglob("*.yaml"))

    def fetch(named: Sequence[str]) -> Iterator[ManifestFile]:
        return (ManifestFile(path=path, body=(directory / path).read_bytes()) for path in named)

    stop("list files")
    for file in fetch(paths):
        for _ in yaml.parse(file.body, Loader=yaml.CLoader):
            pass
    stop("yardstick: libyaml reads all of it")
    commit = read_commit(fetch(paths), paths, clusters_of(SETTINGS), fetch)
    stop("read and build")
    declaration = fold(commit, SETTINGS)
    stop("fold")
    declared_variants(SETTINGS, declaration)
    stop("join variants")
    return acts_s


def _measure_edits() -> list[Row]:
    files = [_edited_file(number) for number in range(EDITED_FILES)]
    scale = SetScalar(document=1, field=("spec", "replicas"), value=4)
    status = InsertBlock(document=0, parent=(), key="status", text=STATUS)
    return [
        _edit_all(
            "yardstick: libyaml reads a file of 6", files, lambda body: list(yaml.parse(body, Loader=yaml.CLoader))
        ),
        _edit_all("edit and prove its replicas", files, lambda body: apply_edits("app.yaml", body, [scale])),
        _edit_all(
            "edit and prove replicas and status", files, lambda body: apply_edits("app.yaml", body, [scale, status])
        ),
    ]


def _edited_file(number: int) -> bytes:
    kinds = [kind for _, kind in _KINDS[:DOCUMENTS_PER_EDITED_FILE]]
    return "---\n".join(kind.format(name=f"m-{number}", team="llm", model=number) for kind in kinds).encode()


def _edit_all(name: str, files: Sequence[bytes], edit: Callable[[bytes], object]) -> Row:
    def edit_all() -> None:
        for body in files:
            edit(body)

    edit_all()
    return {"name": name, "number": len(files), "duration_s": median(_time(edit_all) for _ in range(5)) / len(files)}


def _time(act: Callable[[], None]) -> float:
    started_s = time.process_time()
    act()
    return time.process_time() - started_s


if __name__ == "__main__":
    print(json.dumps(time_acts(Path(sys.argv[1]))))
