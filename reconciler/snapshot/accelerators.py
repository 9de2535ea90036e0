"""Accelerators: the catalog of a cluster, what a variant runs on, and what else it may run on."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace

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
from reconciler.domain.settings import ModelSettings, PoolSettings
from reconciler.domain.snapshot import Option
from reconciler.domain.variant_forms import Form
from reconciler.domain.variant_settings import CHOOSE, IN_ORDER, KEEP
from reconciler.domain.workloads import NodeTerm, Workload
from reconciler.resources.llmaz.models import order_flavors, recognise_flavor
from reconciler.resources.variants import Flavor, FlavorChoice, ListedCost, VariantResource

# --- was reconciler/snapshot/catalogs.py:
# The catalog of a cluster: what is configured, what upstream's ConfigMap lists, and common product names.

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


# --- was reconciler/snapshot/variants/options.py:
# Which accelerators a variant may run on, what a replica takes and costs there, and whether Git can say so.

_LISTING = (Form.PROFILE, Form.FLAVORS)
"""The forms that list accelerators themselves."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """What a variant runs on now; `accelerator` None is unknown."""

    accelerator: Accelerator | None
    resource: VariantResource
    workload: Workload | None


def profiles_for(resource: VariantResource, model: ModelSettings | None) -> tuple[PerformanceProfile, ...]:
    """The resource's own profiles, else those the configuration gives for its model."""
    return resource.profiles or (model.profiles if model is not None else ())


def options_for(
    catalog: Catalog, running: Running, profiles: Iterable[PerformanceProfile], allowed: Sourced[str]
) -> tuple[Option, ...]:
    """The options a variant has under its `accelerator` setting, in the order of its profiles.

    `choose` and `in-order` admit every profile of a resource that lists accelerators itself; a resource that only
    names a target keeps the accelerator it runs on, unless the setting names another. What it runs on is an option
    even where it may not stay: what its replicas carry must be known. Of two profiles for one accelerator the first
    counts.
    """
    options: dict[str, Option] = {}
    flavors = running.resource.flavors
    listed = (
        _on_accelerators(catalog, running, profiles)
        if flavors is None
        else _on_flavors(catalog, running, profiles, flavors)
    )
    for option in listed:
        options.setdefault(option.accelerator, option)
    words = KEEP, CHOOSE, IN_ORDER
    wanted = allowed.value if allowed.value in words else find_or_name(catalog, allowed.value).name
    ruled = (_ruled(running, option, wanted, allowed) for option in options.values())
    return tuple(option for option in ruled if option is not None)


