"""OpenModel with its flavors, and on which accelerators a claim may run."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from reconciler.domain.identity import Finding, Place, ResourceKey, Severity
from reconciler.domain.inventory import Accelerator, Catalog
from reconciler.domain.workloads import Workload
from reconciler.manifests.wording import describe, join_words, quote
from reconciler.resources.kubernetes.fields import Time, read_quantity
from reconciler.resources.kubernetes.pods import is_device_resource
from reconciler.resources.objects import KubernetesObject, Piece, read_resource
from reconciler.resources.validation import Shape
from reconciler.resources.variants import Flavor, RankedFlavor

# --- was reconciler/domain/declared/llmaz.py:
# What llmaz declares: models with the flavors they may run on, what serves them, and how backends are started.
# `place` is where a noun stands; of a resource it is the object's first line. The replicas of a Playground or Service
# are those of the workload with the same key.

DEFAULT_BACKEND = "vllm"
MODEL_LABEL = "llmaz.io/model-name"
FAMILY_LABEL = "llmaz.io/model-family-name"


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenModel:
    """A model and its flavors, the preferred one first; of the whole cluster, so its key has no namespace."""

    key: ResourceKey
    place: Place
    family_name: str
    protocol: str = ""
    """Of the address that its weights come from, in lower case; empty where a hub has them."""
    flavors: tuple[Flavor, ...] = ()

    def find_flavor(self, name: str) -> Flavor | None:
        """The flavor of that name, as llmaz finds it: the first."""
        return next((flavor for flavor in self.flavors if flavor.name == name), None)


class ModelRole(StrEnum):
    """What a model does beside another: drafts are for speculative decoding."""

    MAIN = "main"
    DRAFT = "draft"


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRef:
    """A claimed model by its name."""

    name: str
    role: ModelRole = ModelRole.MAIN
    place: Place


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelClaim:
    """The models that are served together, at least one, and the flavors wanted, all of the model's when none is named.

    `field` is the claim's own, under which `inferenceFlavors` stands: `spec.modelClaim` or `spec.modelClaims`.
    """

    models: tuple[ModelRef, ...]
    flavor_names: tuple[str, ...] = ()
    field: tuple[str, ...] = ("spec", "modelClaim")
    place: Place
    flavors_place: Place | None = None

    @property
    def main(self) -> ModelRef:
        """The model whose flavors and name count: the first with the role main."""
        return next((model for model in self.models if model.role is ModelRole.MAIN), self.models[0])

    @property
    def is_speculative(self) -> bool:
        """Whether a draft model runs beside the main one."""
        return any(model.role is ModelRole.DRAFT for model in self.models)


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvVar:
    """A variable of the backend; empty where its value comes from elsewhere."""

    name: str
    value: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class BackendConfig:
    """How a Playground's backend is run: `args` follow those of the recommended config, the rest replaces it."""

    backend_name: str = DEFAULT_BACKEND
    version: str = ""
    config_name: str = ""
    args: tuple[str, ...] = ()
    envs: tuple[EnvVar, ...] = ()
    devices: Mapping[str, int] = field(default_factory=dict)
    place: Place | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ElasticConfig:
    """Bounds of the replicas; without a trigger nobody moves them but us."""

    min_replicas: int = 1
    max_replicas: int
    trigger_place: Place | None = None
    """Where what makes llmaz create a HorizontalPodAutoscaler stands, which then owns the replicas."""
    place: Place


