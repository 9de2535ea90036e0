"""InferenceService, and the ServingRuntimes that its models name.

Seen in kserve/kserve at aaac4e29. In mode Standard (before: RawDeployment) the predictor is a Deployment
NAME-predictor. With the autoscaler class `none` its replicas are `minReplicas` (`deployment_reconciler.go`). With
`hpa`, the default, KServe makes an HPA from max(minReplicas, 1) to max(maxReplicas, minReplicas) on CPU
(`hpa_reconciler.go`), and with `keda` a ScaledObject; where both bounds are equal, the number is fixed. With `external`
it makes nothing and leaves the replicas alone. In mode Knative (before: Serverless) a change of a bound makes a new
revision, whose replicas all start anew. The mode is the annotation's, else that of ConfigMap inferenceservice-config
(`utils.go`, GetDeploymentMode), whose default differs between releases. A runtime's arguments come before those of the
predictor, with `{{.Name}}` for the name of the service. Workers of `workerSpec` are one Deployment, however many heads
run.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence

from reconciler.domain.holds import Hold, HoldKind
from reconciler.domain.records import dataclass, replace
from reconciler.domain.workloads import ReplicaOwner
from reconciler.manifests.wording import join_words, quote
from reconciler.resources.kserve.names import AUTOSCALER_CLASS, DEPLOYMENT_MODE, STOP
from reconciler.resources.kubernetes.engines import find_engine, find_served_names, read_flags
from reconciler.resources.kubernetes.pods import (
    Container,
    PodSpec,
    PodTemplate,
    Resources,
    TemplateFields,
    is_device_resource,
    pod_of,
)
from reconciler.resources.kubernetes.scaler_settings import kserve_scaler
from reconciler.resources.kubernetes.served_parts import (
    Count,
    ServedPart,
    bounds_owner,
    command_line,
    read_parts,
    severity_of,
)
from reconciler.resources.objects import KubernetesObject, Piece, break_on
from reconciler.resources.validation import LooseShape, validate

_CONTAINER = "kserve-container"
_NAME = "{{.Name}}"
_PREDICTOR = ("spec", "predictor")
_MOUNTED = "/mnt/models"
_HUGGING_FACE = "huggingface"
_STANDARD, _KNATIVE, _MESH = "Standard", "Knative", "ModelMesh"
_MODES = {
    "Standard": _STANDARD,
    "RawDeployment": _STANDARD,
    "Knative": _KNATIVE,
    "Serverless": _KNATIVE,
    "ModelMesh": _MESH,
}
_PREDICTIVE = frozenset(
    {"autogluon", "lightgbm", "mlflow", "onnx", "openvino", "openvino_ir", "paddle", "pmml", "predictive", "pytorch"}
    | {"sklearn", "tensorflow", "xgboost"}
)
"""Formats of which no runtime makes a language model."""
_GENERATING = frozenset({"text_generation", "text2text_generation", "generate"})


class FormatFields(LooseShape):
    """The format of a model, which chooses a runtime where none is named."""

    name: str


class ModelFields(Container):
    """A model with the container that a runtime gives it, as far as it is overridden."""

    model_format: FormatFields | None = None
    runtime: str | None = None


class PredictorFields(PodSpec):
    """What serves the model: a model for a runtime, or containers of one's own."""

    model: ModelFields | None = None
    worker_spec: PodSpec | None = None
    min_replicas: object = None
    max_replicas: object = None
    labels: dict[str, str | None] | None = None
    annotations: dict[str, str | None] | None = None


class SpecFields(LooseShape):
    """The spec of an InferenceService: transformers and explainers run no model."""

    predictor: PredictorFields | None = None


class ServiceFields(LooseShape):
    """An InferenceService, as far as it matters."""

    spec: SpecFields | None = None


class RuntimeFields(LooseShape):
    """A ServingRuntime or ClusterServingRuntime, as far as it matters."""

    spec: PodSpec | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class InferenceService:
    """A service by its object; how it runs depends on its runtime and on KServe's settings."""

    source: KubernetesObject
    predictor: PredictorFields


