"""PURE. The kinds of Kthena, of every generation, and which of their fields decide nothing."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from reconciler.domain.records import dataclass
from reconciler.domain.workloads import Workload
from reconciler.resources.kinds import ROLE, Family, Kind
from reconciler.resources.objects import KubernetesObject, Piece

if TYPE_CHECKING:
    from reconciler.resources.kthena.models import ModelResource
    from reconciler.resources.kthena.policies import BindingResource, PolicyResource
    from reconciler.resources.kthena.servings import ServingResource

# The schemas take 20 ms to make: they are imported when an object of Kthena is first met.

_VERSIONS = ("workload.serving.volcano.sh/v1alpha1", "registry.volcano.sh/v1alpha1", "registry.matrixinfer.ai/v1alpha1")
_MODEL_INFER_VERSIONS = ("workload.volcano.sh/v1alpha1", "workload.matrixinfer.ai/v1alpha1")
_ENTRY_POD = f"-[0-9]+-{ROLE}-[0-9]+-0"
"""Group, role and index of an entry pod."""

_WEIGHTS = "where the weights come from changes no count"
_SCHEDULED = "how its pods are scheduled changes no count"
_BY_NAME = "its kind, namespace and name identify it"
_ROUTED = "metrics distinguish requests only by the name of the model"
_UNNAMED = "only an exact name is found in metrics"
_FOLLOWED = "the metric targets of its policy are followed, whichever model requests name"
_BACKEND: Mapping[str, str] = {
    "modelURI": _WEIGHTS,
    "cacheURI": _WEIGHTS,
    "envFrom": "what other objects hold is not read",
    "schedulerName": _SCHEDULED,
    "runtimeClassName": _SCHEDULED,
    "config": "how the engine is started is read from workers[].config",
    "loraAdapterRefs": "what its adapters are called in requests is not in it",
    "loraAdapters.*.artifactURL": _WEIGHTS,
    "workers.*.image": "the type of the backend says which engine it is",
    "workers.*.tolerations": _SCHEDULED,
}
_MODEL: Mapping[str, str] = {
    "owner": "it changes no count",
    "modelMatch.headers": _ROUTED,
    "modelMatch.uri": _ROUTED,
    "modelMatch.body.model.prefix": _UNNAMED,
    "modelMatch.body.model.regex": _UNNAMED,
    **{f"backends.*.{field}": why for field, why in _BACKEND.items()},
    **{f"backend.{field}": why for field, why in _BACKEND.items()},
}
_OF_SCALED: Mapping[str, str] = {
    "modelMatch.body": _FOLLOWED,
    "backends.*.routeWeight": _FOLLOWED,
    "backends.*.loraAdapters.*.name": _FOLLOWED,
}
_OF_LONE: Mapping[str, str] = {"backends.*.routeWeight": "there is no other backend to route to"}
_TARGET: Mapping[str, str] = {
    **{f"targetRef.{field}": _BY_NAME for field in ("uid", "resourceVersion", "fieldPath")},
    "metricSources.*.type": "pod or prometheus already says it",
    "metricSources.*.prometheus.auth": "upstream ignores it, and this cluster's Prometheus is asked",
}
_POLICY: Mapping[str, str] = {
    f"{where}.{field}": why
    for where in ("homogeneousTarget.target", "heterogeneousTarget.params.*.target", "disaggregatedTarget")
    for field, why in _TARGET.items()
} | {f"disaggregatedTarget.roles.*.{field}": why for field, why in _TARGET.items() if field.startswith("metricSource")}
_BINDING: Mapping[str, str] = {
    f"{where}.target.{field}": why
    for where in (
        "scalingConfiguration",
        "optimizerConfiguration.params.*",
        "homogeneousTarget",
        "heterogeneousTarget.params.*",
    )
    for field, why in {**_TARGET, "targetRef.apiVersion": _BY_NAME}.items()
}


def _undecided_of_model(spec: Mapping[str, object]) -> Mapping[str, str]:
    """What decides nothing of a Model; more does not where it has a policy, or but one backend."""
    reference, backends = spec.get("autoscalingPolicyRef"), spec.get("backends")
    if spec.get("autoscalingPolicy") is not None or (isinstance(reference, dict) and reference.get("name")):
        return {**_MODEL, **_OF_SCALED}
    return {**_MODEL, **_OF_LONE} if isinstance(backends, list) and len(backends) == 1 else _MODEL


def _read_policy(source: KubernetesObject) -> Iterator[Piece]:
    from reconciler.resources.kthena.policies import read_policy

    return read_policy(source)


def _read_binding(source: KubernetesObject) -> Iterator[Piece]:
    from reconciler.resources.kthena.policies import read_binding

    return read_binding(source)


def _read_model(source: KubernetesObject) -> Iterator[Piece]:
    from reconciler.resources.kthena.models import read_model

    return read_model(source)


def _read_booster(source: KubernetesObject) -> Iterator[Piece]:
    from reconciler.resources.kthena.models import read_booster

    return read_booster(source)


def _read_serving(source: KubernetesObject) -> Iterator[Piece]:
    from reconciler.resources.kthena.servings import read_serving

    return read_serving(source)


@dataclass(frozen=True, slots=True, kw_only=True)
class KthenaResources:
    """All that a commit declares of Kthena, in every cluster."""

    policies: "tuple[PolicyResource, ...]" = ()
    bindings: "tuple[BindingResource, ...]" = ()
    models: "tuple[ModelResource, ...]" = ()
    servings: "tuple[ServingResource, ...]" = ()

    @property
    def workloads(self) -> tuple[Workload, ...]:
        """Whatever has replicas of its own: groups, their roles, backends."""
        groups = [serving.workload for serving in self.servings]
        roles = [role.workload for serving in self.servings for role in serving.roles]
        return (*groups, *roles, *(backend.workload for model in self.models for backend in model.backends))


KTHENA = Family(
    kinds={
        "AutoscalingPolicy": Kind(
            versions=_VERSIONS, read=_read_policy, declares_variants=True, undecided=lambda _: _POLICY
        ),
        "AutoscalingPolicyBinding": Kind(
            versions=_VERSIONS,
            read=_read_binding,
            ours_alone=True,
            declares_variants=True,
            undecided=lambda _: _BINDING,
        ),
        "Model": Kind(versions=_VERSIONS[1:], read=_read_model, declares_variants=True, undecided=_undecided_of_model),
        "ModelBooster": Kind(
            versions=_VERSIONS[:1],
            read=_read_booster,
            ours_alone=True,
            declares_variants=True,
            undecided=_undecided_of_model,
        ),
        "ModelServing": Kind(versions=_VERSIONS[:1], read=_read_serving, is_scale_target=True, pod_names=_ENTRY_POD),
        "ModelInfer": Kind(versions=_MODEL_INFER_VERSIONS, read=_read_serving, ours_alone=True, pod_names=_ENTRY_POD),
    }
)
