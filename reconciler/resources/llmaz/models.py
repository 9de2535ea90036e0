"""OpenModel with its flavors, and on which accelerators a claim may run."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from reconciler.domain.identity import Finding, Severity
from reconciler.domain.inventory import Accelerator, Catalog
from reconciler.domain.records import dataclass, replace
from reconciler.domain.workloads import Workload
from reconciler.manifests.wording import describe, join_words, quote
from reconciler.resources.kubernetes.fields import Time, read_quantity
from reconciler.resources.kubernetes.pods import is_device_resource
from reconciler.resources.objects import KubernetesObject, Piece, Record, read_resource, repeated
from reconciler.resources.validation import Shape
from reconciler.resources.variants import Flavor, RankedFlavor

MODEL_LABEL = "llmaz.io/model-name"
FAMILY_LABEL = "llmaz.io/model-family-name"


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


class _ModelSource(Shape):
    hub: Annotated[_Hub | None, Field(alias="modelHub")] = None
    uri: str | None = None


class _Flavor(Shape):
    name: str
    limits: Quantities | None = None
    node_selector: dict[str, str] | None = None
    params: dict[str, str] | None = None


class _InferenceConfig(Shape):
    flavors: Annotated[list[_Flavor], Field(max_length=8)] | None = None


class OpenModelSpec(Shape):
    """ModelSpec of an OpenModel."""

    family_name: str
    source: _ModelSource
    inference_config: _InferenceConfig | None = None
    owned_by: str = "llmaz"
    created_at: Time | None = None


class OpenModel(Record[OpenModelSpec]):
    """A model and its flavors, the preferred one first; of the whole cluster, so its key has no namespace."""

    @property
    def protocol(self) -> str:
        """Of the address that its weights come from, in lower case; empty where a hub has them."""
        origin = self.spec.source
        return "" if origin.hub else (origin.uri or "").partition("://")[0].lower()

    @property
    def hub_id(self) -> str:
        """Its model's id on the hub that has its weights; empty for those that come from elsewhere."""
        return "" if self.spec.source.hub is None else self.spec.source.hub.model_id

    @property
    def flavors(self) -> tuple[Flavor, ...]:
        """The accelerators that a replica may run on."""
        return tuple(
            Flavor(
                name=each.name,
                devices=count_devices(each.limits),
                node_selector=each.node_selector or {},
                params=each.params or {},
                place=self.source.locate((*_FLAVORS, index)),
            )
            for index, each in enumerate(_flavors_of(self.spec))
        )


def read_model(source: KubernetesObject) -> Iterator[Piece]:
    """The model, or the broken resource, and all findings."""
    yield from read_resource(source, OpenModelSpec, OpenModel, named=("inferenceConfig",), check=_check, notes=_NOTES)


def _check(source: KubernetesObject, spec: OpenModelSpec) -> Iterator[Finding]:
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
        yield source.complain((*path, patterns[0]), f"expected no {join_words(patterns)} with filename")
    if not hub.model_id:
        message = "expected the model's name on the hub, found nothing: llmaz takes it, and no weights are found"
        yield source.complain((*path, "modelID"), message, Severity.WARNING)
    if uri is not None:
        message = "it has no effect: where both are written llmaz takes modelHub"
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
    for index, flavor in enumerate(flavors):
        yield from check_devices(source, (*_FLAVORS, index, "limits"), flavor.limits)
    for index, name in repeated(flavor.name for flavor in flavors):
        message = f"{quote(name)} is already listed above: llmaz takes the first"
        yield source.complain((*_FLAVORS, index, "name"), message, Severity.WARNING)


def _flavors_of(spec: OpenModelSpec) -> list[_Flavor]:
    return (spec.inference_config.flavors if spec.inference_config else None) or []


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


def rank_flavors(names: Sequence[str] | None, model: OpenModel | None) -> tuple[RankedFlavor, ...]:
    """The flavors that a claim names in its order, else all of the main model's in the model's; drafts do not count."""
    flavors = {flavor.name: flavor for flavor in reversed(model.flavors)} if model is not None else {}
    own = [flavor.name for flavor in model.flavors] if model is not None else []
    return tuple(
        RankedFlavor(name=name, rank=rank, flavor=flavors.get(name))
        for rank, name in enumerate(dict.fromkeys(names or own))
    )


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
    )
