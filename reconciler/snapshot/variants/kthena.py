"""What Kthena's resources declare as variants: workloads that policies scale, and backends that nothing does."""

from collections.abc import Iterable, Iterator, Mapping

from reconciler.domain.declared.declarations import Declaration, Form, StatusShape, VariantResource
from reconciler.domain.declared.kthena import ModelBackend, ModelResource
from reconciler.domain.declared.tracking import TrackedBackend, TrackedTarget
from reconciler.domain.declared.workloads import Workload
from reconciler.domain.identity import ResourceKey


def kthena_variants(declaration: Declaration, targets: Iterable[TrackedTarget]) -> tuple[VariantResource, ...]:
    """A variant for each workload that one of `targets` scales, and for each backend of a Model without a policy."""
    workloads = {workload.key: workload for workload in declaration.workloads}
    tracked = {
        backend.scale_target: _tracked(target, backend, workloads[backend.scale_target], declaration)
        for target in targets
        for backend in target.backends
        if backend.scale_target in workloads
    }
    alone = (variant for model in declaration.kthena.models for variant in _alone(model, tracked))
    return (*tracked.values(), *alone)


def _tracked(
    target: TrackedTarget, scaled: TrackedBackend, workload: Workload, declaration: Declaration
) -> VariantResource:
    """Bounds and cost are the policy's; the model is what its pods serve, or what the workload is called."""
    model = _model_of(declaration, workload.key)
    served = workload.served_names[0] if workload.served_names else workload.key.name
    return VariantResource(
        key=workload.key,
        document=workload.document,
        place=workload.place,
        form=Form.TRACKED,
        status_shape=StatusShape.NONE,
        model_id=model.model_id if model is not None else served,
        target_kind=workload.key.kind,
        target_name=workload.key.name,
        target=workload.key,
        variant_cost=float(scaled.backend.cost) or None,
        served_names=_served_names(model, workload),
        min_replicas=scaled.backend.min_replicas,
        max_replicas=scaled.backend.max_replicas,
        labels=workload.labels,
        settings=workload.settings,
        tracked_by=target.key,
    )


def _alone(model: ModelResource, tracked: Mapping[ResourceKey, VariantResource]) -> Iterator[VariantResource]:
    for backend in model.backends:
        if backend.workload.key not in tracked and not (model.has_policy or backend.has_policy):
            yield _backend(model, backend)


def _backend(model: ModelResource, backend: ModelBackend) -> VariantResource:
    """Its bounds in Git are where we write its count, so they are no bounds of ours."""
    return VariantResource(
        key=backend.workload.key,
        document=model.document,
        place=backend.place,
        form=Form.BACKEND,
        status_shape=StatusShape.NONE,
        model_id=model.model_id,
        target_kind=backend.workload.key.kind,
        target_name=backend.workload.key.name,
        target=backend.workload.key,
        variant_cost=float(backend.cost) or None,
        served_names=_served_names(model, backend.workload),
        share=model.share_of(backend),
        labels=model.labels,
        settings=model.settings,
    )


def _served_names(model: ModelResource | None, workload: Workload) -> tuple[str, ...]:
    """What its engine calls the model comes first, then every other name under which requests ask for it."""
    return tuple(dict.fromkeys((*workload.served_names, *(model.served_names if model is not None else ()))))


def _model_of(declaration: Declaration, key: ResourceKey) -> ModelResource | None:
    backends = ((model, backend) for model in declaration.kthena.models for backend in model.backends)
    return next((model for model, backend in backends if backend.workload.key == key), None)
