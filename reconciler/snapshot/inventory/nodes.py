"""What type of device a node offers: its labels are recognised as a manifest's node selector is."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from reconciler.domain.inventory import Accelerator, Catalog
from reconciler.domain.products import PRODUCT_KEYS, PRODUCTS
from reconciler.domain.settings import Settings
from reconciler.metrics.queries.devices import DeviceNames
from reconciler.metrics.queries.expressions import exported_label, exported_resource

WHOLE_DEVICES = (
    "nvidia.com/gpu",
    "amd.com/gpu",
    "intel.com/gpu",
    "gpu.intel.com/i915",
    "gpu.intel.com/xe",
    "habana.ai/gaudi",
)
"""Resources that count whole devices, whatever an accelerator says of itself."""
SLICES = "nvidia_com_mig_.*"
"""As they are exported: of a node that cuts its devices in several ways."""
INSTANCE_TYPE = "node.kubernetes.io/instance-type"
_PART = re.compile(r"-MIG-|-SHARED$", re.IGNORECASE)
"""In a product's name: its devices are slices, or one device is counted several times."""
_WORD_ENDS = re.compile(r"[^0-9a-z]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Offered:
    """The type of a node's devices; `is_known`: an accelerator or a common product name says it, else the label."""

    device: str
    is_known: bool


def device_names(settings: Settings) -> DeviceNames:
    """What to ask of nodes so that every configured accelerator can be recognised."""
    own = sorted({accelerator.resource for accelerator in settings.accelerators} - set(WHOLE_DEVICES))
    keys = sorted({key for accelerator in settings.accelerators for key in accelerator.node_selector})
    return DeviceNames(
        resources=(*map(exported_resource, (*WHOLE_DEVICES, *own)), SLICES),
        labels=tuple(dict.fromkeys((*PRODUCT_KEYS, INSTANCE_TYPE, *keys))),
    )


def device_offered(catalog: Catalog, labels: Mapping[str, str], resource: str) -> Offered | None:
    """The type of what a node offers under `resource`, both as they are exported; None where no label says it."""
    product = next((labels[key] for key in map(exported_label, PRODUCT_KEYS) if key in labels), "")
    common = PRODUCTS.get(product.lower(), "")
    names = (product, common, labels.get(exported_label(INSTANCE_TYPE), ""))
    accelerator = _by_selector(catalog, labels) or _by_name(catalog, names, labels)
    device = accelerator.device if accelerator is not None else common or product
    if not device:
        return None
    is_whole = resource in map(exported_resource, WHOLE_DEVICES)
    if is_whole or (accelerator is not None and exported_resource(accelerator.resource) == resource):
        is_part = accelerator is None and _PART.search(product) is not None
        return Offered(device=device, is_known=accelerator is not None or bool(common) or is_part)
    return Offered(device=f"{device} as {resource}", is_known=True)


def may_be(product: str, device: str) -> bool:
    """Whether a product that nothing knows could be the device by its name (`NVIDIA-H100-96GB`, `H100`)."""
    words = _WORD_ENDS.split(product.lower())
    wanted = [word for word in _WORD_ENDS.split(device.lower()) if word]
    return bool(wanted) and all(word in words for word in wanted)


def _by_name(catalog: Catalog, names: Iterable[str], labels: Mapping[str, str]) -> Accelerator | None:
    """The accelerator that a node's product names, unless it is told by labels that this node does not have."""
    for accelerator in map(catalog.find, names):
        if accelerator is None:
            continue
        beside = {key: value for key, value in accelerator.node_selector.items() if key not in PRODUCT_KEYS}
        if all(labels.get(exported_label(key)) == value for key, value in beside.items()):
            return accelerator
    return None


def unexported_keys(catalog: Catalog, device: str, exported: Iterable[str]) -> tuple[str, ...]:
    """Labels that a device's accelerators are told by, beside its product, and that no node is said to have."""
    known = {*exported, *map(exported_label, PRODUCT_KEYS)}
    keys = {
        key
        for accelerator in catalog.accelerators.values()
        if accelerator.device == device
        for key in accelerator.node_selector
    }
    return tuple(sorted(key for key in keys if exported_label(key) not in known))


def _by_selector(catalog: Catalog, labels: Mapping[str, str]) -> Accelerator | None:
    """The accelerator whose node selector the node fits; the one that says most, then the first."""
    fitting = [
        accelerator
        for accelerator in catalog.accelerators.values()
        if accelerator.node_selector
        and all(labels.get(exported_label(key)) == value for key, value in accelerator.node_selector.items())
    ]
    return max(fitting, key=lambda accelerator: len(accelerator.node_selector), default=None)
