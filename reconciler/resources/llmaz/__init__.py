"""PURE. The kinds of llmaz: OpenModel, Playground, Service, BackendRuntime and its global settings."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from reconciler.domain.records import dataclass
from reconciler.resources.kinds import Family, Kind
from reconciler.resources.objects import KubernetesObject, Piece

if TYPE_CHECKING:
    from reconciler.resources.llmaz.backends import BackendRuntime
    from reconciler.resources.llmaz.models import OpenModel
    from reconciler.resources.llmaz.servings import GlobalConfig, Serving

# The schemas take 10 ms to make: they are imported when an object of llmaz is first met.
CLAIM, CLAIMS = ("spec", "modelClaim"), ("spec", "modelClaims")
GLOBAL_CONFIG_MAP = "llmaz-global-config"
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


def _read_model(source: KubernetesObject) -> Iterator[Piece]:
    from reconciler.resources.llmaz.models import read_model

    return read_model(source)


def _read_playground(source: KubernetesObject) -> Iterator[Piece]:
    from reconciler.resources.llmaz.servings import read_playground

    return read_playground(source)


def _read_service(source: KubernetesObject) -> Iterator[Piece]:
    from reconciler.resources.llmaz.servings import read_service

    return read_service(source)


def _read_runtime(source: KubernetesObject) -> Iterator[Piece]:
    from reconciler.resources.llmaz.backends import read_runtime

    return read_runtime(source)


def _read_global_config(source: KubernetesObject, entries: Mapping[str, object]) -> Iterator[Piece]:
    from reconciler.resources.llmaz.servings import read_global_config

    return read_global_config(source, entries)


@dataclass(frozen=True, slots=True, kw_only=True)
class Llmaz:
    """All that llmaz declares in the commit; Playgrounds stand before Services."""

    models: "tuple[OpenModel, ...]" = ()
    servings: "tuple[Serving, ...]" = ()
    runtimes: "tuple[BackendRuntime, ...]" = ()
    configs: "tuple[GlobalConfig, ...]" = ()


LLMAZ = Family(
    kinds={
        "OpenModel": Kind(
            versions=("llmaz.io/v1alpha1",),
            read=_read_model,
            ours_alone=True,
            is_namespaced=False,
            undecided=lambda _: _MODEL,
        ),
        "Playground": Kind(
            versions=_VERSIONS,
            read=_read_playground,
            declares_variants=True,
            is_pod_group=True,
            flavor_lists=_FLAVOR_LISTS,
        ),
        "Service": Kind(
            versions=_VERSIONS,
            read=_read_service,
            word=_GROUP,
            declares_variants=True,
            is_pod_group=True,
            flavor_lists=_FLAVOR_LISTS,
        ),
        "BackendRuntime": Kind(versions=_VERSIONS, read=_read_runtime, is_namespaced=False),
    },
    config_maps={GLOBAL_CONFIG_MAP: _read_global_config},
)
