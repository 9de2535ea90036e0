"""What the webhook of Model and ModelBooster refuses (kthena.md 1.6)."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from reconciler.domain.declared.places import FieldPath
from reconciler.domain.identity import Finding, Severity
from reconciler.manifests.wording import quote
from reconciler.resources.kthena.model_fields import (
    LARGEST_SUM,
    AnyBackendFields,
    AnyModelFields,
    BackendFieldsBeforeG3,
    BackendFieldsG4,
    BoosterFieldsG3,
    ModelFieldsBeforeG3,
    PolicyRefFields,
)
from reconciler.resources.kthena.policy_specs import check_spec
from reconciler.resources.kthena.scaled_targets import check_bounds
from reconciler.resources.kthena.workers import check_workers
from reconciler.resources.objects import KubernetesObject

_SPEC = ("spec",)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacedBackend:
    """A backend and where it stands."""

    fields: AnyBackendFields
    path: FieldPath


def backends_of(fields: AnyModelFields) -> tuple[PlacedBackend, ...]:
    """The backends of a spec of any generation."""
    if isinstance(fields, ModelFieldsBeforeG3):
        paths = ((*_SPEC, "backends", index) for index in range(len(fields.backends)))
        return tuple(PlacedBackend(fields=each, path=path) for each, path in zip(fields.backends, paths, strict=True))
    return (PlacedBackend(fields=fields.backend, path=(*_SPEC, "backend")),)


def ref_name(reference: PolicyRefFields | None) -> str:
    """The name of a policy that is referred to; empty when none is."""
    return (reference.name or "") if reference else ""


def has_policy(fields: AnyModelFields | AnyBackendFields) -> bool:
    """Whether a policy stands there, or the name of one."""
    if isinstance(fields, ModelFieldsBeforeG3 | BackendFieldsBeforeG3):
        return fields.autoscaling_policy is not None or bool(ref_name(fields.autoscaling_policy_ref))
    return isinstance(fields, BoosterFieldsG3) and fields.autoscaling_policy is not None


def check_model(source: KubernetesObject, fields: AnyModelFields) -> Iterator[Finding]:
    """Everything that is wrong with backends and policies, each by itself and together."""
    backends = backends_of(fields)
    if isinstance(fields, ModelFieldsBeforeG3 | BoosterFieldsG3) and fields.autoscaling_policy is not None:
        yield from check_spec(source, fields.autoscaling_policy, (*_SPEC, "autoscalingPolicy"), is_inline=True)
    yield from _check_names(source, backends)
    for backend in backends:
        yield from _check_backend(source, fields.name or source.name, backend)
    yield from _check_sum(source, backends)
    yield from _check_policies(source, fields, backends)


def _check_names(source: KubernetesObject, backends: Sequence[PlacedBackend]) -> Iterator[Finding]:
    seen: set[str | None] = set()
    for backend in backends:
        name = backend.fields.name
        if name in seen:
            message = f"backend {quote(name or '')} is already listed above"
            yield source.complain((*backend.path, "name"), message)
        seen.add(name)


def _check_backend(source: KubernetesObject, model: str, backend: PlacedBackend) -> Iterator[Finding]:
    fields, path = backend.fields, backend.path
    yield from check_workers(source, fields, path)
    if not isinstance(fields, BackendFieldsG4):
        yield from check_bounds(source, fields, path)
    if isinstance(fields, BackendFieldsBeforeG3):
        if fields.autoscaling_policy is not None:
            yield from check_spec(source, fields.autoscaling_policy, (*path, "autoscalingPolicy"), is_inline=True)
        if fields.cost is not None and fields.scaling_cost is not None:
            message = "contradicts scalingCost, its newer name: remove one of the two"
            yield source.complain((*path, "cost"), message)
        yield from _check_loras(source, model, fields, path)


def _check_loras(
    source: KubernetesObject, model: str, fields: BackendFieldsBeforeG3, path: FieldPath
) -> Iterator[Finding]:
    seen: set[str] = set()
    for index, lora in enumerate(fields.lora_adapters or ()):
        place = (*path, "loraAdapters", index, "name")
        if lora.name == model:
            yield source.complain(place, f"expected another name than the model's, got {quote(lora.name)}")
        if lora.name in seen:
            yield source.complain(place, f"LoRA adapter {quote(lora.name)} is already listed above")
        seen.add(lora.name)


def _check_sum(source: KubernetesObject, backends: Sequence[PlacedBackend]) -> Iterator[Finding]:
    total = sum(each.fields.max_replicas for each in backends if not isinstance(each.fields, BackendFieldsG4))
    if total > LARGEST_SUM:
        message = f"expected maxReplicas of at most {LARGEST_SUM} over all backends, got {total}"
        yield source.complain((*_SPEC, "backends"), message)


def _check_policies(
    source: KubernetesObject, fields: AnyModelFields, backends: Sequence[PlacedBackend]
) -> Iterator[Finding]:
    own = [backend for backend in backends if has_policy(backend.fields)]
    if has_policy(fields):
        for backend in own:
            field = _policy_field(backend)
            message = "the model has a policy too: one of both levels scales, remove the other"
            yield source.complain((*backend.path, field), message)
        if isinstance(fields, ModelFieldsBeforeG3) and not own:
            yield from _check_group(source, fields, backends)
    elif own:
        for backend in own:
            yield from _check_alone(source, backend)
        yield from _forbid_rate(source, fields, "policies of backends")
    else:
        for backend in backends:
            yield from _check_unscaled(source, backend)
        yield from _forbid_rate(source, fields, "no policy")


def _policy_field(backend: PlacedBackend) -> str:
    is_inline = isinstance(backend.fields, BackendFieldsBeforeG3) and backend.fields.autoscaling_policy is not None
    return "autoscalingPolicy" if is_inline else "autoscalingPolicyRef"


def _check_group(
    source: KubernetesObject, fields: ModelFieldsBeforeG3, backends: Sequence[PlacedBackend]
) -> Iterator[Finding]:
    """The rules of a policy over all backends; grace periods and the rate have defaults."""
    for backend, each in zip(backends, fields.backends, strict=True):
        if not (each.scaling_cost or each.cost):
            path = backend.path if each.scaling_cost is None else (*backend.path, "scalingCost")
            message = "expected a scalingCost above 0: the policy of the model splits replicas by cost"
            yield source.complain(path, message)
    if sum(each.min_replicas for each in fields.backends) < 1:
        message = "expected minReplicas of at least 1 over all backends, got 0"
        yield source.complain((*_SPEC, "backends"), message)


def _check_alone(source: KubernetesObject, backend: PlacedBackend) -> Iterator[Finding]:
    fields = backend.fields
    if isinstance(fields, BackendFieldsBeforeG3):
        if fields.min_replicas < 1:
            message = f"expected at least 1 in a backend with a policy of its own, got {fields.min_replicas}"
            yield source.complain((*backend.path, "minReplicas"), message)
        yield from _forbid_group_fields(source, fields, backend.path, "a policy of the backend")


def _check_unscaled(source: KubernetesObject, backend: PlacedBackend) -> Iterator[Finding]:
    fields = backend.fields
    if isinstance(fields, BackendFieldsG4):
        return
    if fields.min_replicas < fields.max_replicas:
        message = f"expected minReplicas ({fields.min_replicas}), since no policy scales it, got {fields.max_replicas}"
        yield source.complain((*backend.path, "maxReplicas"), message)
    if isinstance(fields, BackendFieldsBeforeG3):
        yield from _forbid_group_fields(source, fields, backend.path, "no policy")


def _forbid_group_fields(
    source: KubernetesObject, fields: BackendFieldsBeforeG3, path: FieldPath, why: str
) -> Iterator[Finding]:
    for name, value in (
        ("scalingCost", fields.scaling_cost),
        ("cost", fields.cost),
        ("scaleToZeroGracePeriod", fields.scale_to_zero_grace_period),
    ):
        if value:
            yield source.complain((*path, name), f"expected nothing with {why}: it is for a policy of the model")


def _forbid_rate(source: KubernetesObject, fields: AnyModelFields, why: str) -> Iterator[Finding]:
    if isinstance(fields, ModelFieldsBeforeG3) and fields.cost_expansion_rate_percent is not None:
        message = f"expected nothing with {why}: it is for a policy of the model"
        yield source.complain((*_SPEC, "costExpansionRatePercent"), message, Severity.ERROR)
