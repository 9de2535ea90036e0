"""Variants in a line each, as Git would declare them."""

from collections.abc import Sequence

from reconciler.domain.identity import ModelKey, Place, ResourceKey
from reconciler.domain.inventory import Allocation
from reconciler.domain.snapshot import Form, StatusShape, Variant
from reconciler.domain.variant_settings import VariantSettings
from reconciler.domain.workloads import Workload
from reconciler.domain.written import DocumentRef


def make_variant(
    name: str,
    *,
    model_id: str = "llama",
    role: str = "",
    replicas: int = 1,
    cluster: str = "prod",
    namespace: str = "llm",
    served: Sequence[str] | None = None,
    target: str | None = None,
    kind: str = "Deployment",
    share: float | None = None,
) -> Variant:
    """A variant whose scale target is named like it unless `target` is another; it serves its model's id."""
    place = Place(path="llm.yaml", line=1)
    document = DocumentRef(path="llm.yaml", document=0)
    target_key = ResourceKey(cluster=cluster, namespace=namespace, kind=kind, name=target or name)
    return Variant(
        key=ResourceKey(cluster=cluster, namespace=namespace, kind="VariantAutoscaling", name=name),
        model=ModelKey(cluster=cluster, namespace=namespace, model_id=model_id, role=role),
        form=Form.TARGET,
        status_shape=StatusShape.TARGET,
        document=document,
        place=place,
        workload=Workload(key=target_key, document=document, place=place, replicas=replicas),
        current=Allocation(accelerator="H100", replicas=replicas),
        accelerator_source="",
        settings=VariantSettings(),
        service_class=None,
        options=(),
        served_names=tuple(served if served is not None else (model_id,)),
        relative_cost=None,
        current_cost_per_hour=None,
        share=share,
    )
