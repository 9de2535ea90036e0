"""What else sets replicas: `autoscaling` HorizontalPodAutoscaler and `keda.sh` ScaledObject.

Annotated `llm-d.ai/managed` one of them is a variant of its own (WVA v0.9, which has no resource): its bounds are ours.
"""

from collections.abc import Callable, Iterator, Mapping
from math import isfinite
from typing import Annotated

from pydantic import Field

from reconciler.domain.records import replace
from reconciler.domain.scalers import Scaler
from reconciler.domain.snapshot import Form, StatusShape
from reconciler.domain.workloads import ReplicaOwner
from reconciler.domain.written import WrittenField
from reconciler.manifests.wording import quote
from reconciler.resources.annotations import check_annotations
from reconciler.resources.kubernetes.scaler_settings import hpa_scaler, keda_scaler
from reconciler.resources.objects import KubernetesObject, Piece, break_on
from reconciler.resources.validation import LooseShape, NonEmpty, is_templated, validate
from reconciler.resources.variants import VariantResource

MANAGED, MODEL_ID, COST = "llm-d.ai/managed", "llm-d.ai/model-id", "llm-d.ai/variant-cost"
_PAUSED = "autoscaling.keda.sh/paused"
_TARGET = ("spec", "scaleTargetRef")
_ARGO = "argoproj.io/"
_LARGEST_COST = 1e9

_Count = Annotated[int, Field(ge=0, le=2**31 - 1)]


class _HpaTarget(LooseShape):
    kind: NonEmpty
    name: NonEmpty


class _HpaSpec(LooseShape):
    target: _HpaTarget = Field(alias="scaleTargetRef")
    least: Annotated[_Count | None, Field(alias="minReplicas")] = None
    most: Annotated[_Count | None, Field(alias="maxReplicas")] = None


class _HpaFields(LooseShape):
    spec: _HpaSpec


class _KedaTarget(LooseShape):
    kind: NonEmpty = "Deployment"
    name: NonEmpty


class _KedaSpec(LooseShape):
    target: _KedaTarget = Field(alias="scaleTargetRef")
    least: Annotated[_Count | None, Field(alias="minReplicaCount")] = None
    most: Annotated[_Count | None, Field(alias="maxReplicaCount")] = None


class _ScaledObject(LooseShape):
    spec: _KedaSpec


class _ForeignSpec(LooseShape):
    target: Annotated[_KedaTarget | None, Field(alias="scaleTargetRef")] = None
    workload: Annotated[_KedaTarget | None, Field(alias="workloadRef")] = None


class _Foreign(LooseShape):
    spec: _ForeignSpec


def read_autoscaler(source: KubernetesObject) -> Iterator[Piece]:
    """The owner of its target's replicas, and a variant where it is annotated as one."""
    names = ("minReplicas", "maxReplicas")
    validated = validate(_HpaFields, _without_templates(source.fields, *names), locate=source.locate)
    yield from break_on(source, validated.findings)
    if validated.value is not None:
        yield from _read(source, validated.value.spec, names, (1, None), hpa_scaler, makes_autoscaler=False)


def read_scaled_object(source: KubernetesObject) -> Iterator[Piece]:
    """The owner of its target's replicas, unless it is paused where they stand; a variant where annotated as one.

    `paused-replicas` pins a count of its own and stays an owner.
    """
    names = ("minReplicaCount", "maxReplicaCount")
    validated = validate(_ScaledObject, _without_templates(source.fields, *names), locate=source.locate)
    yield from break_on(source, validated.findings)
    if validated.value is not None and source.annotations.get(_PAUSED) != "true":
        yield from _read(source, validated.value.spec, names, (0, 100), keda_scaler, makes_autoscaler=True)


def scales_another(fields: object) -> bool:
    """Whether an object says that it scales another: only what sets replicas has a `scaleTargetRef`.

    A Rollout of Argo with a `workloadRef` runs that workload's pods itself, and may scale it to zero.
    """
    spec = fields.get("spec") if isinstance(fields, Mapping) else None
    if not isinstance(fields, Mapping) or not isinstance(spec, Mapping):
        return False
    reference = spec.get(_reference_of(fields))
    return isinstance(reference, Mapping) and isinstance(reference.get("name"), str)


def _reference_of(fields: Mapping[str, object]) -> str:
    version = fields.get("apiVersion")
    is_rollout = isinstance(version, str) and version.startswith(_ARGO) and fields.get("kind") == "Rollout"
    return "workloadRef" if is_rollout else "scaleTargetRef"


def read_foreign_scaler(source: KubernetesObject) -> Iterator[Piece]:
    """The owner of its target's replicas that an object of an unknown kind is; its bounds are not ours."""
    validated = validate(_Foreign, source.fields, locate=source.locate)
    reference = _reference_of(source.fields)
    spec = validated.value.spec if validated.value is not None else None
    target = None if spec is None else spec.workload if reference == "workloadRef" else spec.target
    if target is not None and not is_templated(target.name):
        yield replace(_owner(source, target), place=source.locate(("spec", reference)))


