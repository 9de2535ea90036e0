"""Accelerators, the unit of allocation: the catalog that prices them, replicas on one, and how many there are."""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """A namespace whose pods hold devices and are of no variant of ours."""

    namespace: str
    pods: int
    devices: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What Prometheus says of a device type in a cluster; a number that is not sure is None, for `reason`.

    `devices` are those that pods may get: of a closed node only what ours hold. `allocatable` counts whatever nodes
    offer. `taken` of the devices are held by others; None (for `taken_reason`) is not known.
    """

    devices: int | None = None
    allocatable: int | None = None
    reason: str = ""
    taken: int | None = None
    taken_reason: str = ""
    holders: tuple[Holder, ...] = ()
    """The largest first, a few of them."""


NOT_MEASURED = Measured()


@dataclass(frozen=True, slots=True, kw_only=True)
class DevicePool:
    """All devices of one type in one cluster: what configured pools say, added up, else what is measured.

    `configured` None is left to measuring. `reserve` is never planned. `cost_per_hour` is of one device, None where no
    pool says it. `at_s` is when it was measured (Unix seconds).
    """

    cluster: str
    device: str
    names: tuple[str, ...] = ()
    configured: int | None = None
    reserve: int = 0
    tiers: tuple[str, ...] = ()
    cost_per_hour: float | None = None
    places: tuple[Place, ...] = ()
    measured: Measured = NOT_MEASURED
    at_s: float = 0.0

    @property
    def name(self) -> str:
        """`CLUSTER/DEVICE`, or with the configured pools' names instead of the device."""
        return f"{self.cluster}/{'+'.join(self.names) or self.device}"

    @property
    def exists(self) -> int | None:
        """How many devices there are; None is not known, and then nothing limits them."""
        return self.measured.devices if self.configured is None else self.configured

    @property
    def taken(self) -> int:
        """How many of them others hold, as far as that is known: first what lies beyond a configured number."""
        beyond = 0
        if self.configured is not None and self.measured.devices is not None:
            beyond = max(self.measured.devices - self.configured, 0)
        return max((self.measured.taken or 0) - beyond, 0)

    @property
    def devices(self) -> int | None:
        """How many our variants may take together; None is unlimited."""
        return None if self.exists is None else max(self.exists - self.reserve - self.taken, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Inventory:
    """The pools of all clusters, by cluster and device type."""

    pools: Mapping[tuple[str, str], DevicePool] = field(default_factory=dict)

    def find(self, cluster: str, device: str) -> DevicePool | None:
        """The pool of a device type; None where nobody takes any."""
        return self.pools.get((cluster, device))
