"""Accelerators: the catalog of a cluster, and the present and possible accelerators of a variant."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain

from reconciler.domain.holds import Hold, HoldKind
from reconciler.domain.identity import Place, Sourced
from reconciler.domain.inventory import (
    ACCELERATOR_LABEL,
    MACHINE_KEYS,
    PRODUCT_KEYS,
    PRODUCTS,
    VENDORS,
    Accelerator,
    Catalog,
)
from reconciler.domain.profiles import PerformanceProfile
from reconciler.domain.records import dataclass, replace
from reconciler.domain.settings import ModelSettings, PoolSettings
from reconciler.domain.snapshot import Form, Option, Variant
from reconciler.domain.variant_settings import CHOOSE, IN_ORDER, KEEP
from reconciler.domain.workloads import NodeTerm, Workload
from reconciler.resources.variants import Flavor, FlavorChoice, ListedCost, VariantResource

# ---- the catalog of a cluster, from the configuration, upstream's ConfigMap, and common product names


def build_catalog(
    configured: Iterable[Accelerator], listed: Iterable[ListedCost], pools: Iterable[PoolSettings] = ()
) -> Catalog:
    """Configured facts first; a ConfigMap adds missing ones (price, product label).

    The price of a pool takes precedence: it is the price in this cluster.
    """
    known = {accelerator.name: accelerator for accelerator in configured}
    for cost in listed:
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
    for pool in pools:
        if pool.cost_per_hour is None:
            continue
        if all(accelerator.device != pool.device for accelerator in known.values()):
            known.setdefault(pool.device, _named(pool.device))
        for name, accelerator in known.items():
            if accelerator.device == pool.device:
                price = pool.cost_per_hour * accelerator.devices
                known[name] = replace(accelerator, cost_per_hour=price, cost_place=pool.place)
    return Catalog(accelerators=known, names=_names_of(known))


def _names_of(known: Mapping[str, Accelerator]) -> dict[str, str]:
    """Every spelling, the weakest first, so that a configured name beats a common product name."""
    names = {spelling: name for spelling, name in PRODUCTS.items() if name in known}
    for accelerator in known.values():
        selector = accelerator.node_selector.items() if accelerator.devices == 1 else ()
        names.update((value.lower(), accelerator.name) for key, value in selector if key in PRODUCT_KEYS)
    for accelerator in known.values():
        spellings = (*accelerator.aliases, accelerator.label_value, accelerator.name)
        names.update((spelling.lower(), accelerator.name) for spelling in spellings if spelling)
    return names


def _named(name: str) -> Accelerator:
    counted = re.fullmatch(r"(\d+)x(.+)", name)
    if counted is None:
        return Accelerator(name=name, device=name)
    return Accelerator(name=name, device=counted[2], devices=int(counted[1]))


def find_or_name(catalog: Catalog, spelling: str) -> Accelerator:
    """The accelerator of that name; one that is not in the catalog has no price or nodes."""
    return catalog.find(spelling) or _named(PRODUCTS.get(spelling.lower(), spelling))


# ---- the present accelerator of a workload


def recognise(
    catalog: Catalog, workload: Workload | None, label: str, profiled: Iterable[str]
) -> tuple[Accelerator | None, str]:
    """The accelerator of a workload, and its source.

    The first of: node selector, required affinity on a product label, the resource's accelerator label. A single device
    (H100) means a group of it (2xH100) that the label or a profile names and the container's device count fits.
    """
    if workload is not None:
        carried = [
            accelerator
            for accelerator in catalog.accelerators.values()
            if accelerator.node_selector and accelerator.node_selector.items() <= workload.node_selector.items()
        ]
        # the one with most labels, then the first
        selected = max(carried, key=lambda accelerator: len(accelerator.node_selector), default=None)
        if selected is not None:
            return _of_device(catalog, selected, workload, label, profiled), "node selector"
        node_selector = {key: (value,) for key, value in workload.node_selector.items()}
        for source, labels in (("node selector", node_selector), ("affinity", workload.affinity)):
            for key in PRODUCT_KEYS:
                names = {find_or_name(catalog, value).name for value in labels.get(key, ())}
                if len(names) == 1:
                    found = find_or_name(catalog, names.pop())
                    return _of_device(catalog, found, workload, label, profiled), source
    if label:
        return find_or_name(catalog, label), "label inference.optimization/acceleratorName"
    return None, ""


def _of_device(
    catalog: Catalog, found: Accelerator, workload: Workload, label: str, profiled: Iterable[str]
) -> Accelerator:
    requested = workload.devices.get(found.resource, 0)
    named = {each.name: each for each in (find_or_name(catalog, name) for name in (label, *profiled) if name)}
    others = [each for each in named.values() if each.device == found.device and each.devices != found.devices]
    meant = [*others, found] if found.name in named else others
    for accelerator in sorted(meant, key=lambda each: (-each.devices, each.name)):
        if requested and requested % accelerator.devices == 0:
            return accelerator
    return found


# ---- the accelerators that a variant may run on, their number and cost per replica, and whether they can be written

_LISTING = (Form.PROFILE, Form.FLAVORS)
"""The forms that list accelerators themselves."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """The present state of a variant; `accelerator` is None if unknown."""

    accelerator: Accelerator | None
    resource: VariantResource
    workload: Workload | None


def profiles_for(
    resource: VariantResource, model: ModelSettings | None, measured: tuple[PerformanceProfile, ...] = ()
) -> tuple[PerformanceProfile, ...]:
    """The resource's own profiles, else those configured for its model, then those that its canaries measured."""
    return resource.profiles or (*(model.profiles if model is not None else ()), *measured)