def devices_of(accelerator: Accelerator, workload: Workload | None) -> int:
    """How many accelerators one replica takes, by its containers; 1 where they do not say."""
    asked = workload.devices.get(accelerator.resource, 0) if workload is not None else 0
    return max(asked // accelerator.devices, 1)


def _ruled(running: Running, option: Option, wanted: str, allowed: Sourced[str]) -> Option | None:
    """The option as the setting admits it; None when it does not."""
    is_current = running.accelerator is not None and option.accelerator == running.accelerator.name
    if wanted in (CHOOSE, IN_ORDER):
        return option if is_current or running.resource.form in _LISTING else None
    if wanted in (KEEP, option.accelerator):
        return option if is_current or wanted != KEEP else None
    words = f"only {wanted} is allowed ({allowed.source})"
    unwritable = Hold(kind=HoldKind.ACCELERATOR_UNAVAILABLE, words=words, place=allowed.source.place)
    return replace(option, unwritable=unwritable) if is_current else None


def _on_accelerators(catalog: Catalog, running: Running, profiles: Iterable[PerformanceProfile]) -> Iterator[Option]:
    for profile in profiles:
        accelerator = find_or_name(catalog, profile.accelerator)
        count = profile.accelerators_per_replica or devices_of(accelerator, running.workload)
        unwritable = _hold_on(running, accelerator) or _unlike_parallel(running, accelerator, count)
        yield _option(profile, accelerator, count, unwritable)


def _on_flavors(
    catalog: Catalog, running: Running, profiles: Iterable[PerformanceProfile], choice: FlavorChoice
) -> Iterator[Option]:
    """The flavors that a profile was measured for: of their accelerator, with as many of it where the profile says."""
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
    """Why Git cannot be edited from the current accelerator to this one; None when it can or need not."""
    if running.accelerator is None or accelerator.name == running.accelerator.name:
        return None
    if accelerator.resource != running.accelerator.resource:
        return _of_another_vendor(accelerator, running.accelerator)
    if not accelerator.node_selector:
        return _not_writable(f"which nodes hold {accelerator.name} is not known: set accelerators[].nodeSelector")
    return (
        _left_behind(running, running.accelerator, accelerator)
        or _kept_by_affinity(running, running.accelerator, accelerator)
        or _pinned(running, accelerator)
        or _unplaceable(running)
        or _immovable(running)
    )


def _hold_on_flavor(running: Running, accelerator: Accelerator, flavor: Flavor, choice: FlavorChoice) -> Hold | None:
    """Why llmaz could not be told to run on this flavor; None when it can or need not."""
    if running.accelerator is None or accelerator.name == running.accelerator.name:
        return None
    if accelerator.resource != running.accelerator.resource:
        return _of_another_vendor(accelerator, running.accelerator)
    if choice.is_placed is False:
        return _not_writable("its pods do not go to inftyai-scheduler: a flavor's nodes mean nothing to any other")
    if not flavor.node_selector:
        words = f"flavor {flavor.name} has no nodeSelector: its pods could run anywhere ({flavor.place})"
        return _not_writable(words, flavor.place)
    return _immovable(running)


def _left_behind(running: Running, current: Accelerator, accelerator: Accelerator) -> Hold | None:
    """Why the node selector of the current accelerator would keep pods off the nodes of another."""
    pods = running.workload.pods if running.workload is not None else ()
    left = (key for key in current.node_selector if key not in accelerator.node_selector)
    key = next((key for key in left if any(key in pod.node_selector for pod in pods)), "")
    words = f"nodeSelector {key} of {current.name} would stay: give {accelerator.name} one in accelerators[]"
    return _not_writable(words) if key else None


def _kept_by_affinity(running: Running, current: Accelerator, accelerator: Accelerator) -> Hold | None:
    """Why required affinity on what tells accelerators apart would keep pods off the nodes of another."""
    workload = running.workload
    keys = {*current.node_selector, *accelerator.node_selector}
    for pod in workload.pods if workload is not None else ():
        refusing = [_refusing_key(term, accelerator.node_selector, keys) for term in pod.terms]
        if refusing and all(refusing):
            words = (
                f"required node affinity on {refusing[0]} keeps it off the nodes of {accelerator.name}: "
                "use a nodeSelector, or list their value there"
            )
            return _not_writable(words, workload.place if workload is not None else None)
    return None


def _refusing_key(term: NodeTerm, labels: Mapping[str, str], keys: Set[str]) -> str:
    """The label that keeps nodes with these labels out of a term; empty where none does, as far as they are known."""
    failed = (key for key, operator, values in sorted(term) if _fails(labels.get(key), operator, values))
    return next((key for key in failed if key in keys), "")


def _fails(label: str | None, operator: str, values: Sequence[str]) -> bool:
    if operator == "In":
        return label not in values
    return label is not None and (operator == "DoesNotExist" or (operator == "NotIn" and label in values))


def _pinned(running: Running, accelerator: Accelerator) -> Hold | None:
    """Why pods stay on machines of one kind, whose devices are those that they have."""
    workload = running.workload
    for pod in workload.pods if workload is not None else ():
        for key in MACHINE_KEYS:
            if key not in accelerator.node_selector and (key in pod.node_selector or key in pod.affinity):
                words = (
                    f"{key} keeps it on machines of one kind: remove it by hand, "
                    f"or give {accelerator.name} one in accelerators[].nodeSelector"
                )
                return _not_writable(words, workload.place if workload is not None else None)
    return None


def _unlike_parallel(running: Running, accelerator: Accelerator, count: int) -> Hold | None:
    """Why an engine would not use the devices of another accelerator: how many it spreads over is in its arguments."""
    workload, devices = running.workload, count * accelerator.devices
    launch = workload.launch if workload is not None else None
    is_current = running.accelerator is None or accelerator.name == running.accelerator.name
    if workload is None or (launch is None and not workload.spread) or is_current:
        return None
    asked = workload.devices.get(accelerator.resource, devices)
    parallel = str(launch.parallel or "") if launch is not None else workload.spread
    if asked == devices or parallel == str(devices):
        return None
    started = parallel if parallel.isdigit() else "a number that nobody can read here"
    words = (
        f"{accelerator.name} takes {devices} devices a replica instead of {asked}, and its engine is started for "
        f"{started} (tensor parallel): change its arguments and its devices together"
    )
    return _not_writable(words, workload.place)


def _unplaceable(running: Running) -> Hold | None:
    """Why no node selector can be written for its pods."""
    workload = running.workload
    if workload is None:
        return None
    if not workload.pods:
        return _not_writable(
            f"where a {workload.key.kind} is placed is not ours to write: change its accelerator by hand"
        )
    words = next((f"{pod.unplaceable} ({workload.place})" for pod in workload.pods if pod.unplaceable), "")
    return _not_writable(words, workload.place) if words else None


def _immovable(running: Running) -> Hold | None:
    """Why no accelerator can be written where this is declared, whichever it is."""
    labels = running.resource.labels_at
    if labels is not None and not labels.is_writable:
        return _not_writable(f"its label {ACCELERATOR_LABEL} cannot be written: {labels.reason}")
    return running.workload.immovable if running.workload is not None else None


def _of_another_vendor(accelerator: Accelerator, current: Accelerator) -> Hold:
    return _not_writable(
        f"{accelerator.name} is asked for as {accelerator.resource}, the containers ask for {current.resource}: "
        "another vendor needs another image"
    )


def _not_writable(words: str, place: Place | None = None) -> Hold:
    return Hold(kind=HoldKind.NOT_WRITABLE, words=words, place=place)
