"""Which accelerators a variant may run on, what a replica takes and costs there, and whether Git can say so."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from reconciler.decision.catalogs import find_or_name
from reconciler.domain.accelerators import Accelerator, Catalog
from reconciler.domain.declarations import Form, VariantResource, Workload
from reconciler.domain.profiles import PerformanceProfile
from reconciler.domain.provenance import Sourced
from reconciler.domain.settings import ModelSettings
from reconciler.domain.variants import Option

KEEP, CHOOSE, IN_ORDER = "keep", "choose", "in-order"


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
    for profile in profiles:
        option = _option(catalog, running, profile)
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
        return option if is_current or running.resource.form is Form.PROFILE else None
    if wanted in (KEEP, option.accelerator):
        return option if is_current or wanted != KEEP else None
    return replace(option, unwritable=f"only {wanted} is allowed ({allowed.source})") if is_current else None


def _option(catalog: Catalog, running: Running, profile: PerformanceProfile) -> Option:
    accelerator = find_or_name(catalog, profile.accelerator)
    count = profile.accelerators_per_replica or devices_of(accelerator, running.workload)
    price = accelerator.cost_per_hour
    return Option(
        profile=profile,
        accelerator=accelerator.name,
        accelerators_per_replica=count,
        devices_per_replica=count * accelerator.devices,
        resource=accelerator.resource,
        cost_per_hour=None if price is None else price * count,
        cost_place=accelerator.cost_place or accelerator.place,
        unwritable=_obstacle_to(running, accelerator),
    )


def _obstacle_to(running: Running, accelerator: Accelerator) -> str:
    """Why Git cannot be edited from the current accelerator to this one; empty when it can or need not."""
    if running.accelerator is None or accelerator.name == running.accelerator.name:
        return ""
    if accelerator.resource != running.accelerator.resource:
        return (
            f"{accelerator.name} is asked for as {accelerator.resource}, the containers ask for "
            f"{running.accelerator.resource}: another vendor needs another image"
        )
    if not accelerator.node_selector:
        return f"which nodes hold {accelerator.name} is not known: set accelerators[].nodeSelector"
    return ""
