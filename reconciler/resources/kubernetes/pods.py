"""A pod template's containers, where its pods may run, and the accelerators one replica asks for."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from pydantic import Field

from reconciler.domain.declared.workloads import LaunchSettings, NodeTerm
from reconciler.domain.identity import Finding
from reconciler.manifests.wording import describe
from reconciler.resources.kubernetes.command_lines import find_served_names
from reconciler.resources.kubernetes.engines import expand, find_spread, read_launch, tell_engine
from reconciler.resources.objects import KubernetesObject
from reconciler.resources.validation import LooseShape, is_templated

# Extended resources that are accelerators, and how the names of others begin.
_DEVICE_RESOURCES = frozenset({"nvidia.com/gpu", "amd.com/gpu", "habana.ai/gaudi", "google.com/tpu"})
_DEVICE_PREFIXES = ("gpu.intel.com/", "aws.amazon.com/neuron", "nvidia.com/mig-")
_MAX_DEVICES = 10_000

Quantities = dict[str, int | float | str | None]


class Resources(LooseShape):
    """What a container asks for; quantities are read only where they count accelerators."""

    limits: Quantities | None = None
    requests: Quantities | None = None


class Container(LooseShape):
    """The command line of a container and its resources.

    `name`, `image` and `env` stay unvalidated: what is wrong in them takes nothing from what they tell of the engine.
    """

    name: object = None
    image: object = None
    env: object = None
    command: list[str] | None = None
    args: list[str] | None = None
    resources: Resources | None = None


class Expression(LooseShape):
    """One requirement on a node's labels."""

    key: str
    operator: str
    values: list[str] | None = None


class SelectorTerm(LooseShape):
    """Requirements that hold together."""

    match_expressions: list[Expression] | None = None


class RequiredTerms(LooseShape):
    """Terms of which one must hold."""

    node_selector_terms: list[SelectorTerm]


class NodeAffinity(LooseShape):
    """Only the required part decides where a pod may run."""

    required: RequiredTerms | None = Field(default=None, alias="requiredDuringSchedulingIgnoredDuringExecution")


class Affinity(LooseShape):
    """The affinity of a pod: only that to nodes is read."""

    node_affinity: NodeAffinity | None = None


class PodSpec(LooseShape):
    """What a replica runs, and where it may."""

    containers: list[Container] | None = None
    node_selector: dict[str, str | None] | None = None
    affinity: Affinity | None = None


@dataclass(frozen=True, slots=True)
class RequestedDevices:
    """The devices one replica asks for by resource; `container` is the index of the only container that asks.

    `templated` names a quantity that is filled in later.
    """

    counts: Mapping[str, int]
    container: int | None
    templated: str
    findings: tuple[Finding, ...]


def count_devices(source: KubernetesObject, pod: PodSpec, pod_path: tuple[str | int, ...]) -> RequestedDevices:
    """Add up what the containers ask for: limits, else requests; `pod_path` is where the pod stands in the object."""
    counts: dict[str, int] = {}
    asking: set[int] = set()
    templated = ""
    findings: list[Finding] = []
    for index, field, quantity in _device_quantities(pod):
        path: tuple[str | int, ...] = (*pod_path, *field)
        if is_templated(quantity):
            templated = templated or source.locate(path).field
            continue
        count = _parse_quantity(quantity)
        if count is None:
            words = f"{'found' if quantity is None else 'got'} {describe(quantity)}"
            findings.append(source.complain(path, f"expected a whole number of devices, {words}"))
        elif count:
            asking.add(index)
            counts[field[-1]] = counts.get(field[-1], 0) + count
    return RequestedDevices(counts, min(asking) if len(asking) == 1 else None, templated, tuple(findings))


_QuantityPath: TypeAlias = tuple[str, int, str, str, str]


def _device_quantities(pod: PodSpec) -> Iterator[tuple[int, _QuantityPath, object]]:
    for index, container in enumerate(pod.containers or ()):
        for where, resource, quantity in list_devices(container.resources or Resources()):
            yield index, ("containers", index, "resources", where, resource), quantity


