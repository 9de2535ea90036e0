"""Fields that are read and by which nothing is decided: whoever writes one is told so, by `validate` alone."""

from collections.abc import Iterator, Mapping, Sequence

from reconciler.domain.declared.kthena import BACKEND_KINDS
from reconciler.domain.declared.objects import FieldPath
from reconciler.domain.findings import Finding, Severity
from reconciler.resources.objects import KubernetesObject

RULE = "undecided-field"
MEMBERS = "*"
"""In a pattern: every item of a list, every value of a mapping."""

_WEIGHTS = "where the weights come from changes no count"
_SCHEDULED = "how its pods are scheduled changes no count"
_BY_NAME = "its kind, namespace and name say what is meant"
_ROUTED = "metrics tell requests apart by the model's name alone"
_COMPARED = "the endpoint picker compares group and name"
_SHOWN = "it is shown to users of the model"
_HUB = ("name", "modelID", "filename", "revision", "allowPatterns", "ignorePatterns")

_REFERENCE = dict.fromkeys(("uid", "resourceVersion", "fieldPath"), _BY_NAME)
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
    "modelMatch.body.model.prefix": "only an exact name is found in metrics",
    "modelMatch.body.model.regex": "only an exact name is found in metrics",
    **{f"backends.*.{field}": why for field, why in _BACKEND.items()},
    **{f"backend.{field}": why for field, why in _BACKEND.items()},
}
_FOLLOWED = "the metric targets of its policy are followed, whatever requests name"
_OF_SCALED: Mapping[str, str] = {
    "modelMatch.body": _FOLLOWED,
    "backends.*.routeWeight": _FOLLOWED,
    "backends.*.loraAdapters.*.name": _FOLLOWED,
}
_OF_LONE: Mapping[str, str] = {"backends.*.routeWeight": "there is no other backend to route to"}
_TARGET: Mapping[str, str] = {
    **{f"targetRef.{field}": why for field, why in _REFERENCE.items()},
    "metricSources.*.type": "pod or prometheus stands beside it",
    "metricSources.*.prometheus.auth": "upstream ignores it, and this cluster's Prometheus is asked",
}
_BOUND_TARGET = {**_TARGET, "targetRef.apiVersion": _BY_NAME}
_UNDECIDED: Mapping[str, Mapping[str, str]] = {
    "Model": _MODEL,
    "ModelBooster": _MODEL,
    "AutoscalingPolicy": {
        f"{where}.{field}": why
        for where in ("homogeneousTarget.target", "heterogeneousTarget.params.*.target", "disaggregatedTarget")
        for field, why in _TARGET.items()
    }
    | {
        f"disaggregatedTarget.roles.*.{field}": why
        for field, why in _TARGET.items()
        if field.startswith("metricSource")
    },
    "AutoscalingPolicyBinding": {
        f"{where}.target.{field}": why
        for where in (
            "scalingConfiguration",
            "optimizerConfiguration.params.*",
            "homogeneousTarget",
            "heterogeneousTarget.params.*",
        )
        for field, why in _BOUND_TARGET.items()
    },
    "OpenModel": {
        **{f"source.modelHub.{field}": _WEIGHTS for field in _HUB},
        "source.uri": _WEIGHTS,
        "ownedBy": _SHOWN,
        "createdAt": _SHOWN,
        **{
            f"inferenceConfig.flavors.*.params.{key}": "llmaz makes no argument of it: write it in the backend's args"
            for key in ("TP", "PP", "tp", "pp")
        },
    },
    "InferenceObjective": {"poolRef.kind": _COMPARED},
    "InferenceModelRewrite": {
        "poolRef.kind": _COMPARED,
        "rules": "requests are counted under the name of the model that answers them",
    },
    "InferenceModel": {
        "poolRef.kind": _COMPARED,
        "modelName": "a pool's priority is the highest of all its models",
        "targetModels": "requests are counted under the name of the model that answers them",
    },
}
NOTED_KINDS = frozenset(_UNDECIDED)


def find_undecided(source: KubernetesObject) -> Iterator[Finding]:
    """A note for each field of the object that is written and decides nothing."""
    spec = source.fields.get("spec")
    beside = _undecided_beside(spec) if source.kind in BACKEND_KINDS and isinstance(spec, dict) else {}
    for pattern, why in (*_UNDECIDED.get(source.kind, {}).items(), *beside.items()):
        for path in _written(spec, pattern.split("."), ("spec",)):
            message = f"nothing decides by it: {why}"
            yield Finding(place=source.locate(path), severity=Severity.NOTE, message=message, rule=RULE)


def _undecided_beside(spec: Mapping[str, object]) -> Mapping[str, str]:
    """What decides nothing of a Model because of what else it says: it has a policy, or but one backend."""
    reference = spec.get("autoscalingPolicyRef")
    if spec.get("autoscalingPolicy") is not None or (isinstance(reference, dict) and reference.get("name")):
        return _OF_SCALED
    backends = spec.get("backends")
    return _OF_LONE if isinstance(backends, list) and len(backends) == 1 else {}


def _written(value: object, pattern: Sequence[str], path: FieldPath) -> Iterator[FieldPath]:
    if not pattern:
        if value is not None:
            yield path
        return
    first, *rest = pattern
    if isinstance(value, dict):
        for key in value if first == MEMBERS else (first,):
            yield from _written(value.get(key), rest, (*path, key))
    elif isinstance(value, list) and first == MEMBERS:
        for index, item in enumerate(value):
            yield from _written(item, rest, (*path, index))