@dataclass(frozen=True, slots=True, kw_only=True)
class Runtime:
    """A runtime by its object."""

    source: KubernetesObject
    spec: PodSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class ModeSetting:
    """How KServe runs services of a cluster that do not say so themselves."""

    cluster: str
    mode: str


def read_inference_service(source: KubernetesObject) -> Iterator[Piece]:
    """The service, or the broken resource, and all findings; nothing of one that predicts without a language model."""
    severity = severity_of(source)
    validated = validate(ServiceFields, source.fields, locate=source.locate, severity=severity)
    yield from break_on(source, validated.findings)
    spec = validated.value.spec if validated.value is not None else None
    predictor = spec.predictor if spec is not None else None
    if predictor is None:
        return
    model = predictor.model
    formats = model.model_format.name.lower() if model is not None and model.model_format is not None else ""
    if (model is not None or predictor.containers) and formats not in _PREDICTIVE:
        yield InferenceService(source=source, predictor=predictor)


def read_runtime(source: KubernetesObject) -> Iterator[Piece]:
    """The runtime; one that cannot be read is as one that is not in Git."""
    found = validate(RuntimeFields, source.fields, locate=source.locate).value
    if found is not None and found.spec is not None:
        yield Runtime(source=source, spec=found.spec)


def read_mode(source: KubernetesObject, entries: Mapping[str, object]) -> Iterator[Piece]:
    """The default mode in KServe's own ConfigMap; a text that is no JSON says nothing."""
    text = entries.get("deploy")
    try:
        settings = json.loads(text) if isinstance(text, str) else None
    except (ValueError, RecursionError):
        settings = None
    mode = settings.get("defaultDeploymentMode") if isinstance(settings, dict) else None
    if isinstance(mode, str) and mode in _MODES:
        yield ModeSetting(cluster=source.cluster, mode=_MODES[mode])