def list_devices(resources: Resources) -> Iterator[tuple[str, str, int | float | str | None]]:
    """What counts accelerators (limits, else requests): where it stands, the resource and the quantity."""
    limits, requests = resources.limits or {}, resources.requests or {}
    for where, quantities in (("limits", limits), ("requests", requests)):
        for resource, quantity in quantities.items():
            if is_device_resource(resource) and (where == "limits" or resource not in limits):
                yield where, resource, quantity


def _parse_quantity(quantity: object) -> int | None:
    text = str(quantity) if isinstance(quantity, int | str) else ""
    if len(text) <= 9 and text.isascii() and text.isdigit() and int(text) <= _MAX_DEVICES:
        return int(text)
    return None


def is_device_resource(resource: str) -> bool:
    """Whether an extended resource is an accelerator."""
    return resource in _DEVICE_RESOURCES or resource.startswith(_DEVICE_PREFIXES)


def read_affinity(pod: PodSpec) -> dict[str, tuple[str, ...]]:
    """Label keys whose values are limited whichever term holds: in each term by `In`, over all terms together."""
    node = pod.affinity.node_affinity if pod.affinity else None
    terms = node.required.node_selector_terms if node and node.required else []
    return agree_on_values([_read_term(term) for term in terms])


def read_terms(pod: PodSpec) -> tuple[NodeTerm, ...]:
    """The terms of required affinity to nodes, of which one must hold; one without requirements holds for no node."""
    node = pod.affinity.node_affinity if pod.affinity else None
    terms = node.required.node_selector_terms if node and node.required else []
    return tuple(
        tuple((each.key, each.operator, tuple(each.values or ())) for each in term.match_expressions or ())
        for term in terms
        if term.match_expressions
    )


def agree_on_values(limited: Sequence[Mapping[str, tuple[str, ...]]]) -> dict[str, tuple[str, ...]]:
    """The keys that all of them limit, with every value that one of them allows."""
    keys = [key for key in limited[0] if all(key in each for each in limited)] if limited else []
    return {key: tuple(dict.fromkeys(value for each in limited for value in each[key])) for key in keys}


def agree_on_nodes(selectors: Sequence[Mapping[str, str]]) -> dict[str, str]:
    """The labels of nodes that all selectors ask for with one value."""
    first = selectors[0] if selectors else {}
    return {key: value for key, value in first.items() if all(other.get(key) == value for other in selectors)}


def _read_term(term: SelectorTerm) -> dict[str, tuple[str, ...]]:
    allowed: dict[str, tuple[str, ...]] = {}
    for expression in term.match_expressions or ():
        if expression.operator == "In":
            values = tuple(expression.values or ())
            before = allowed.get(expression.key, values)
            allowed[expression.key] = tuple(value for value in before if value in values)
    return allowed


def read_served_names(pod: PodSpec) -> tuple[str, ...]:
    """The served model names on the command lines of all containers."""
    names: dict[str, None] = {}
    for container in pod.containers or ():
        names |= dict.fromkeys(find_served_names([*(container.command or ()), *(container.args or ())]))
    return tuple(names)


def read_engine(pod: PodSpec, device_container: int | None) -> tuple[str, LaunchSettings | None]:
    """The inference engine of a pod and how it was started: of the container with the devices, else of the first."""
    containers = list(enumerate(pod.containers or ()))
    for _, container in sorted(containers, key=lambda numbered: numbered[0] != device_container):
        variables = _read_variables(container.env)
        words = _words_of(container, variables)
        engine = tell_engine(container.image if isinstance(container.image, str) else "", words)
        if engine:
            return engine, read_launch(engine, words, variables)
    return "", None


def read_spread(pod: PodSpec) -> str:
    """What a container says of the devices that its engine, of whatever kind, spreads over; empty where none does."""
    containers = ((each, _read_variables(each.env)) for each in pod.containers or ())
    return next(filter(None, (find_spread(_words_of(each, names), names) for each, names in containers)), "")


def _words_of(container: Container, variables: Mapping[str, str]) -> list[str]:
    return [expand(word, variables) for word in (*(container.command or ()), *(container.args or ()))]


def _read_variables(env: object) -> dict[str, str]:
    """Environment variables with a value of their own."""
    entries = [entry for entry in env if isinstance(entry, dict)] if isinstance(env, list) else []
    return {str(entry.get("name")): str(entry["value"]) for entry in entries if "value" in entry}
