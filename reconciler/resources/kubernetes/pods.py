"""Pod templates of scale targets: devices, nodes, engines."""

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import TypeAlias

from pydantic import Field

from reconciler.domain.identity import Finding, Place, Severity
from reconciler.domain.records import dataclass, replace
from reconciler.domain.workloads import Annotation, LaunchSettings, NodeTerm, PodPlace, Workload
from reconciler.manifests.wording import describe, name_field
from reconciler.resources.annotations import WORKLOAD_NAMES, check_annotations
from reconciler.resources.kubernetes.engines import (
    ROLE_LABEL,
    expand,
    find_engine,
    find_served_names,
    find_spread,
    flags_of,
    read_launch,
    read_model,
    read_names,
    why_unsized,
)
from reconciler.resources.objects import KubernetesObject, Piece, break_on, find_templated, read_texts
from reconciler.resources.validation import MAX_FINDINGS, LooseShape, describe_unknown, is_templated

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

    `name`, `image`, `ports` and `env` stay unvalidated: a mistake in them does not hide what they show of the engine.
    """

    name: object = None
    image: object = None
    env: object = None
    ports: object = None
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


def pod_of(
    containers: list[Container], node_selector: Mapping[str, str | None] | None, affinity: Affinity | None
) -> PodSpec:
    """A pod that a controller makes of fields which stand elsewhere."""
    return PodSpec().model_copy(
        update={"containers": containers, "node_selector": dict(node_selector or {}), "affinity": affinity}
    )


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


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningEngine:
    """The engine of a pod as it is started, the model that it loads, and the names that its environment gives that.

    `unsized` says why replicas of it are not sized. All is empty where no engine is recognised.
    """

    engine: str = ""
    launch: LaunchSettings | None = None
    model: str = ""
    names: tuple[str, ...] = ()
    unsized: str = ""
    port: str = ""


def read_engine(pod: PodSpec, device_container: int | None, labels: Mapping[str, str]) -> RunningEngine:
    """The inference engine of a pod and how it was started: of the container with the devices, else of the first."""
    containers = list(enumerate(pod.containers or ()))
    role = labels.get(ROLE_LABEL, "")
    for _, container in sorted(containers, key=lambda numbered: numbered[0] != device_container):
        variables = read_variables(container.env)
        words = words_of(container, variables)
        image = container.image if isinstance(container.image, str) else ""
        found = _engine_started_by(image, tuple(words), tuple(variables.items()), role, bool(container.command))
        if found is not None:
            return replace(found, port=_port_of(container, found.port))
    return RunningEngine()


@lru_cache(maxsize=2_000)  # in a fleet many pods are started alike
def _engine_started_by(
    image: str, words: tuple[str, ...], variables: tuple[tuple[str, str], ...], role: str, has_command: bool
) -> RunningEngine | None:
    """The engine of a container, its port as the flag says it; None where nothing shows one."""
    engine, values = find_engine(image, words), dict(variables)
    if not engine:
        return None
    model = read_model(engine, image, words, values, has_command=has_command)
    return RunningEngine(
        engine=engine,
        launch=read_launch(engine, words, values),
        model=model,
        names=read_names(engine, values),
        unsized=why_unsized(engine, words, role, model),
        port=flags_of(words).get("port", ""),
    )


_METRIC_PORTS = ("metrics", "http-metrics")


def _port_of(container: Container, wanted: str) -> str:
    """The declared port with the engine's metrics: by its name, by the flag, else the only one."""
    declared = [each for each in container.ports if isinstance(each, dict)] if isinstance(container.ports, list) else []
    named = {str(each.get("name") or ""): each for each in declared}
    chosen = (
        next((named[name] for name in _METRIC_PORTS if name in named), None)
        or next((each for each in declared if wanted and str(each.get("containerPort")) == wanted), None)
        or (declared[0] if len(declared) == 1 else None)
    )
    return "" if chosen is None else str(chosen.get("name") or chosen.get("containerPort") or "")


def read_spread(pod: PodSpec) -> str:
    """Over how many devices a container spreads its engine, of any kind; empty where none says so."""
    containers = ((each, read_variables(each.env)) for each in pod.containers or ())
    return next(filter(None, (find_spread(words_of(each, names), names) for each, names in containers)), "")


def words_of(container: Container, variables: Mapping[str, str]) -> list[str]:
    """The command line of a container with its variables filled in."""
    return [expand(word, variables) for word in (*(container.command or ()), *(container.args or ()))]


def read_variables(env: object) -> dict[str, str]:
    """Environment variables with a value of their own."""
    entries = [entry for entry in env if isinstance(entry, dict)] if isinstance(env, list) else []
    return {str(entry.get("name")): str(entry["value"]) for entry in entries if "value" in entry}


MAX_REPLICAS = 2**31 - 1
_REPLICAS = ("spec", "replicas")


class TemplateMetadata(LooseShape):
    """The metadata of a pod template: labels are all that is read."""

    labels: dict[str, str | None] | None = None


class TemplateFields(LooseShape):
    """A pod template."""

    metadata: TemplateMetadata | None = None
    spec: PodSpec | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PodTemplate:
    """One of the templates that a replica's pods are made from, and how many of them are.

    Its pod stands `below` its path: many custom resources hold a pod in place of a template.
    """

    path: tuple[str | int, ...]
    fields: TemplateFields
    pods: int = 1
    below: tuple[str | int, ...] = ("spec",)

    @property
    def pod_path(self) -> tuple[str | int, ...]:
        """Where its pod stands in the object."""
        return (*self.path, *self.below)

    @property
    def pod(self) -> PodSpec:
        """What its pods run."""
        return self.fields.spec or PodSpec()

    @property
    def labels(self) -> Mapping[str, str]:
        """The labels that its pods get."""
        return read_texts(self.fields.metadata.labels if self.fields.metadata else None)


