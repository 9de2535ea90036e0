"""Field types that llmaz's resources share, and the rule for their names."""

import re
from collections.abc import Iterator, Mapping
from typing import Annotated

from pydantic import AfterValidator, Field

from reconciler.domain.identity import Finding
from reconciler.manifests.wording import describe, quote
from reconciler.resources.kubernetes.pods import is_device_resource
from reconciler.resources.kubernetes.quantities import read_quantity
from reconciler.resources.objects import KubernetesObject

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
