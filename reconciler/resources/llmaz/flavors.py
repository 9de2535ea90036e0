"""What claims and flavors mean: which flavors a replica may run on, in which order, on which accelerators."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from reconciler.domain.declared.llmaz import ModelClaim, OpenModel
from reconciler.domain.declared.workloads import Workload
from reconciler.domain.inventory import Accelerator, Catalog
from reconciler.resources.variants import Flavor, RankedFlavor

# Where clouds and node discovery say what a node is, in the order they are looked at; other labels follow.
_NODE_KEYS = (
    "karpenter.k8s.aws/instance-gpu-name",
    "node.kubernetes.io/instance-type",
    "cloud.google.com/gke-accelerator",
    "nvidia.com/gpu.product",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Spelling:
    """A text that may name an accelerator, and in words where it stands."""

    text: str
    source: str


def rank_flavors(claim: ModelClaim, model: OpenModel | None) -> tuple[RankedFlavor, ...]:
    """The flavors of a claim in its order, else all of the main model's in the model's; drafts have no say."""
    if claim.flavor_names:
        names = tuple(dict.fromkeys(claim.flavor_names))
        return tuple(
            RankedFlavor(name=name, rank=rank, flavor=model.find_flavor(name) if model is not None else None)
            for rank, name in enumerate(names)
        )
    firsts: dict[str, Flavor] = {}
    for flavor in model.flavors if model is not None else ():
        firsts.setdefault(flavor.name, flavor)
    return tuple(RankedFlavor(name=name, rank=rank, flavor=each) for rank, (name, each) in enumerate(firsts.items()))


def list_spellings(flavor: Flavor) -> Iterator[Spelling]:
    """Every text of a flavor that may name its accelerator, what says most first: llmaz has no field for a price."""
    if flavor.instance_type:
        yield Spelling(text=flavor.instance_type, source="params INSTANCE-TYPE")
    others = sorted(key for key in flavor.node_selector if key not in _NODE_KEYS)
    for key in (*_NODE_KEYS, *others):
        if flavor.node_selector.get(key):
            yield Spelling(text=flavor.node_selector[key], source=f"nodeSelector {key}")
    yield Spelling(text=flavor.name, source="flavor name")


def recognise_flavor(flavor: Flavor, catalog: Catalog) -> tuple[Accelerator | None, str]:
    """The accelerator of a flavor by the catalog's names, and what says so; None when the catalog knows none of them.

    The instance type says most; then the accelerator whose own node selector the flavor carries, then what else names
    one.
    """
    spellings = list(list_spellings(flavor))
    if flavor.instance_type and (found := catalog.find(flavor.instance_type)) is not None:
        return found, spellings[0].source
    carried = [
        accelerator
        for accelerator in catalog.accelerators.values()
        if accelerator.node_selector and accelerator.node_selector.items() <= flavor.node_selector.items()
    ]
    if carried:
        return max(carried, key=lambda accelerator: len(accelerator.node_selector)), "nodeSelector"
    for spelling in spellings:
        if (found := catalog.find(spelling.text)) is not None:
            return found, spelling.source
    return None, ""


def order_flavors(ranked: Sequence[RankedFlavor], chosen: str) -> tuple[str, ...]:
    """What `inferenceFlavors` must say so that a flavor is chosen: it alone, or before the others as fallbacks.

    llmaz injects the limits of the first, so only flavors of as many devices can stand in for it, and one without a
    node selector would let its pods run anywhere.
    """
    first = next((each.flavor for each in ranked if each.name == chosen), None)
    others = [each for each in ranked if each.name != chosen]
    if first is None or not first.node_selector:
        return (chosen,)
    is_fallback = all(
        each.flavor is not None and each.flavor.node_selector and each.flavor.devices == first.devices
        for each in others
    )
    return (chosen, *(each.name for each in others)) if is_fallback else (chosen,)


def place_on(workload: Workload, flavor: Flavor, pods: int = 1) -> Workload:
    """The scale target as llmaz makes it in a flavor: its limits in each of a replica's pods, and its nodes."""
    devices = {resource: pods * count for resource, count in flavor.devices.items()}
    return replace(
        workload,
        devices={**workload.devices, **devices},
        node_selector={**flavor.node_selector, **workload.node_selector},
        places={**workload.places, flavor.place.field: flavor.place},
    )