def join_inference_services(
    services: Sequence[InferenceService], runtimes: Iterable[Runtime], modes: Iterable[ModeSetting]
) -> Iterator[Piece]:
    """The workloads of all services, and what sets their replicas."""
    by_cluster: dict[str, set[str]] = {}
    for each in modes:
        by_cluster.setdefault(each.cluster, set()).add(each.mode)
    defaults = {cluster: next(iter(found)) for cluster, found in by_cluster.items() if len(found) == 1}
    named = {
        (
            each.source.cluster,
            each.source.namespace if each.source.kind == "ServingRuntime" else "",
            each.source.name,
        ): each
        for each in runtimes
    }
    for service in services:
        source = service.source
        runtime = service.predictor.model.runtime if service.predictor.model is not None else None
        places = ((source.cluster, namespace, runtime or "") for namespace in (source.namespace, ""))
        found = next((named[each] for each in places if each in named), None)
        build = _Predictor(service=service, runtime=found, default_mode=defaults.get(source.cluster, ""))
        yield from read_parts(source, (build.part(),), ())
        yield from build.owners()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Predictor:
    """One service with what decides about it."""

    service: InferenceService
    runtime: Runtime | None
    default_mode: str

    @property
    def source(self) -> KubernetesObject:
        return self.service.source

    @property
    def predictor(self) -> PredictorFields:
        return self.service.predictor

    def part(self) -> ServedPart:
        """The predictor as a workload."""
        pod, container = self._pod()
        words, variables = command_line(container)
        engine = self._engine(container, words)
        names, unsized = self._names(engine, words)
        templates = [PodTemplate(path=_PREDICTOR, fields=TemplateFields(spec=pod), below=())]
        worker = self.predictor.worker_spec
        if worker is not None:
            path = (*_PREDICTOR, "workerSpec")
            templates.append(PodTemplate(path=path, fields=TemplateFields(spec=worker), below=()))
        name = f"{self.source.name}-predictor"
        return ServedPart(
            counts=self._counts(),
            templates=tuple(templates),
            engine=engine,
            words=words if engine else (),
            variables=variables,
            model_id=names[0] if names else self.source.name,
            served_names=names,
            labels={
                **{key: value or "" for key, value in (self.predictor.labels or {}).items()},
                "app": f"isvc.{name}",
                "serving.kserve.io/inferenceservice": self.source.name,
                "component": "predictor",
            },
            made=("Deployment", name),
            unsized=self._unsized() or unsized,
            unwritable=self._unwritable(),
        )

    def owners(self) -> Iterator[ReplicaOwner]:
        """What sets the replicas in the cluster."""
        autoscaler, place = self._autoscaler, (*_PREDICTOR, "maxReplicas")
        if self._mode == _KNATIVE:
            yield bounds_owner(self.source, "Knative's autoscaler", "", None, _PREDICTOR)
        elif self._mode == _STANDARD and autoscaler in ("hpa", "keda") and not self._is_fixed:
            kind = "ScaledObject" if autoscaler == "keda" else "HorizontalPodAutoscaler"
            made = f"{self.source.name}-predictor"
            owner = f"{kind} {made}, which KServe makes of minReplicas and maxReplicas"
            least, most = self._bounds
            yield replace(
                bounds_owner(self.source, owner, "", self._bounds, place),
                scaler=kserve_scaler(
                    self.source,
                    f"keda-hpa-{made}" if autoscaler == "keda" else made,
                    (*_PREDICTOR, "autoScaling"),
                    least.value or 0,
                    most.value,
                ),
            )

    @property
    def _mode(self) -> str:
        written = self.source.annotations.get(DEPLOYMENT_MODE)
        return self.default_mode if written is None else _MODES.get(written, self.default_mode)

    @property
    def _autoscaler(self) -> str:
        own = (self.predictor.annotations or {}).get(AUTOSCALER_CLASS)
        return own or self.source.annotations.get(AUTOSCALER_CLASS) or "hpa"

    @property
    def _bounds(self) -> tuple[Count, Count]:
        least = Count(path=(*_PREDICTOR, "minReplicas"), written=self.predictor.min_replicas, default=1)
        most = Count(path=(*_PREDICTOR, "maxReplicas"), written=self.predictor.max_replicas, is_ceiling=True)
        return least, most

    @property
    def _is_fixed(self) -> bool:
        """Whether the bounds of KServe's autoscaler are equal, so that the lower one is the number."""
        least, most = self._bounds
        return most.written is None or (most.number is not None and most.number <= (least.value or 0))

    def _counts(self) -> tuple[Count, ...]:
        """Where the number stands: also in an upper bound that is equal, which would else let it grow."""
        least, most = self._bounds
        if self._autoscaler == "none":
            most_above = (most,) if most.number else ()
            return (replace(least, default=None), *most_above)
        return (least, replace(most, is_ceiling=False)) if self._is_fixed and most.number else (least,)

    def _pod(self) -> tuple[PodSpec, Container]:
        """The pod of the predictor, and the container with the engine in it."""
        own = self.predictor.containers or []
        model, runtime = self.predictor.model, self.runtime
        given = runtime.spec.containers or [] if runtime is not None else []
        base = next((each for each in given if each.name == _CONTAINER), None)
        selector = {
            **((runtime.spec.node_selector if runtime is not None else None) or {}),
            **(self.predictor.node_selector or {}),
        }
        if model is not None:
            container = _over(base, model, self.source.name)
            containers = [container, *own]
        else:
            containers = own
            container = next((each for each in own if each.name == _CONTAINER), own[0] if own else Container())
        affinity = self.predictor.affinity or (runtime.spec.affinity if runtime is not None else None)
        return pod_of(containers, selector, affinity), container

    def _engine(self, container: Container, words: Sequence[str]) -> str:
        model = self.predictor.model
        found = find_engine(container.image if isinstance(container.image, str) else "", words)
        if found or model is None:
            return found
        # what is not in Git is one of KServe's own runtimes, or one whose name says what it runs
        if model.runtime:
            return find_engine(model.runtime, ()) or self._of_hugging_face(
                words, is_named="huggingface" in model.runtime
            )
        formats = model.model_format.name.lower() if model.model_format is not None else ""
        return "vllm" if formats == "vllm" else self._of_hugging_face(words, formats == _HUGGING_FACE)

    def _of_hugging_face(self, words: Sequence[str], is_named: object) -> str:
        """KServe's Hugging Face server runs vLLM for what generates text, and its own code for the rest."""
        flags = read_flags(words)
        backend, task = flags.get("backend", "auto"), flags.get("task", "text_generation")
        resources = self.predictor.model.resources if self.predictor.model is not None else None
        asked = (resources.limits or resources.requests or {}) if resources is not None else {}
        is_engine = backend == "vllm" or (backend == "auto" and any(map(is_device_resource, asked)))
        return "vllm" if is_named and is_engine and task in _GENERATING else ""

    def _names(self, engine: str, words: Sequence[str]) -> tuple[tuple[str, ...], str]:
        """The names that metrics may carry, that of the engine first; and why they say nothing."""
        name, flags, model = self.source.name, read_flags(words), self.predictor.model
        served = find_served_names(words)
        if served or not engine or model is None:
            return served, ""
        formats = model.model_format.name.lower() if model.model_format is not None else ""
        if self.runtime is None and (formats == _HUGGING_FACE or _HUGGING_FACE in (model.runtime or "")):
            # its engine is started with where the model is, and reports that (`__main__.py`)
            loaded = flags.get("model-id") or flags.get("model-dir") or _MOUNTED
            if loaded == _MOUNTED:
                why = f"its metrics call the model {_MOUNTED}, as others do: add --served-model-name to its args"
                return (flags.get("model-name") or name,), why
            return (loaded, flags.get("model-name") or name), ""
        return (flags.get("model-name") or name,), ""

    def _unsized(self) -> str:
        if self.source.annotations.get(STOP) == "true":
            return f"it is stopped by its annotation {STOP}"
        if self._mode == _MESH:
            return "ModelMesh loads it into pods that many models share"
        if self.predictor.worker_spec is not None:
            return "its workers (workerSpec) are one group, however many replicas there are: KServe runs only one"
        return ""

    def _unwritable(self) -> Hold | None:
        place = self.source.locate(_PREDICTOR)
        if not self._mode:
            words = (
                "whether KServe runs it as a Deployment or by Knative is not in Git: annotate it with "
                f"{DEPLOYMENT_MODE}: {join_words((_STANDARD, _KNATIVE))}"
            )
            return Hold(kind=HoldKind.NOT_WRITABLE, words=words, place=place)
        if self._mode == _STANDARD and self._autoscaler not in ("hpa", "keda", "none", "external"):
            words = f"its autoscaler class {quote(self._autoscaler)} is none that KServe knows"
            return Hold(kind=HoldKind.NOT_WRITABLE, words=words, place=place)
        if self._mode == _STANDARD and self._autoscaler == "external":
            words = f"its replicas are left to what {AUTOSCALER_CLASS}: external stands for, and KServe sets none"
            return Hold(kind=HoldKind.OWNED_BY_ANOTHER, words=words, place=place)
        return None


def _over(base: Container | None, model: ModelFields, name: str) -> Container:
    """A runtime's container with what the model overrides; arguments of both count, the runtime's first."""
    args = [each.replace(_NAME, name) for each in (base.args or [] if base is not None else [])]
    env = [each for container in (base, model) if container is not None for each in _entries(container.env)]
    return Container(
        name=_CONTAINER,
        image=model.image or (base.image if base is not None else None),
        command=model.command or (base.command if base is not None else None),
        args=[*args, *(model.args or [])],
        env=env,
        resources=_both(base.resources if base is not None else None, model.resources),
    )


def _both(base: Resources | None, own: Resources | None) -> Resources | None:
    """Resources as KServe merges them, by key."""
    if base is None or own is None:
        return own or base
    return Resources(
        limits={**(base.limits or {}), **(own.limits or {})}, requests={**(base.requests or {}), **(own.requests or {})}
    )


def _entries(env: object) -> list[object]:
    return env if isinstance(env, list) else []