def options_for(
    catalog: Catalog, running: Running, profiles: Iterable[PerformanceProfile], allowed: Sourced[str]
) -> tuple[Option, ...]:
    """The options of a variant under its `accelerator` setting, in the order of its profiles.

    `choose` and `in-order` allow every profile of a resource that lists accelerators itself; a resource that only names
    a target keeps its accelerator, unless the setting names another. The current accelerator is an option even if it
    must change, as the capacity of its replicas must be known. Of two profiles for one accelerator the first counts.
    """
    options: dict[str, Option] = {}
    flavors = running.resource.flavors
    if flavors is not None:
        listed = _on_flavors(catalog, running, profiles, flavors)
    else:
        listed = _on_accelerators(catalog, running, profiles)
    for option in listed:
        options.setdefault(option.accelerator, option)
    words = KEEP, CHOOSE, IN_ORDER
    wanted = allowed.value if allowed.value in words else find_or_name(catalog, allowed.value).name
    current = running.accelerator.name if running.accelerator is not None else None
    kept = []
    for option in options.values():
        is_current = option.accelerator == current
        if wanted in (CHOOSE, IN_ORDER, option.accelerator):
            is_kept = is_current or wanted == option.accelerator or running.resource.form in _LISTING
            kept += [option] if is_kept else []
        elif is_current:
            only = f"only {wanted} is allowed ({allowed.source})"
            hold = Hold(kind=HoldKind.ACCELERATOR_UNAVAILABLE, words=only, place=allowed.source.place)
            kept.append(option if wanted == KEEP else replace(option, unwritable=hold))
    return tuple(kept)


def accelerators_now(variant: Variant, catalog: Catalog) -> int:
    """How many of the present accelerators one replica takes."""
    name = variant.current.accelerator
    counts = [option.accelerators_per_replica for option in variant.options if option.accelerator == name]
    return counts[0] if counts else devices_of(find_or_name(catalog, name), variant.workload)


