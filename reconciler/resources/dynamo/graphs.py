"""DynamoGraphDeployments: their schemas, and what they declare."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated

from pydantic import Field

from reconciler.domain.records import replace
from reconciler.domain.workloads import Workload
from reconciler.domain.written import FieldPath
from reconciler.manifests.wording import describe
from reconciler.resources.kubernetes.engines import find_engine, read_flags, read_model, split_command
from reconciler.resources.kubernetes.pods import Container, PodSpec, PodTemplate, TemplateFields, pod_of
from reconciler.resources.kubernetes.served_parts import (
    Count,
    ServedPart,
    bounds_owner,
    command_line,
    read_parts,
    severity_of,
)
from reconciler.resources.objects import KubernetesObject, Piece
from reconciler.resources.validation import LooseShape, validate

_GROUP = "nvidia.com"
ADAPTER = "DynamoGraphDeploymentScalingAdapter"
_PLANNER = "planner"
_BESIDE_WORKERS = frozenset({"frontend", _PLANNER, "epp", "router", "default"})
_MODULES = {"dynamo.vllm": "vllm", "dynamo.sglang": "sglang", "dynamo.trtllm": "trtllm"}
_MAIN = "main"
_METRICS_PORT = "system"
"""How the operator names the port of a worker's metrics (`internal/consts`)."""
_GPU = "nvidia.com/gpu"
_MOST_NODES = 10_000


class ResourceItem(LooseShape):
    """Amounts in Dynamo's own words: `gpu` counts devices of `gpuType`."""

    gpu: object = None
    gpu_type: str | None = None


class ResourceFields(LooseShape):
    """What a worker asks for in v1alpha1."""

    limits: ResourceItem | None = None
    requests: ResourceItem | None = None


class ExtraPodSpec(PodSpec):
    """A pod whose container with the engine stands apart."""

    main_container: Container | None = None


class MultinodeFields(LooseShape):
    """How many pods one replica has."""

    node_count: Annotated[int, Field(ge=1, le=_MOST_NODES)] = 2


class NameFields(LooseShape):
    """The model that a worker serves."""

    name: str


class AdapterFields(LooseShape):
    """Whether an adapter owns the replicas; in v1beta1 it does where this is written at all."""

    enabled: bool = False


class WorkerFields(LooseShape):
    """A service of v1alpha1 or a component of v1beta1."""

    name: str | None = None
    type: str | None = None
    component_type: str | None = None
    sub_component_type: str | None = None
    replicas: object = None
    resources: ResourceFields | None = None
    extra_pod_spec: ExtraPodSpec | None = None
    pod_template: TemplateFields | None = None
    multinode: MultinodeFields | None = None
    scaling_adapter: AdapterFields | None = None
    model_ref: NameFields | None = None

    @property
    def role(self) -> str:
        """What it is for, in either version's words."""
        return (self.type or self.sub_component_type or self.component_type or "").lower()

    @property
    def kind(self) -> str:
        """Which sort of component it is."""
        return (self.type or self.component_type or "").lower()


class GroupFields(LooseShape):
    """Components that scale together."""

    components: list[NameFields] = Field(default_factory=list)


class ExperimentalFields(LooseShape):
    """Previews, of which groups change what a replica is."""

    component_groups: list[GroupFields] | None = None


class SpecFields(LooseShape):
    """The graph: services by name, or components."""

    services: dict[str, WorkerFields | None] | None = None
    components: list[WorkerFields] | None = None
    backend_framework: str | None = None
    experimental: ExperimentalFields | None = None


class GraphFields(LooseShape):
    """A DynamoGraphDeployment, as far as it matters."""

    spec: SpecFields | None = None


def read_graph(source: KubernetesObject) -> Iterator[Piece]:
    """A workload for each worker, what else sets its replicas, or the broken resource, and all findings."""
    severity = severity_of(source)
    validated = validate(GraphFields, source.fields, locate=source.locate, severity=severity)
    spec = (validated.value.spec if validated.value is not None else None) or SpecFields()
    is_beta = str(source.fields.get("apiVersion")).endswith("/v1beta1")
    members = list(_members(spec))
    findings = list(validated.findings)
    for name, path, _ in members:
        if not name:
            findings.append(source.complain(path, f"expected a name, got {describe(name)}", severity))
    workers = [(name, path, each) for name, path, each in members if name and _is_worker(each)]
    is_split = any(_half(each, _words(each)) == "prefill" for _, _, each in workers)
    grouped = {
        each.name
        for group in (spec.experimental.component_groups if spec.experimental else None) or ()
        for each in group.components
    }
    parts = [
        _part(source, name, path, each, spec.backend_framework or "", is_split=is_split, is_grouped=name in grouped)
        for name, path, each in workers
    ]
    pieces = list(read_parts(source, parts, findings))
    yield from (_with_labels(piece) if isinstance(piece, Workload) else piece for piece in pieces)
    if any(each.kind == _PLANNER for _, _, each in members):
        for name, path, _ in workers:
            yield bounds_owner(source, "Dynamo's planner", name, None, path)
    for name, path, each in workers:
        adapter = each.scaling_adapter
        if adapter is not None and (adapter.enabled or is_beta):
            owner = f"{ADAPTER} {_child(source.name, name)}"
            yield bounds_owner(source, owner, name, None, (*path, "scalingAdapter"))