@dataclass(frozen=True, slots=True, kw_only=True)
class Playground:
    """A model served by a backend of llmaz's, one pod a replica."""

    key: ResourceKey
    place: Place
    claim: ModelClaim
    replicas: int = 1
    backend: BackendConfig = field(default_factory=BackendConfig)
    elastic: ElasticConfig | None = None
    skips_loader: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class InferenceService:
    """`inference.llmaz.io` Service: models served by pods of one's own, `size` of them in the group of a replica."""

    key: ResourceKey
    place: Place
    claim: ModelClaim
    replicas: int = 1
    size: int = 1
    skips_loader: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RecommendedConfig:
    """One way to start a backend, by name."""

    name: str
    args: tuple[str, ...] = ()
    devices: Mapping[str, int] = field(default_factory=dict)
    trigger_place: Place | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BackendRuntime:
    """An inference engine and how it is started; of the whole cluster.

    `ignored` are the written fields by which nothing is decided: the lifecycle and the probes.
    """

    key: ResourceKey
    place: Place
    image: str
    version: str
    command: tuple[str, ...] = ()
    envs: tuple[EnvVar, ...] = ()
    recommended: tuple[RecommendedConfig, ...] = ()
    ignored: tuple[str, ...] = ()

    def find_config(self, name: str) -> RecommendedConfig | None:
        """The recommended config of that name."""
        return next((config for config in self.recommended if config.name == name), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class GlobalConfig:
    """llmaz's own settings: which scheduler its pods get, empty for the cluster's default."""

    cluster: str
    place: Place
    scheduler_name: str = ""


Serving = Playground | InferenceService
"""What serves a model: both claim models and have replicas."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Llmaz:
    """All that llmaz declares in the commit."""

    models: tuple[OpenModel, ...] = ()
    playgrounds: tuple[Playground, ...] = ()
    services: tuple[InferenceService, ...] = ()
    runtimes: tuple[BackendRuntime, ...] = ()
    configs: tuple[GlobalConfig, ...] = ()

    @property
    def servings(self) -> tuple[Serving, ...]:
        """Playgrounds, then Services."""
        return (*self.playgrounds, *self.services)


# --- was reconciler/resources/llmaz/fields.py:
# Field types that llmaz's resources share, and the rule for their names.

SKIP_LOADER = "llmaz.io/skip-model-loader"
MAX_INT32 = 2**31 - 1
_MAX_DEVICES = 10_000
_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")


def _check_quantity(written: int | str) -> int | str:
    read_quantity(written)
    return written


Written = Annotated[
    int | str, AfterValidator(_check_quantity), Field(description='a quantity like 8, "500m" or "16Gi"')
]
"""A quantity in a custom resource: unlike in a pod a fraction must stand in quotes."""
Quantities = dict[str, Written]


def count_devices(*quantities: Mapping[str, int | str] | None) -> dict[str, int]:
    """The accelerators among quantities that `check_devices` found nothing wrong with; earlier ones count first."""
    counts: dict[str, int] = {}
    for each in quantities:
        for resource, written in (each or {}).items():
            if is_device_resource(resource):
                counts.setdefault(resource, int(read_quantity(written)))
    return {resource: count for resource, count in counts.items() if count}


def check_devices(
    source: KubernetesObject, path: tuple[str | int, ...], quantities: Mapping[str, int | str] | None
) -> Iterator[Finding]:
    """Accelerators are whole: a pod with half of one is refused when it is made."""
    for resource, written in (quantities or {}).items():
        amount = read_quantity(written)
        if is_device_resource(resource) and not (amount.is_integer() and 0 <= amount <= _MAX_DEVICES):
            yield source.complain((*path, resource), f"expected a whole number of devices, got {describe(written)}")


def check_name(source: KubernetesObject) -> Iterator[Finding]:
    """The rule that llmaz adds for names: those of DNS labels, which have no dots."""
    if not _LABEL.fullmatch(source.name):
        message = "expected at most 63 lower-case letters, digits and -"
        yield source.complain(("metadata", "name"), f"{message}, got {quote(source.name)} (llmaz writes -- for a dot)")


def skips_loader(source: KubernetesObject) -> bool:
    """Whether the weights are not fetched by llmaz."""
    return source.annotations.get(SKIP_LOADER) == "true"


# --- was reconciler/resources/llmaz/models.py:
# `llmaz.io/v1alpha1` OpenModel: where a model's weights come from and which flavors may serve it.

_PROTOCOLS = ("oss", "s3", "gcs", "ollama", "host")
_ADDRESSES: Mapping[str, tuple[re.Pattern[str], str]] = {
    "oss": (re.compile(r"[^.]+\.[^/]+/.+", re.DOTALL), "oss://BUCKET.ENDPOINT/PATH"),
    "s3": (re.compile(r"[^/]+/.+", re.DOTALL), "s3://BUCKET/PATH"),
    "gcs": (re.compile(r"[^/]+/.+", re.DOTALL), "gcs://BUCKET/PATH"),
}
_LABEL_VALUE = re.compile(r"(([A-Za-z0-9][-A-Za-z0-9_.]{0,61})?[A-Za-z0-9])?")
_FLAVORS = ("spec", "inferenceConfig", "flavors")
_NOTES = {
    "inferenceFlavors": "llmaz up to v0.0.9 had its flavors here and drops them now: move them to "
    "inferenceConfig.flavors, and their requests to limits",
    "requests": "llmaz up to v0.1.0 had the limits of a flavor here and drops them now: rename it to limits",
}


class _Hub(Shape):
    name: Literal["Huggingface", "ModelScope"] = "Huggingface"
    model_id: Annotated[str, Field(alias="modelID")] = ""
    filename: str | None = None
    revision: str | None = None
    allow_patterns: list[str] | None = None
    ignore_patterns: list[str] | None = None


class _ModelSourceFields(Shape):
    hub: Annotated[_Hub | None, Field(alias="modelHub")] = None
    uri: str | None = None


class _Flavor(Shape):
    name: str
    limits: Quantities | None = None
    node_selector: dict[str, str] | None = None
    params: dict[str, str] | None = None


class _InferenceConfig(Shape):
    flavors: Annotated[list[_Flavor], Field(max_length=8)] | None = None


class OpenModelFields(Shape):
    """ModelSpec of an OpenModel."""

    family_name: str
    source: _ModelSourceFields
    inference_config: _InferenceConfig | None = None
    owned_by: str = "llmaz"
    created_at: Time | None = None


def read_model(source: KubernetesObject) -> Iterator[Piece]:
    """The model, or the broken resource, and all that must be said about it."""
    yield from read_resource(
        source,
        OpenModelFields,
        named=("inferenceConfig",),
        check=_check,
        build=_build,
        notes=_NOTES,
    )


def _check(source: KubernetesObject, spec: OpenModelFields) -> Iterator[Finding]:
    yield from check_name(source)
    if not _LABEL_VALUE.fullmatch(spec.family_name):
        message = "expected at most 63 letters, digits, -, _ and ., as it becomes the label llmaz.io/model-family-name"
        yield source.complain(("spec", "familyName"), f"{message}, got {quote(spec.family_name)}")
    if spec.source.hub is None and spec.source.uri is None:
        yield source.complain(("spec", "source"), "expected modelHub or uri, found neither")
    if spec.source.hub is not None:
        yield from _check_hub(source, spec.source.hub, spec.source.uri)
    if spec.source.uri is not None:
        yield from _check_uri(source, spec.source.uri)
    yield from _check_flavors(source, _flavors_of(spec))


def _check_hub(source: KubernetesObject, hub: _Hub, uri: str | None) -> Iterator[Finding]:
    path = ("spec", "source", "modelHub")
    if hub.filename and hub.name == "ModelScope":
        yield source.complain((*path, "filename"), "expected no filename with ModelScope: only Huggingface has it")
    patterns = [
        name
        for name, written in (("allowPatterns", hub.allow_patterns), ("ignorePatterns", hub.ignore_patterns))
        if written is not None
    ]
    if hub.filename and patterns:
        yield source.complain((*path, patterns[0]), f"expected no {join_words(patterns)} beside filename")
    if not hub.model_id:
        message = "expected the model's name on the hub, found nothing: llmaz takes it, and no weights are found"
        yield source.complain((*path, "modelID"), message, Severity.WARNING)
    if uri is not None:
        message = "nothing decides by it: where both are written llmaz takes modelHub"
        yield source.complain(("spec", "source", "uri"), message, Severity.WARNING)


def _check_uri(source: KubernetesObject, uri: str) -> Iterator[Finding]:
    path = ("spec", "source", "uri")
    parts = uri.split("://")
    if len(parts) != 2 or parts[0].lower() not in _PROTOCOLS:
        known = join_words([f"{protocol}://" for protocol in _PROTOCOLS])
        yield source.complain(path, f"expected an address with {known}, got {quote(uri)}")
        return
    pattern, example = _ADDRESSES.get(parts[0].lower(), (None, ""))
    if pattern is not None and not pattern.fullmatch(parts[1]):
        yield source.complain(path, f"expected an address like {example}, got {quote(uri)}")


def _check_flavors(source: KubernetesObject, flavors: list[_Flavor]) -> Iterator[Finding]:
    seen: set[str] = set()
    for index, flavor in enumerate(flavors):
        path = (*_FLAVORS, index)
        yield from check_devices(source, (*path, "limits"), flavor.limits)
        if flavor.name in seen:
            message = f"{quote(flavor.name)} is already listed above: llmaz takes the first"
            yield source.complain((*path, "name"), message, Severity.WARNING)
        seen.add(flavor.name)


def _flavors_of(spec: OpenModelFields) -> list[_Flavor]:
    return (spec.inference_config.flavors if spec.inference_config else None) or []


def _build(source: KubernetesObject, spec: OpenModelFields) -> Iterator[Piece]:
    yield OpenModel(
        key=source.key,
        place=source.place,
        family_name=spec.family_name,
        protocol="" if spec.source.hub else (spec.source.uri or "").partition("://")[0].lower(),
        flavors=tuple(_as_flavor(source, index, flavor) for index, flavor in enumerate(_flavors_of(spec))),
    )


def _as_flavor(source: KubernetesObject, index: int, flavor: _Flavor) -> Flavor:
    return Flavor(
        name=flavor.name,
        devices=count_devices(flavor.limits),
        node_selector=flavor.node_selector or {},
        params=flavor.params or {},
        place=source.locate((*_FLAVORS, index)),
    )


# --- was reconciler/resources/llmaz/flavors.py:
# What claims and flavors mean: which flavors a replica may run on, in which order, on which accelerators.

# Where clouds and node discovery say what a node is, in the order they are looked at; other labels follow.
_NODE_KEYS = (
    "karpenter.k8s.aws/instance-gpu-name",
    "node.kubernetes.io/instance-type",
    "cloud.google.com/gke-accelerator",
    "nvidia.com/gpu.product",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Spelling:
    """A text that may name an accelerator, and in words where it stands."""

    text: str
    source: str


def rank_flavors(claim: ModelClaim, model: OpenModel | None) -> tuple[RankedFlavor, ...]:
    """The flavors of a claim in its order, else all of the main model's in the model's; drafts have no say."""
    if claim.flavor_names:
        names = tuple(dict.fromkeys(claim.flavor_names))
        return tuple(
            RankedFlavor(name=name, rank=rank, flavor=model.find_flavor(name) if model is not None else None)
            for rank, name in enumerate(names)
        )
    firsts: dict[str, Flavor] = {}
    for flavor in model.flavors if model is not None else ():
        firsts.setdefault(flavor.name, flavor)
    return tuple(RankedFlavor(name=name, rank=rank, flavor=each) for rank, (name, each) in enumerate(firsts.items()))


def list_spellings(flavor: Flavor) -> Iterator[Spelling]:
    """Every text of a flavor that may name its accelerator, what says most first: llmaz has no field for a price."""
    if flavor.instance_type:
        yield Spelling(text=flavor.instance_type, source="params INSTANCE-TYPE")
    others = sorted(key for key in flavor.node_selector if key not in _NODE_KEYS)
    for key in (*_NODE_KEYS, *others):
        if flavor.node_selector.get(key):
            yield Spelling(text=flavor.node_selector[key], source=f"nodeSelector {key}")
    yield Spelling(text=flavor.name, source="flavor name")


def recognise_flavor(flavor: Flavor, catalog: Catalog) -> tuple[Accelerator | None, str]:
    """The accelerator of a flavor by the catalog's names, and what says so; None when the catalog knows none of them.

    The instance type says most; then the accelerator whose own node selector the flavor carries, then what else names
    one.
    """
    spellings = list(list_spellings(flavor))
    if flavor.instance_type and (found := catalog.find(flavor.instance_type)) is not None:
        return found, spellings[0].source
    carried = [
        accelerator
        for accelerator in catalog.accelerators.values()
        if accelerator.node_selector and accelerator.node_selector.items() <= flavor.node_selector.items()
    ]
    if carried:
        return max(carried, key=lambda accelerator: len(accelerator.node_selector)), "nodeSelector"
    for spelling in spellings:
        if (found := catalog.find(spelling.text)) is not None:
            return found, spelling.source
    return None, ""


def order_flavors(ranked: Sequence[RankedFlavor], chosen: str) -> tuple[str, ...]:
    """What `inferenceFlavors` must say so that a flavor is chosen: it alone, or before the others as fallbacks.

    llmaz injects the limits of the first, so only flavors of as many devices can stand in for it, and one without a
    node selector would let its pods run anywhere.
    """
    first = next((each.flavor for each in ranked if each.name == chosen), None)
    others = [each for each in ranked if each.name != chosen]
    if first is None or not first.node_selector:
        return (chosen,)
    is_fallback = all(
        each.flavor is not None and each.flavor.node_selector and each.flavor.devices == first.devices
        for each in others
    )
    return (chosen, *(each.name for each in others)) if is_fallback else (chosen,)


def place_on(workload: Workload, flavor: Flavor, pods: int = 1) -> Workload:
    """The scale target as llmaz makes it in a flavor: its limits in each of a replica's pods, and its nodes."""
    devices = {resource: pods * count for resource, count in flavor.devices.items()}
    return replace(
        workload,
        devices={**workload.devices, **devices},
        node_selector={**flavor.node_selector, **workload.node_selector},
        places={**workload.places, flavor.place.field: flavor.place},
    )