def devices_of(accelerator: Accelerator, workload: Workload | None) -> int:
    """How many accelerators one replica takes, by its containers; 1 if they do not say."""
    asked = workload.devices.get(accelerator.resource, 0) if workload is not None else 0
    return max(asked // accelerator.devices, 1)


def _on_accelerators(catalog: Catalog, running: Running, profiles: Iterable[PerformanceProfile]) -> Iterator[Option]:
    for measured in profiles:
        accelerator = find_or_name(catalog, measured.accelerator)
        profile = _as_started(measured, running.workload)
        count = profile.accelerators_per_replica or devices_of(accelerator, running.workload)
        unwritable = _hold_on(running, accelerator) or _unlike_parallel(running, accelerator, count)
        yield _option(profile, accelerator, count, unwritable)


def _as_started(profile: PerformanceProfile, workload: Workload | None) -> PerformanceProfile:
    """The profile of an engine that is started for fewer requests at once than it was measured with."""
    most = workload.launch.written_num_seqs if workload is not None and workload.launch is not None else None
    return profile if most is None or most >= profile.max_batch_size else replace(profile, max_batch_size=most)


def _on_flavors(
    catalog: Catalog, running: Running, profiles: Iterable[PerformanceProfile], choice: FlavorChoice
) -> Iterator[Option]:
    """The flavors that a profile was measured for: with its accelerator, and its number of them if it has one."""
    from reconciler.resources.llmaz.models import order_flavors, recognise_flavor

    profiles = list(profiles)
    for ranked in choice.ranked:
        flavor = ranked.flavor
        accelerator = recognise_flavor(flavor, catalog)[0] if flavor is not None else None
        if flavor is None or accelerator is None:
            continue
        count = choice.pods * max(flavor.devices.get(accelerator.resource, 0) // accelerator.devices, 1)
        for profile in profiles:
            is_meant = find_or_name(catalog, profile.accelerator).name == accelerator.name
            if is_meant and profile.accelerators_per_replica in (None, count):
                option = _option(profile, accelerator, count, _hold_on_flavor(running, accelerator, flavor, choice))
                yield replace(option, flavors=order_flavors(choice.ranked, flavor.name))


def _option(profile: PerformanceProfile, accelerator: Accelerator, count: int, unwritable: Hold | None) -> Option:
    price = accelerator.cost_per_hour
    return Option(
        profile=profile,
        accelerator=accelerator.name,
        accelerators_per_replica=count,
        devices_per_replica=count * accelerator.devices,
        resource=accelerator.resource,
        cost_per_hour=None if price is None else price * count,
        cost_place=accelerator.cost_place or accelerator.place,
        unwritable=unwritable,
    )


def _hold_on(running: Running, accelerator: Accelerator) -> Hold | None:
    """Why Git cannot be edited from the current accelerator to this one; None if it can or need not."""
    current, workload = running.accelerator, running.workload
    if current is None or accelerator.name == current.name or accelerator.resource != current.resource:
        return _hold_on_vendor(accelerator, current)
    if not accelerator.node_selector:
        return _not_writable(f"the nodes of {accelerator.name} are not known: set accelerators[].nodeSelector")
    if workload is None:
        return _immovable(running)
    kept = next(_kept_by_selector(workload, current, accelerator), "")
    if kept:
        return _not_writable(kept)
    reason = next(_kept(workload, current, accelerator), "")
    if reason:
        return _not_writable(reason, workload.place)
    if not workload.pods:
        kind = workload.key.kind
        return _not_writable(f"the placement of a {kind} cannot be written: change its accelerator by hand")
    return _immovable(running)


def why_kept(workload: Workload, current: Accelerator, accelerator: Accelerator) -> str:
    """Why pods like these would not run on another accelerator, whose node selector they get for what names a product.

    Empty where they would.
    """
    unnamed = replace(
        current, node_selector={key: each for key, each in current.node_selector.items() if key not in PRODUCT_KEYS}
    )
    selected = _kept_by_selector(workload, unnamed, accelerator)
    return next(chain(selected, _kept(workload, current, accelerator)), "")


def _kept_by_selector(workload: Workload, current: Accelerator, accelerator: Accelerator) -> Iterator[str]:
    for key in current.node_selector:
        if key not in accelerator.node_selector and any(key in pod.node_selector for pod in workload.pods):
            yield f"nodeSelector {key} of {current.name} would stay: give {accelerator.name} one in accelerators[]"


def _kept(workload: Workload, current: Accelerator, accelerator: Accelerator) -> Iterator[str]:
    yield from _kept_by_affinity(workload, current, accelerator)
    yield from _kept_by_machine(workload, accelerator)
    yield from (f"{pod.unplaceable} ({workload.place})" for pod in workload.pods if pod.unplaceable)


def _kept_by_affinity(workload: Workload, current: Accelerator, accelerator: Accelerator) -> Iterator[str]:
    """Required affinity on labels of accelerators that excludes the nodes of another one."""
    labels = accelerator.node_selector
    keys = {*current.node_selector, *labels}

    def refusing_key(term: NodeTerm) -> str:
        failed = (key for key, operator, values in sorted(term) if _fails(labels.get(key), operator, values))
        return next((key for key in failed if key in keys), "")

    for pod in workload.pods:
        refusing = [refusing_key(term) for term in pod.terms]
        if refusing and all(refusing):
            yield (
                f"required node affinity on {refusing[0]} keeps it off the nodes of {accelerator.name}: "
                "use a nodeSelector, or list their value there"
            )


def _fails(label: str | None, operator: str, values: Sequence[str]) -> bool:
    if operator == "In":
        return label not in values
    return label is not None and (operator == "DoesNotExist" or (operator == "NotIn" and label in values))


def _kept_by_machine(workload: Workload, accelerator: Accelerator) -> Iterator[str]:
    """Selectors that keep pods on machines of one kind, with its devices."""
    for pod in workload.pods:
        for key in MACHINE_KEYS:
            if key not in accelerator.node_selector and (key in pod.node_selector or key in pod.affinity):
                yield (
                    f"{key} keeps it on machines of one kind: remove it by hand, "
                    f"or give {accelerator.name} one in accelerators[].nodeSelector"
                )


def _hold_on_flavor(running: Running, accelerator: Accelerator, flavor: Flavor, choice: FlavorChoice) -> Hold | None:
    """Why llmaz cannot be moved to this flavor; None if it can or need not."""
    current = running.accelerator
    if current is None or accelerator.name == current.name or accelerator.resource != current.resource:
        return _hold_on_vendor(accelerator, current)
    if choice.is_placed is False:
        return _not_writable("its pods do not use inftyai-scheduler: other schedulers ignore a flavor's nodes")
    if not flavor.node_selector:
        words = f"flavor {flavor.name} has no nodeSelector: its pods could run anywhere ({flavor.place})"
        return _not_writable(words, flavor.place)
    return _immovable(running)


def _unlike_parallel(running: Running, accelerator: Accelerator, count: int) -> Hold | None:
    """Why an engine would not use the devices of another accelerator: its arguments have a fixed number of them."""
    workload, devices = running.workload, count * accelerator.devices
    launch = workload.launch if workload is not None else None
    is_current = running.accelerator is None or accelerator.name == running.accelerator.name
    if workload is None or (launch is None and not workload.spread) or is_current:
        return None
    requested = workload.devices.get(accelerator.resource, devices)
    parallel = str(launch.parallel or "") if launch is not None else workload.spread
    if requested == devices or parallel == str(devices):
        return None
    started = parallel if parallel.isdigit() else "a number that cannot be read here"
    words = (
        f"{accelerator.name} takes {devices} devices a replica instead of {requested}, and its engine is started for "
        f"{started} (tensor parallel): change its arguments and its devices together"
    )
    return _not_writable(words, workload.place)


def _immovable(running: Running) -> Hold | None:
    """Why no accelerator can be written for this declaration."""
    labels = running.resource.labels_at
    if labels is not None and not labels.is_writable:
        return _not_writable(f"its label {ACCELERATOR_LABEL} cannot be written: {labels.reason}")
    return running.workload.immovable if running.workload is not None else None


def _hold_on_vendor(accelerator: Accelerator, current: Accelerator | None) -> Hold | None:
    if current is None or accelerator.name == current.name:
        return None
    return _not_writable(
        f"{accelerator.name} is requested as {accelerator.resource}, the containers request {current.resource}: "
        "another vendor needs another image"
    )


def _not_writable(words: str, place: Place | None = None) -> Hold:
    return Hold(kind=HoldKind.NOT_WRITABLE, words=words, place=place)