def _owner(source: KubernetesObject, target: _HpaTarget | _KedaTarget) -> ReplicaOwner:
    return ReplicaOwner(
        cluster=source.cluster,
        # A namespace that is filled in later may be any.
        namespace="" if is_templated(source.namespace) else source.namespace,
        owner=f"{source.kind} {source.name}",
        target_kind=target.kind,
        target_name=target.name,
        place=source.locate(_TARGET),
    )


def _signals(spec: object) -> Iterator[str]:
    """The names of an HPA's metrics, in all its versions, and of a ScaledObject's triggers."""
    fields = spec if isinstance(spec, Mapping) else {}
    if "targetCPUUtilizationPercentage" in fields:
        yield "cpu"
    for listed in (fields.get("metrics"), fields.get("triggers")):
        for entry in listed if isinstance(listed, list) else ():
            if isinstance(entry, Mapping):
                kind = entry.get("type")
                parts = [entry.get("metadata"), *(each for key, each in entry.items() if key != "metadata")]
                parts += [each.get("metric") for each in parts if isinstance(each, Mapping)]
                named = [each.get(key) for each in parts if isinstance(each, Mapping) for key in _SIGNAL_NAMES]
                named = [entry.get("name"), *named]
                yield next((each for each in named if isinstance(each, str)), kind if isinstance(kind, str) else "")


_SIGNAL_NAMES = ("metricName", "query", "name")


def _without_templates(fields: Mapping[str, object], *bounds: str) -> Mapping[str, object]:
    """The fields without bounds that are filled in later: they are no mistake, and not known here."""
    spec = fields.get("spec")
    if not isinstance(spec, Mapping) or not any(is_templated(spec.get(each)) for each in bounds):
        return fields
    return {**fields, "spec": {key: each for key, each in spec.items() if key not in bounds or not is_templated(each)}}


def _read(
    source: KubernetesObject,
    spec: _HpaSpec | _KedaSpec,
    names: tuple[str, str],
    defaults: tuple[int, int | None],
    read_scaler: Callable[[KubernetesObject, int, int | None], Scaler],
    *,
    makes_autoscaler: bool,
) -> Iterator[Piece]:
    """The owner with its bounds, which are under `names` and count as `defaults` where nothing is written."""
    target, written = spec.target, (spec.least, spec.most)
    if is_templated(target.name) or is_templated(target.kind):
        return
    bounds = tuple(
        WrittenField(
            document=source.ref,
            field=("spec", name),
            place=source.locate(("spec", name)),
            is_ceiling=name == names[1],
            written=number,
            value=default if number is None else number,
        )
        for name, number, default in zip(names, written, defaults, strict=True)
    )
    fields = source.fields.get("spec")
    is_known = isinstance(fields, Mapping) and not any(is_templated(fields.get(name)) for name in names)
    yield replace(
        _owner(source, target),
        least=bounds[0].value,
        makes_autoscaler=makes_autoscaler,
        signals=tuple(dict.fromkeys(_signals(source.fields.get("spec")))),
        fields=bounds if is_known else (),
        scaler=read_scaler(source, bounds[0].value or 0, bounds[1].value),
    )
    if source.annotations.get(MANAGED) == "true" and not is_templated(source.namespace):
        yield from _variant(source, target)


def _variant(source: KubernetesObject, target: _HpaTarget | _KedaTarget) -> Iterator[Piece]:
    """What upstream discovers in place of a resource: the annotations are its spec (rules/upstream.md#annotations)."""
    model_id, cost = source.annotations.get(MODEL_ID, ""), source.annotations.get(COST)
    checked = check_annotations(source)
    findings = list(checked.findings)
    if not model_id:
        path = ("metadata", "annotations", MODEL_ID)
        findings.append(source.complain(path, f"expected the id of the model with {MANAGED}, found nothing"))
    relative_cost = None if cost is None else _parse_cost(cost)
    if cost is not None and relative_cost is None:
        path = ("metadata", "annotations", COST)
        findings.append(source.complain(path, f"expected a decimal number of at least 0, got {quote(cost)}"))
    broken = tuple(break_on(source, tuple(findings)))
    yield from broken
    if len(broken) > len(findings):
        return
    yield VariantResource(
        key=source.key,
        document=source.ref,
        place=source.place,
        form=Form.ANNOTATED,
        status_shape=StatusShape.NONE,
        model_id=model_id,
        target_kind=target.kind,
        target_name=target.name,
        variant_cost=relative_cost,
        labels=source.labels,
        settings=checked.settings,
    )


def _parse_cost(text: str) -> float | None:
    try:
        cost = float(text)
    except ValueError:
        return None
    return cost if isfinite(cost) and 0 <= cost <= _LARGEST_COST else None
