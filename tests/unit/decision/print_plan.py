"""Print the digest of a plan: run by a test in processes of their own, with other hash seeds."""

import hashlib

from reconciler.decision.decide import decide
from reconciler.domain.identity import ModelKey, Place, ResourceKey
from reconciler.domain.inventory import Accelerator
from reconciler.domain.observed import ArrivalSource, Load, Observation, Observed, Performance
from reconciler.domain.profiles import PerformanceProfile, ServiceClass, SloTarget
from reconciler.domain.settings import ClusterSettings, Setting, Settings
from reconciler.domain.snapshot import Form, Snapshot, StatusShape
from reconciler.domain.workloads import Workload
from reconciler.domain.written import DocumentRef
from reconciler.resources.declaration import Declaration
from reconciler.resources.variants import VariantResource
from reconciler.snapshot.variants import build_catalogs, join_variants

PRODUCT = "nvidia.com/gpu.product"
ACCELERATORS = {"H100": 6.0, "A100": 4.0, "L4": 1.0}


def snapshot() -> Snapshot:
    """Two models with three variants each."""
    names = [f"{model}-{number}" for model in ("llama", "qwen") for number in range(3)]
    settings = Settings(
        clusters=(ClusterSettings(name="prod"),),
        accelerators=tuple(
            Accelerator(name=name, device=name, node_selector={PRODUCT: name}, cost_per_hour=cost)
            for name, cost in ACCELERATORS.items()
        ),
        service_classes=(ServiceClass(name="standard", itl=SloTarget(limit_s=0.02)),),
        defaults={"serviceClass": Setting(value="standard")},
    )
    declaration = Declaration(
        variants=tuple(resource(name) for name in names), workloads=tuple(deployment(name) for name in names)
    )
    catalogs = build_catalogs(settings, declaration)
    variants = join_variants(settings, declaration, catalogs)
    return Snapshot(
        now_s=1_800_000_000.0,
        repository="",
        branch="main",
        commit="",
        fingerprint="",
        settings=settings,
        variants=variants,
        catalogs=catalogs,
        observed=Observed(
            loads={
                ModelKey(cluster="prod", namespace="llm", model_id=model): Load(
                    arrival_rate_per_s=rate,
                    output_tokens=100,
                    input_tokens=100,
                    window_s=300,
                    arrivals_from=ArrivalSource.CONFIGURED,
                )
                for model, rate in (("llama", 61.0), ("qwen", 17.0))
            },
            observations={
                variant.key: Observation(performance=Performance(), replicas_reporting=9) for variant in variants
            },
        ),
    )


def resource(name: str) -> VariantResource:
    """A resource that may run on every accelerator."""
    return VariantResource(
        key=ResourceKey(cluster="prod", namespace="llm", kind="VariantAutoscaling", name=name),
        document=DocumentRef(path=f"{name}.yaml", document=0),
        place=Place(path=f"{name}.yaml", line=1),
        form=Form.PROFILE,
        status_shape=StatusShape.FULL,
        model_id=name.partition("-")[0],
        target_kind="Deployment",
        target_name=name,
        profiles=tuple(
            PerformanceProfile(accelerator=accelerator, alpha_s=0.01, beta_s=0.0001, max_batch_size=batch)
            for accelerator, batch in (("H100", 12), ("A100", 7), ("L4", 2))
        ),
    )


def deployment(name: str) -> Workload:
    """Its scale target, on A100."""
    return Workload(
        key=ResourceKey(cluster="prod", namespace="llm", kind="Deployment", name=name),
        document=DocumentRef(path=f"{name}.yaml", document=1),
        place=Place(path=f"{name}.yaml", line=9),
        replicas=2,
        node_selector={PRODUCT: "A100"},
        devices={"nvidia.com/gpu": 1},
    )


if __name__ == "__main__":
    print(hashlib.sha256(repr(decide(snapshot())).encode()).hexdigest())