def _with_labels(workload: Workload) -> Workload:
    """The workload with its served names as the frontend may write them in labels of metrics: in lower case."""
    names = workload.served_names or (workload.model_id,)
    return replace(workload, served_names=tuple(dict.fromkeys((*names, *map(str.lower, names)))))


def _members(spec: SpecFields) -> Iterator[tuple[str, FieldPath, WorkerFields]]:
    for name, each in (spec.services or {}).items():
        yield name, ("spec", "services", name), each or WorkerFields()
    for index, each in enumerate(spec.components or ()):
        yield each.name or "", ("spec", "components", index), each


def _is_worker(each: WorkerFields) -> bool:
    """Whether a component runs the model: those without a type do where they ask for devices."""
    if each.kind:
        return each.kind not in _BESIDE_WORKERS
    return bool(_devices(each)) or any(module in _words(each) for module in _MODULES)


def _child(graph: str, name: str) -> str:
    return f"{graph}-{name.lower()}"


def _part(
    source: KubernetesObject,
    name: str,
    path: FieldPath,
    each: WorkerFields,
    framework: str,
    *,
    is_split: bool,
    is_grouped: bool,
) -> ServedPart:
    container = _container(each)
    words, variables = command_line(container)
    image = container.image if container is not None and isinstance(container.image, str) else ""
    engine = _engine(image, words, framework)
    flags = read_flags(split_command(words))
    model = read_model(engine, image, words, variables) or flags.get("model-path") or flags.get("model") or ""
    model = model or (each.model_ref.name if each.model_ref is not None else "")
    half = _half(each, words) or ("decode" if is_split else "")
    pods = each.multinode.node_count if each.multinode is not None else 1
    devices = {resource: count * pods for resource, count in _devices(each).items()}
    template, below = _template(each, path)
    return ServedPart(
        name=name,
        counts=(Count(path=(*path, "replicas"), written=each.replicas, default=1),),
        templates=(PodTemplate(path=template, fields=TemplateFields(spec=_pod(each)), pods=pods, below=below),),
        engine=engine,
        words=words,
        variables=variables,
        model_id=flags.get("served-model-name") or model,
        served_names=(model,) if model else (),
        devices=devices or None,
        labels={f"{_GROUP}/dynamo-component": name, f"{_GROUP}/dynamo-graph-deployment-name": source.name}
        | ({"llm-d.ai/role": half} if half else {}),
        made=(ADAPTER, _child(source.name, name)),
        port=_METRICS_PORT,
        unsized="it scales with others in a component group" if is_grouped else "",
    )


def _engine(image: str, words: Sequence[str], framework: str) -> str:
    text = " ".join(words)
    module = next((engine for module, engine in _MODULES.items() if module in text), "")
    return module or (framework if framework in _MODULES.values() else "") or find_engine(image, words)


def _half(each: WorkerFields, words: Sequence[str]) -> str:
    """Which half of a disaggregated model it is, by its type or its arguments; empty where nothing says so."""
    if each.role in ("prefill", "decode"):
        return each.role
    flags = read_flags(split_command(words))
    mode = flags.get("disaggregation-mode", "")
    if "is-prefill-worker" in flags or mode == "prefill":
        return "prefill"
    return "decode" if "is-decode-worker" in flags or mode == "decode" else ""


def _pod(each: WorkerFields) -> PodSpec:
    if each.pod_template is not None:
        return each.pod_template.spec or PodSpec()
    extra = each.extra_pod_spec
    if extra is None:
        return PodSpec()
    main = [extra.main_container] if extra.main_container is not None else []
    return pod_of([*main, *(extra.containers or [])], extra.node_selector, extra.affinity)


def _template(each: WorkerFields, path: FieldPath) -> tuple[FieldPath, FieldPath]:
    if each.pod_template is not None:
        return (*path, "podTemplate"), ("spec",)
    return (*path, "extraPodSpec"), ()


def _container(each: WorkerFields) -> Container | None:
    containers = _pod(each).containers or []
    return next((one for one in containers if one.name == _MAIN), containers[0] if containers else None)


def _words(each: WorkerFields) -> tuple[str, ...]:
    return command_line(_container(each))[0]


def _devices(each: WorkerFields) -> Mapping[str, int]:
    """The devices of one pod that v1alpha1 writes in words of its own."""
    for item in (each.resources.limits, each.resources.requests) if each.resources is not None else ():
        text = str(item.gpu) if item is not None and isinstance(item.gpu, int | str) else ""
        if item is not None and text.isascii() and text.isdigit() and len(text) <= 4 and int(text):
            return {item.gpu_type or _GPU: int(text)}
    return {}
