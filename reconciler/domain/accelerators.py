"""Accelerators: the unit of allocation, the catalog that recognises and prices them, and replicas on one."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from reconciler.domain.identity import Place

ACCELERATOR_LABEL = "inference.optimization/acceleratorName"
"""The resource's label that names what it runs on, where its scale target does not say."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Accelerator:
    """A device type with its count: 2xH100 is one accelerator of two devices.

    `cost_per_hour` is of one accelerator (all its devices); None is unknown and never guessed.
    `node_selector` is both how it is recognised and what is written when the choice changes.
    """

    name: str
    device: str
    devices: int = 1
    resource: str = "nvidia.com/gpu"
    node_selector: Mapping[str, str] = field(default_factory=dict)
    label_value: str = ""
    aliases: tuple[str, ...] = ()
    cost_per_hour: float | None = None
    place: Place | None = None
    cost_place: Place | None = None
    """Where the price stands, when that is not the accelerator's own entry (a ConfigMap)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Catalog:
    """The accelerators of one cluster by name, and every other name they are known by."""

    accelerators: Mapping[str, Accelerator] = field(default_factory=dict)
    names: Mapping[str, str] = field(default_factory=dict)
    """Any spelling (alias, label value, product label value, in lower case) -> name."""

    def find(self, spelling: str) -> Accelerator | None:
        """The accelerator with that name or alias; None when unknown."""
        name = spelling if spelling in self.accelerators else self.names.get(spelling.lower(), "")
        return self.accelerators.get(name)


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Allocation:
    """Replicas on an accelerator; `accelerator` is empty when it is unknown."""

    accelerator: str
    replicas: int
