"""Accelerators: the catalog that prices them, common product labels, replicas on one, and how many there are."""

from collections.abc import Mapping
from dataclasses import field

from reconciler.domain.identity import Place
from reconciler.domain.priors import Datasheet
from reconciler.domain.records import dataclass

# Common product labels of accelerators, as node discovery and clouds write them, and the short names they mean. They
# only recognise: which nodes to select when a choice changes is never guessed from this table.

PRODUCT_KEYS = (
    "nvidia.com/gpu.product",
    "amd.com/gpu.product",
    "amd.com/gpu.product-name",
    "intel.com/gpu.product",
    "gpu.intel.com/product",
    "habana.ai/gaudi.product",
    "cloud.google.com/gke-accelerator",
    "karpenter.k8s.aws/instance-gpu-name",
    "k8s.amazonaws.com/accelerator",
    "gpu.nvidia.com/class",
)
"""Node label keys whose value names a product, in the order they are looked at."""

MACHINE_KEYS = (
    "node.kubernetes.io/instance-type",
    "beta.kubernetes.io/instance-type",
    "karpenter.k8s.aws/instance-type",
    "karpenter.k8s.aws/instance-family",
    "cloud.google.com/gke-nodepool",
    "cloud.google.com/machine-family",
    "eks.amazonaws.com/nodegroup",
    "kubernetes.azure.com/agentpool",
    "agentpool",
    "nvidia.com/gpu.family",
    "nvidia.com/gpu.machine",
    "nvidia.com/gpu.memory",
    "kubernetes.io/hostname",
)
"""Node label keys whose value means machines of one kind, and so one kind of accelerators."""

PRODUCTS = {
    "nvidia-b200": "B200",
    "nvidia-gb200": "GB200",
    "nvidia-h200": "H200",
    "nvidia-h200-141gb-hbm3e": "H200",
    "nvidia-h200-141gb": "H200",
    "nvidia-h100-80gb-hbm3": "H100",
    "nvidia-h100-pcie": "H100",
    "nvidia-h100-nvl": "H100",
    "nvidia-h100-80gb": "H100",
    "nvidia-h100-mega-80gb": "H100",
    "nvidia-a100-sxm4-80gb": "A100",
    "nvidia-a100-sxm4-40gb": "A100",
    "nvidia-a100-pcie-80gb": "A100",
    "nvidia-a100-80gb-pcie": "A100",
    "nvidia-a100-pcie-40gb": "A100",
    "nvidia-a100-80gb": "A100",
    "nvidia-tesla-a100": "A100",
    "nvidia-l40s": "L40S",
    "nvidia-l40": "L40",
    "nvidia-l4": "L4",
    "nvidia-a10g": "A10G",
    "nvidia-a10": "A10",
    "nvidia-a40": "A40",
    "nvidia-tesla-t4": "T4",
    "tesla-t4": "T4",
    "tesla-v100-sxm2-16gb": "V100",
    "tesla-v100-sxm2-32gb": "V100",
    "nvidia-tesla-v100": "V100",
    "amd-mi300x-192gb": "MI300X",
    "amd-mi300x-192g": "MI300X",
    "amd-instinct-mi300x-oam": "MI300X",
    "amd-instinct-mi250x": "MI250X",
    "intel-gaudi-2-96gb": "G2",
    "intel-gaudi-3-128gb": "G3",
    "h200": "H200",
    "h100": "H100",
    "a100": "A100",
    "l40s": "L40S",
    "l4": "L4",
    "a10g": "A10G",
    "t4": "T4",
    "v100": "V100",
}
"""Label value in lower case -> the name of the accelerator."""

VENDORS = {
    "nvidia": ("nvidia.com/gpu.product", "nvidia.com/gpu"),
    "tesla": ("nvidia.com/gpu.product", "nvidia.com/gpu"),
    "amd": ("amd.com/gpu.product", "amd.com/gpu"),
    "intel": ("intel.com/gpu.product", "intel.com/gpu"),
}
"""First word of a product label -> the vendor's label key and its device resource."""


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
    datasheet: Datasheet | None = None
    """What somebody wrote of one device, in place of the shipped table."""
    place: Place | None = None
    cost_place: Place | None = None
    """The place of the price, if it is not in the accelerator's own entry (a ConfigMap)."""


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
    """Replicas on an accelerator; `accelerator` is empty when it is unknown.

    `scaling` is the setting of an autoscaler that moves the replicas, as `domain.scalers` writes it; empty where it is
    none of ours.
    """

    accelerator: str
    replicas: int
    scaling: str = ""


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
    pool says it. `at_s` is when it was measured (Unix seconds). `declared` are those that serving workloads in Git
    ask for which are not managed: they count where nothing says what others hold.
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
    declared: int = 0

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
        if self.measured.taken is None:
            return self.declared
        beyond = 0
        if self.configured is not None and self.measured.devices is not None:
            beyond = max(self.measured.devices - self.configured, 0)
        return max(self.measured.taken - beyond, 0)

    @property
    def devices(self) -> int | None:
        """How many our variants may take together; None is unlimited."""
        return None if self.exists is None else max(self.exists - self.reserve - self.taken, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Inventory:
    """The pools of all clusters, by cluster and device type."""

    pools: Mapping[tuple[str, str], DevicePool] = field(default_factory=dict)

    def find(self, cluster: str, device: str) -> DevicePool | None:
        """The pool of a device type; None where it has none."""
        return self.pools.get((cluster, device))
