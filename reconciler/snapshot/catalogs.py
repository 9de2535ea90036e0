"""The catalog of a cluster: what is configured, what upstream's ConfigMap lists, and common product names."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace

from reconciler.domain.declared.declarations import ListedCost
from reconciler.domain.declared.workloads import Workload
from reconciler.domain.inventory import Accelerator, Catalog
from reconciler.domain.products import PRODUCT_KEYS, PRODUCTS, VENDORS
from reconciler.domain.settings import PoolSettings

_COUNTED = re.compile(r"(\d+)x(.+)")


def build_catalog(
    configured: Iterable[Accelerator], listed: Iterable[ListedCost], pools: Iterable[PoolSettings] = ()
) -> Catalog:
    """Configured facts first; a ConfigMap fills what they leave open (price, product label).

    What a pool's devices cost goes before any of it: that is the price in this cluster.
    """
    known = {accelerator.name: accelerator for accelerator in configured}
    for cost in listed:
        _merge_listed(known, cost)
    for pool in pools:
        _price_by_pool(known, pool)
    return Catalog(accelerators=known, names=_names_of(known))


def find_or_name(catalog: Catalog, spelling: str) -> Accelerator:
    """The accelerator of that name; one the catalog does not know is a name without price or nodes."""
    return catalog.find(spelling) or _named(PRODUCTS.get(spelling.lower(), spelling))


def recognise(
    catalog: Catalog, workload: Workload | None, label: str, profiled: Iterable[str]
) -> tuple[Accelerator | None, str]:
    """The accelerator a workload runs on, and what says so.

    First that applies: node selector, required affinity on a product label, the resource's accelerator label. Where
    a device alone is named (H100), the accelerator made of it that the label, a profile or the container's device
    count fits is meant (2xH100).
    """
    if workload is not None:
        selected = _by_selector(catalog, workload)
        if selected is not None:
            return _of_device(catalog, selected, workload, label, profiled), "node selector"
        for source, labels in (("node selector", _single(workload.node_selector)), ("affinity", workload.affinity)):
            found = _by_product(catalog, labels)
            if found is not None:
                return _of_device(catalog, found, workload, label, profiled), source
    if label:
        return find_or_name(catalog, label), "label inference.optimization/acceleratorName"
    return None, ""


def _by_selector(catalog: Catalog, workload: Workload) -> Accelerator | None:
    """The accelerator whose configured node selector the workload carries; the one that says most, then the first."""
    carried = [
        accelerator
        for accelerator in catalog.accelerators.values()
        if accelerator.node_selector and accelerator.node_selector.items() <= workload.node_selector.items()
    ]
    return max(carried, key=lambda accelerator: len(accelerator.node_selector), default=None)


def _single(node_selector: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
    return {key: (value,) for key, value in node_selector.items()}


def _by_product(catalog: Catalog, labels: Mapping[str, tuple[str, ...]]) -> Accelerator | None:
    """The one accelerator that product labels allow; None when they allow several or none."""
    for key in PRODUCT_KEYS:
        names = {find_or_name(catalog, value).name for value in labels.get(key, ())}
        if len(names) == 1:
            return find_or_name(catalog, names.pop())
    return None


def _of_device(
    catalog: Catalog, found: Accelerator, workload: Workload, label: str, profiled: Iterable[str]
) -> Accelerator:
    asked = workload.devices.get(found.resource, 0)
    named = {each.name: each for each in (find_or_name(catalog, name) for name in (label, *profiled) if name)}
    others = [each for each in named.values() if each.device == found.device and each.devices != found.devices]
    meant = [*others, found] if found.name in named else others
    for accelerator in sorted(meant, key=lambda each: (-each.devices, each.name)):
        if asked and asked % accelerator.devices == 0:
            return accelerator
    return found


def _named(name: str) -> Accelerator:
    counted = _COUNTED.fullmatch(name)
    if counted is None:
        return Accelerator(name=name, device=name)
    return Accelerator(name=name, device=counted[2], devices=int(counted[1]))


def _merge_listed(known: dict[str, Accelerator], cost: ListedCost) -> None:
    names = _names_of(known)
    name = cost.accelerator if cost.accelerator in known else names.get(cost.accelerator.lower(), cost.accelerator)
    accelerator = known.get(name) or _named(name)
    if accelerator.cost_per_hour is None:
        accelerator = replace(accelerator, cost_per_hour=cost.cost_per_hour, cost_place=cost.place)
    vendor = VENDORS.get(cost.device_label.lower().split("-")[0])
    if vendor is not None and not accelerator.node_selector:
        key, resource = vendor
        accelerator = replace(accelerator, node_selector={key: cost.device_label}, resource=resource)
    known[name] = accelerator


def _price_by_pool(known: dict[str, Accelerator], pool: PoolSettings) -> None:
    if pool.cost_per_hour is None:
        return
    if all(accelerator.device != pool.device for accelerator in known.values()):
        known.setdefault(pool.device, _named(pool.device))
    for name, accelerator in known.items():
        if accelerator.device == pool.device:
            price = pool.cost_per_hour * accelerator.devices
            known[name] = replace(accelerator, cost_per_hour=price, cost_place=pool.place)


def _names_of(known: Mapping[str, Accelerator]) -> dict[str, str]:
    """Every spelling, the weakest first, so that a configured name beats a common product name."""
    names = {spelling: name for spelling, name in PRODUCTS.items() if name in known}
    for accelerator in known.values():
        products = [value for key, value in accelerator.node_selector.items() if key in PRODUCT_KEYS]
        if accelerator.devices == 1:
            names.update((value.lower(), accelerator.name) for value in products)
    for accelerator in known.values():
        spellings = (*accelerator.aliases, accelerator.label_value, accelerator.name)
        names.update((spelling.lower(), accelerator.name) for spelling in spellings if spelling)
    return names
