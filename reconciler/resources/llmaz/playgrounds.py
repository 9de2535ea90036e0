"""`inference.llmaz.io/v1alpha1` Playground: a model served by one of llmaz's backends."""

from collections.abc import Iterator
from typing import Annotated

from pydantic import Field

from reconciler.domain.declared.llmaz import DEFAULT_BACKEND, BackendConfig, ElasticConfig, ModelClaim, Playground
from reconciler.domain.declared.workloads import Workload
from reconciler.domain.identity import Finding
from reconciler.resources.kubernetes.pod_templates import mapping_at, read_scale_target
from reconciler.resources.llmaz.backends import (
    EnvFields,
    ResourcesFields,
    TriggerFields,
    as_variables,
    check_resources,
    check_trigger,
    devices_of,
    place_of_trigger,
)
from reconciler.resources.llmaz.claims import (
    CLAIM,
    NOTES,
    SeveralClaims,
    SingleClaim,
    as_claim,
    as_claims,
    check_flavor_names,
    check_roles,
)
from reconciler.resources.llmaz.fields import MAX_INT32, Written, check_name, skips_loader
from reconciler.resources.llmaz.launching import run_backend
from reconciler.resources.objects import KubernetesObject, Piece
from reconciler.resources.specs import read_resource
from reconciler.resources.validation import Shape

_BACKEND, _ELASTIC = ("spec", "backendRuntimeConfig"), ("spec", "elasticConfig")
_NOTES = {
    **NOTES,
    "backendConfig": "llmaz has renamed it and drops it now: write backendRuntimeConfig",
    "scaleTriggerRef": "llmaz v0.1.0 had it and drops it now: write scaleTrigger, or leave it out",
}


class _Backend(Shape):
    backend_name: str | None = None
    version: str | None = None
    config_name: str | None = None
    args: list[str] | None = None
    envs: list[EnvFields] | None = None
    resources: ResourcesFields | None = None
    shared_memory_size: Written | None = None


class _Elastic(Shape):
    min_replicas: Annotated[int, Field(ge=1, le=MAX_INT32)] = 1
    max_replicas: Annotated[int, Field(ge=1, le=MAX_INT32)]
    scale_trigger: TriggerFields | None = None


class _PlaygroundSpec(Shape):
    model_claim: SingleClaim | None = None
    model_claims: SeveralClaims | None = None
    backend_runtime_config: _Backend | None = None
    elastic_config: _Elastic | None = None


def read_playground(source: KubernetesObject) -> Iterator[Piece]:
    """The Playground with its scale target, or the broken resource, and all that must be said about it."""
    yield from read_resource(
        source,
        _PlaygroundSpec,
        named=("modelClaim", "modelClaims", "elasticConfig"),
        check=lambda spec: _check(source, spec),
        build=lambda spec: _build(source, spec),
        ignored=("replicas",),
        braced=("backendRuntimeConfig",),
        notes=_NOTES,
    )


def _check(source: KubernetesObject, spec: _PlaygroundSpec) -> Iterator[Finding]:
    yield from check_name(source)
    claim, claims, elastic = spec.model_claim, spec.model_claims, spec.elastic_config
    if (claim is None) == (claims is None):
        found = "found neither" if claim is None else "found both"
        yield source.complain(("spec",), f"expected either modelClaim or modelClaims, {found}")
    if claim is not None:
        yield from check_flavor_names(source, CLAIM, claim.inference_flavors)
    if claims is not None:
        yield from check_roles(source, claims, is_strict=False)
    if spec.backend_runtime_config is not None:
        yield from check_resources(source, (*_BACKEND, "resources"), spec.backend_runtime_config.resources)
    if elastic is not None:
        yield from _check_elastic(source, elastic)


def _check_elastic(source: KubernetesObject, elastic: _Elastic) -> Iterator[Finding]:
    if elastic.min_replicas >= elastic.max_replicas:
        is_written = "minReplicas" in mapping_at(source.fields, _ELASTIC)
        found = f"{elastic.min_replicas}{'' if is_written else ', the default'}"
        message = f"expected less than maxReplicas ({elastic.max_replicas}), got {found}: llmaz refuses equal bounds"
        yield source.complain((*_ELASTIC, "minReplicas"), message)
    yield from check_trigger(source, (*_ELASTIC, "scaleTrigger"), elastic.scale_trigger)


def _build(source: KubernetesObject, spec: _PlaygroundSpec) -> Iterator[Piece]:
    claim = _claim_of(source, spec)
    backend = _as_backend(source, spec.backend_runtime_config)
    for piece in read_scale_target(source, mapping_at(source.fields, ("spec",)).get("replicas"), (), ()):
        if claim is None or not isinstance(piece, Workload):
            yield piece
            continue
        yield run_backend(piece, claim, backend, runtime=None)
        yield Playground(
            key=source.key,
            place=source.place,
            claim=claim,
            replicas=1 if piece.replicas is None else piece.replicas,
            backend=backend,
            elastic=_as_elastic(source, spec.elastic_config),
            skips_loader=skips_loader(source),
        )


def _claim_of(source: KubernetesObject, spec: _PlaygroundSpec) -> ModelClaim | None:
    if spec.model_claims is not None:
        return as_claims(source, spec.model_claims)
    return as_claim(source, spec.model_claim) if spec.model_claim is not None else None


def _as_backend(source: KubernetesObject, backend: _Backend | None) -> BackendConfig:
    if backend is None:
        return BackendConfig()
    return BackendConfig(
        backend_name=backend.backend_name or DEFAULT_BACKEND,
        version=backend.version or "",
        config_name=backend.config_name or "",
        args=tuple(backend.args or ()),
        envs=as_variables(backend.envs),
        devices=devices_of(backend.resources),
        place=source.locate(_BACKEND),
    )


def _as_elastic(source: KubernetesObject, elastic: _Elastic | None) -> ElasticConfig | None:
    if elastic is None:
        return None
    return ElasticConfig(
        min_replicas=elastic.min_replicas,
        max_replicas=elastic.max_replicas,
        trigger_place=place_of_trigger(source, (*_ELASTIC, "scaleTrigger"), elastic.scale_trigger),
        place=source.locate(_ELASTIC),
    )
