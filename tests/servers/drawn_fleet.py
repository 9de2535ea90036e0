"""Fleets of several clusters that are drawn: their files and settings, and a Prometheus that knows their replicas."""

import random
from collections.abc import Mapping
from dataclasses import dataclass, field

from reconciler.pipeline.session import Ask
from tests.servers.answers import Replica, Rows, answering
from tests.servers.desk import Desk
from tests.servers.speeds import GRANITE_A100, LLAMA_H100, QWEN_L4, Speed

SPEEDS: dict[str, Speed] = {"A100": GRANITE_A100, "H100": LLAMA_H100, "L4": QWEN_L4}
PRODUCTS = {"A100": "NVIDIA-A100-SXM4-80GB", "H100": "NVIDIA-H100-80GB-HBM3", "L4": "NVIDIA-L4"}
PROFILES = {
    "A100": "alpha: 20.58ms, beta: 0.41ms, maxBatchSize: 32",
    "H100": "alpha: 6.958ms, beta: 0.042ms, maxBatchSize: 64",
    "L4": "alpha: 20ms, beta: 0.5ms, maxBatchSize: 32",
}
"""As each of these speeds was measured."""
MANIFEST = """\
apiVersion: llmd.ai/v1alpha1
kind: VariantAutoscaling
metadata: {{name: {name}, namespace: {namespace}, annotations: {{reconciler.io/group: {group}}}}}
spec:
  scaleTargetRef: {{apiVersion: apps/v1, kind: Deployment, name: {name}}}
  modelID: {model}
---
apiVersion: apps/v1
kind: Deployment
metadata: {{name: {name}, namespace: {namespace}}}
spec:
  replicas: {replicas}
  selector: {{matchLabels: {{app: {name}}}}}
  template:
    metadata: {{labels: {{app: {name}}}}}
    spec:
      nodeSelector: {{nvidia.com/gpu.product: {product}}}
      containers: [{{name: vllm, image: vllm, resources: {{limits: {{nvidia.com/gpu: "1"}}}}}}]
"""
SETTINGS = """\
apiVersion: reconciler.io/v1alpha1
kind: Configuration
clusters:
{clusters}
accelerators:
  - {{name: H100, nodeSelector: {{nvidia.com/gpu.product: NVIDIA-H100-80GB-HBM3}}, costPerHour: 6.88}}
  - {{name: A100, nodeSelector: {{nvidia.com/gpu.product: NVIDIA-A100-SXM4-80GB}}, costPerHour: 3.97}}
  - {{name: L4, nodeSelector: {{nvidia.com/gpu.product: NVIDIA-L4}}, costPerHour: 0.70}}
serviceClasses:
  - {{name: standard, ttft: 2s, itl: 60ms}}
models:
{models}
defaults: {{serviceClass: standard, accelerator: keep}}
pullRequests: {{limits: {limits}}}
policies: [default{policies}]
"""
RULES = ".reconciler/policies/rules.yaml"
UNLIMITED = "{open: 0, createdPerHour: 0, pushesPerHour: 0, mergesPerHour: 1000}"


@dataclass(slots=True, kw_only=True)
class DrawnVariant:
    """One variant with its load."""

    cluster: str
    namespace: str
    name: str
    group: str
    accelerator: str
    replicas: int
    per_s: float


@dataclass(slots=True, kw_only=True)
class DrawnFleet:
    """The variants, the pools of each cluster, and the rules of all."""

    variants: list[DrawnVariant] = field(default_factory=list)
    pools: dict[str, dict[str, int]] = field(default_factory=dict)
    rules: str = ""
    limits: str = UNLIMITED

    def files(self) -> dict[str, str]:
        """What its repository holds, by path."""
        found = {"reconciler.yaml": self._settings()}
        for each in self.variants:
            text = MANIFEST.format(
                name=each.name,
                namespace=each.namespace,
                group=each.group,
                model=each.name,
                replicas=each.replicas,
                product=PRODUCTS[each.accelerator],
            )
            found[f"clusters/{each.cluster}/{each.namespace}/{each.name}.yaml"] = text
        return found | ({RULES: self.rules} if self.rules else {})

    def _settings(self) -> str:
        clusters = "\n".join(
            f"  - name: {name}\n"
            f'    paths: {{include: ["clusters/{name}/**"]}}\n'
            '    prometheus: {url: "http://127.0.0.1:9"}\n'
            f"    pools: [{', '.join(f'{{name: {each}, device: {each}, devices: {n}}}' for each, n in pools.items())}]"
            for name, pools in sorted(self.pools.items())
        )
        models = "\n".join(
            f"  - {{id: {each.name}, profiles: [{{accelerator: {each.accelerator}, {PROFILES[each.accelerator]}}}]}}"
            for each in self.variants
        )
        policies = ", .reconciler/policies/" if self.rules else ""
        return SETTINGS.format(clusters=clusters, models=models, limits=self.limits, policies=policies)

    def ask(self, rows: Mapping[str, Rows] | None = None) -> Ask:
        """A Prometheus that answers for all clusters alike: names of namespaces differ; `rows` as `answering` has."""
        return answering(
            *(
                Replica(
                    namespace=each.namespace,
                    pod=f"{each.name}-5d4c8b7f9-bcd{'fghjklmnpq'[index]}",
                    model=each.name,
                    per_s=each.per_s / each.replicas,
                    speed=SPEEDS[each.accelerator],
                )
                for each in self.variants
                for index in range(each.replicas)
            ),
            rows=rows,
        )

    def write(self, desk: Desk) -> None:
        """Make it what the desk's repository holds, and nothing else."""
        desk.prometheus = ""
        desk.workshop.git("rm", "-rq", ".")
        for path, text in self.files().items():
            desk.workshop.write(path, text.encode())
        desk.workshop.commit()


def draw_fleet(seed: int) -> DrawnFleet:
    """The fleet that a seed stands for: a few clusters, each with some namespaces that share this or that."""
    draw = random.Random(f"shards/{seed}")  # noqa: S311 - the same in every run
    fleet = DrawnFleet()
    for cluster in [f"c{index}" for index in range(draw.randint(1, 4))]:
        used = dict.fromkeys(SPEEDS, 0)
        for number in range(draw.randint(1, 5)):
            namespace = f"{cluster}-team{number}"
            for index in range(draw.randint(1, 2)):
                accelerator = draw.choice(sorted(SPEEDS))
                replicas = draw.randint(1, 3)
                used[accelerator] += replicas
                fleet.variants.append(
                    DrawnVariant(
                        cluster=cluster,
                        namespace=namespace,
                        name=f"{namespace}-m{index}",
                        group=draw.choice((f"{cluster}/{namespace}",) * 4 + ("shared",)),
                        accelerator=accelerator,
                        replicas=replicas,
                        per_s=round(draw.uniform(0.5, 60.0), 1),
                    )
                )
        fleet.pools[cluster] = {
            name: count + draw.choice((0, 1, 2, 50)) for name, count in used.items() if count and draw.random() < 0.8
        }
    return fleet