def compose(source: KubernetesObject, templates: Sequence[PodTemplate]) -> tuple[Workload, tuple[Finding, ...]]:
    """The workload of which these templates make one replica, without a count, and what is wrong in them.

    The first template is the one that clients speak to. The node selector and the affinity are what all templates with
    devices agree on; the device resources are those of the only container that asks, where one pod makes a replica.
    """
    runs = [each.pod for each in templates]
    counted = [count_devices(source, pod, each.pod_path) for each, pod in zip(templates, runs, strict=True)]
    devices: dict[str, int] = {}
    for template, found in zip(templates, counted, strict=True):
        for resource, count in found.counts.items():
            devices[resource] = devices.get(resource, 0) + template.pods * count
    container = counted[0].container if len(templates) == 1 and templates[0].pods == 1 else None
    resources = None if container is None else (*templates[0].pod_path, "containers", container, "resources")
    placed = [each for each, found in zip(templates, counted, strict=True) if found.counts] or templates[:1]
    running = next(
        (
            found_engine
            for template, pod, found in zip(templates, runs, counted, strict=True)
            if (found_engine := read_engine(pod, found.container, {**source.labels, **template.labels})).engine
        ),
        RunningEngine(),
    )
    names = dict.fromkeys((*(name for pod in runs for name in read_served_names(pod)), *running.names))
    pods = tuple(_place_of(each) for each in placed)
    workload = Workload(
        key=source.key,
        document=source.ref,
        place=source.place,
        replicas=None,
        node_selector=agree_on_nodes([each.node_selector for each in pods]),
        affinity=agree_on_values([each.affinity for each in pods]),
        devices=devices,
        device_resources=resources,
        pods=pods,
        served_names=tuple(names),
        images=tuple(str(each.image) for pod in runs for each in pod.containers or () if each.image),
        engine=running.engine,
        launch=running.launch,
        model_id=next(iter(names), "") or running.model,
        unsized=running.unsized,
        port=running.port,
        spread="" if running.launch is not None else next(filter(None, map(read_spread, runs)), ""),
        labels=source.labels,
        template_labels=templates[0].labels if templates else {},
        templated=next((found.templated for found in counted if found.templated), "") or _find_templated(templates),
    )
    return workload, tuple(finding for found in counted for finding in found.findings)


def with_count(
    workload: Workload, replicas: int | None, place: Place | None, settings: Mapping[str, Annotation], templated: str
) -> Workload:
    """The workload with its number of replicas, which stands at `place` if it is written.

    `templated` names a field outside of the templates that is filled in later.
    """
    return replace(
        workload,
        replicas=replicas,
        replicas_place=place,
        settings=settings,
        templated=templated or workload.templated,
    )


def read_scale_target(
    source: KubernetesObject,
    replicas: object,
    templates: Sequence[PodTemplate],
    findings: Sequence[Finding],
    templated: str = "",
) -> Iterator[Piece]:
    """The workload whose `spec.replicas` are edited, or the broken resource, and all findings."""
    workload, faults = compose(source, templates)
    annotations = check_annotations(source, WORKLOAD_NAMES)
    found = (*findings, *check_replicas(source, replicas), *faults, *annotations.findings)
    broken = tuple(break_on(source, found))
    yield from broken
    if len(broken) > len(found):
        return
    place = None if replicas is None else source.locate(_REPLICAS)
    count = replicas if isinstance(replicas, int) else None
    filled_in = "spec.replicas" if is_templated(replicas) else templated
    yield with_count(workload, count, place, annotations.settings, filled_in)


def check_replicas(source: KubernetesObject, replicas: object) -> Iterator[Finding]:
    """A count, nothing, or text that is filled in later: anything else is a mistake."""
    is_count = isinstance(replicas, int) and not isinstance(replicas, bool) and 0 <= replicas <= MAX_REPLICAS
    if not (is_count or replicas is None or is_templated(replicas)):
        yield source.complain(_REPLICAS, f"expected an integer of at least 0, got {describe(replicas)}")


def find_unknown(
    source: KubernetesObject, path: tuple[str, ...], known: Sequence[str], severity: Severity = Severity.WARNING
) -> list[Finding]:
    """The fields of the mapping at `path` that its kind does not have."""
    names = [name for name in mapping_at(source.fields, path) if name not in known]
    return [source.complain((*path, name), describe_unknown(name, known), severity) for name in names[:MAX_FINDINGS]]


def mapping_at(fields: Mapping[str, object], path: Sequence[str]) -> Mapping[str, object]:
    """The mapping at a path; an empty one where something else stands, or nothing."""
    value: object = fields
    for part in path:
        value = value.get(part) if isinstance(value, dict) else None
    return value if isinstance(value, dict) else {}


def _place_of(template: PodTemplate) -> PodPlace:
    pod = template.pod
    return PodPlace(
        path=template.pod_path,
        node_selector=read_texts(pod.node_selector),
        affinity=read_affinity(pod),
        terms=read_terms(pod),
    )


def _find_templated(templates: Sequence[PodTemplate]) -> str:
    paths = ((*each.pod_path, "nodeSelector") for each in templates if find_templated(each.pod.node_selector))
    return name_field(next(paths, ()))
