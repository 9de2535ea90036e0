"""Everything in a repository that something else may refer to by its name."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from reconciler.domain.identity import Finding, Place, ResourceKey, Severity
from reconciler.domain.inventory import Catalog
from reconciler.domain.products import PRODUCTS
from reconciler.domain.settings import Settings
from reconciler.domain.workloads import Workload
from reconciler.resources.declaration import Declaration
from reconciler.resources.registry import KINDS
from reconciler.resources.variants import VariantResource
from reconciler.snapshot.effective_settings import ListedClasses
from reconciler.snapshot.variants import resources_of

RULE = "unknown-reference"


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownNames:
    """What there is in all clusters.

    `classes` are names of service classes as written, `accelerators` those that people write, `spellings` all by which
    an accelerator is known, in lower case. `claimed` are scale targets that some resource names.
    """

    resources: Sequence[VariantResource]
    workloads: Mapping[ResourceKey, Workload]
    broken: frozenset[ResourceKey]
    claimed: frozenset[ResourceKey]
    listed: ListedClasses
    classes: frozenset[str]
    accelerators: frozenset[str]
    spellings: frozenset[str]

    @classmethod
    def of(cls, settings: Settings, declaration: Declaration, catalogs: Mapping[str, Catalog]) -> "KnownNames":
        """All that settings and resources of all clusters define."""
        resources = resources_of(settings, declaration)
        named = {*PRODUCTS.values(), *_accelerators(resources, catalogs)}
        spellings = {*named, *PRODUCTS, *(name for catalog in catalogs.values() for name in catalog.names)}
        listed = (each.service_class.name for classes in declaration.classes.values() for each in classes)
        return cls(
            resources=resources,
            workloads={each.key: each for each in (*declaration.workloads, *declaration.kthena.workloads)},
            broken=frozenset(each.key for each in declaration.broken),
            claimed=frozenset(each.scale_target for each in resources),
            listed=ListedClasses.of(declaration),
            classes=frozenset({*(each.name for each in settings.service_classes), *listed}),
            accelerators=frozenset(named),
            spellings=frozenset(map(str.lower, spellings)),
        )

    @property
    def has_unreadable(self) -> bool:
        """Whether something cannot be read that may be just what is referred to."""
        return any(key.kind in KINDS and KINDS[key.kind].declares_variants for key in self.broken)

    def has_class(self, name: str) -> bool:
        """Whether a service class of that name is configured or listed; a ConfigMap's may be spelled in any case."""
        return name.lower() in {each.lower() for each in self.classes}

    def has_accelerator(self, name: str) -> bool:
        """Whether that is an accelerator, or so many of one: `2xH100`."""
        count, times, device = name.lower().partition("x")
        return name.lower() in self.spellings or (bool(times) and count.isdigit() and device in self.spellings)


def _accelerators(resources: Sequence[VariantResource], catalogs: Mapping[str, Catalog]) -> Iterator[str]:
    for catalog in catalogs.values():
        yield from catalog.accelerators
        yield from (each.device for each in catalog.accelerators.values())
    yield from (profile.accelerator for resource in resources for profile in resource.profiles)


def unknown(place: Place, message: str, *, field: str = "", severity: Severity = Severity.ERROR) -> Finding:
    """The finding of a name that names nothing; `field` is below that of the place."""
    path = ".".join(filter(None, (place.field, field)))
    return Finding(place=replace(place, field=path), severity=severity, message=message, rule=RULE)
