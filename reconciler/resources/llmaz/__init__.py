"""PURE. The kinds of llmaz: OpenModel, Playground, Service, BackendRuntime and its global settings."""

from reconciler.resources.kinds import Family, Kind
from reconciler.resources.llmaz.backends import read_runtime
from reconciler.resources.llmaz.models import read_model
from reconciler.resources.llmaz.servings import (
    CLAIM,
    CLAIMS,
    GLOBAL_CONFIG_MAP,
    read_global_config,
    read_playground,
    read_service,
)

_GROUP = "inference.llmaz.io"
_VERSIONS = (f"{_GROUP}/v1alpha1",)
_FLAVOR_LISTS = tuple((*claim, "inferenceFlavors") for claim in (CLAIM, CLAIMS))
_WEIGHTS = "where the weights come from changes no count"
_SHOWN = "it is shown to users of the model"
_NO_ARGUMENT = "llmaz makes no argument of it: write it in the backend's args"
_HUB = ("name", "modelID", "filename", "revision", "allowPatterns", "ignorePatterns")
_MODEL = {
    **{f"source.modelHub.{field}": _WEIGHTS for field in _HUB},
    "source.uri": _WEIGHTS,
    "ownedBy": _SHOWN,
    "createdAt": _SHOWN,
    **{f"inferenceConfig.flavors.*.params.{key}": _NO_ARGUMENT for key in ("TP", "PP", "tp", "pp")},
}

LLMAZ = Family(
    kinds={
        "OpenModel": Kind(
            versions=("llmaz.io/v1alpha1",),
            read=read_model,
            ours_alone=True,
            is_namespaced=False,
            undecided=lambda _: _MODEL,
        ),
        "Playground": Kind(
            versions=_VERSIONS,
            read=read_playground,
            declares_variants=True,
            is_pod_group=True,
            flavor_lists=_FLAVOR_LISTS,
        ),
        "Service": Kind(
            versions=_VERSIONS,
            read=read_service,
            word=_GROUP,
            declares_variants=True,
            is_pod_group=True,
            flavor_lists=_FLAVOR_LISTS,
        ),
        "BackendRuntime": Kind(versions=_VERSIONS, read=read_runtime, is_namespaced=False),
    },
    config_maps={GLOBAL_CONFIG_MAP: read_global_config},
)
