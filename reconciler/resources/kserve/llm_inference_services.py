"""LLMInferenceService, and the LLMInferenceServiceConfigs that it is based on.

Seen in kserve/kserve at aaac4e29. The controller merges its own presets, the configs that `baseRefs` name in their
order, then the service itself as strategic merge patches (`config_merge.go`), and makes of the result a Deployment
NAME-kserve, or a LeaderWorkerSet NAME-kserve-mn where a `worker` is given; of `prefill` another of the same two.
`replicas` that are not written are left as they are in the cluster (`workload.go`, PreserveDeploymentReplicas).
`scaling` makes an HPA or a ScaledObject with its bounds, for WVA's metric or for own triggers (`scaling.go`); it
excludes `replicas`.
"""

import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Annotated, cast

from pydantic import Field

from reconciler.domain.holds import Hold, HoldKind
from reconciler.domain.records import dataclass, replace
from reconciler.domain.written import FieldPath
from reconciler.manifests.wording import join_words, quote
from reconciler.resources.kserve.names import STOP, child_name
from reconciler.resources.kubernetes.engines import find_engine
from reconciler.resources.kubernetes.pods import PodSpec, PodTemplate, TemplateFields
from reconciler.resources.kubernetes.scaler_settings import keda_scaler
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

_MAIN = "main"
_MORE_ARGUMENTS = "VLLM_ADDITIONAL_ARGS"
_MOST_PODS = 10_000
_Size = Annotated[int, Field(ge=0, le=_MOST_PODS)]
_PART_OF = "llminferenceservice"


class ParallelismFields(LooseShape):
    """Over how many devices, pods and copies one replica is spread."""

    tensor: _Size | None = None
    pipeline: _Size | None = None
    data: _Size | None = None
    data_local: _Size | None = None

    @property
    def pods(self) -> int:
        """How many pods a group has (`GetSize`): data-parallel copies by those of one pod, else pipeline stages."""
        if self.data or self.data_local:
            return max(max(self.data or 1, 1) // max(self.data_local or 1, 1), 1)
        return max(self.pipeline or 1, 1)


class ScalingFields(LooseShape):
    """The bounds of an autoscaler that KServe makes, and which one it is."""

    min_replicas: object = None
    max_replicas: object = None
    wva: dict[str, object] | None = None

    @property
    def autoscaler(self) -> tuple[str, str]:
        """The kind that is made, and the end of its name."""
        has_hpa = self.wva is not None and self.wva.get("hpa") is not None
        return ("HorizontalPodAutoscaler", "-hpa") if has_hpa else ("ScaledObject", "-keda")


class WorkloadFields(LooseShape):
    """What a group of pods is made of."""

    replicas: object = None
    scaling: ScalingFields | None = None
    parallelism: ParallelismFields | None = None
    labels: dict[str, str | None] | None = None
    template: PodSpec | None = None
    worker: PodSpec | None = None


class ModelFields(LooseShape):
    """Where the model comes from, and the name that it is served under: that of the service where none is given."""

    uri: str | None = None
    name: str | None = None


class ReferenceFields(LooseShape):
    """A config of the same namespace, or of KServe's own."""

    name: str


class SpecFields(WorkloadFields):
    """The spec of a service or of a config."""

    model: ModelFields | None = None
    prefill: WorkloadFields | None = None
    base_refs: list[ReferenceFields] | None = None


class ServiceFields(LooseShape):
    """A service or a config, as far as it matters."""

    spec: SpecFields | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LlmService:
    """A service by its object; its workloads depend on the configs that it is based on."""

    source: KubernetesObject
    spec: SpecFields


@dataclass(frozen=True, slots=True, kw_only=True)
class LlmConfig:
    """A config by its object."""

    source: KubernetesObject


def read_llm_service(source: KubernetesObject) -> Iterator[Piece]:
    """The service, or the broken resource, and all findings."""
    severity = severity_of(source)
    validated = validate(ServiceFields, source.fields, locate=source.locate, severity=severity)
    yield from break_on(source, validated.findings)
    if validated.value is not None:
        yield LlmService(source=source, spec=validated.value.spec or SpecFields())


def read_llm_config(source: KubernetesObject) -> Iterator[Piece]:
    """The config; what is wrong in it shows in the services that are based on it."""
    yield LlmConfig(source=source)


def join_services(services: Sequence[LlmService], configs: Iterable[LlmConfig]) -> Iterator[Piece]:
    """The workloads of all services, and what sets their replicas."""
    found = _Configs.of(configs)
    for service in services:
        yield from _join(service, found)


@dataclass(frozen=True, slots=True)
class _Configs:
    by_key: Mapping[tuple[str, str, str], LlmConfig]
    by_name: Mapping[tuple[str, str], Sequence[LlmConfig]]

    @classmethod
    def of(cls, configs: Iterable[LlmConfig]) -> "_Configs":
        by_name: dict[tuple[str, str], list[LlmConfig]] = {}
        every = list(configs)
        for each in every:
            by_name.setdefault((each.source.cluster, each.source.name), []).append(each)
        return cls({(each.source.cluster, each.source.namespace, each.source.name): each for each in every}, by_name)

    def find(self, source: KubernetesObject, name: str) -> LlmConfig | None:
        """That of the service's namespace, else the only one of the name: KServe looks in its own namespace then."""
        own = self.by_key.get((source.cluster, source.namespace, name))
        named = self.by_name.get((source.cluster, name), ())
        return own or (named[0] if len(named) == 1 else None)


def _join(service: LlmService, configs: _Configs) -> Iterator[Piece]:
    source, names = service.source, [each.name for each in service.spec.base_refs or ()]
    bases = [configs.find(source, name) for name in names]
    missing = [name for name, base in zip(names, bases, strict=True) if base is None]
    written = [_spec_of(base.source) for base in bases if base is not None]
    merged = _merge(*written, _spec_of(source)) if written else None
    spec = service.spec
    if merged is not None:
        whole = validate(ServiceFields, {"spec": merged}, locate=source.locate)
        if whole.value is None or whole.value.spec is None:
            reason = f"its spec cannot be read with {join_words(names, 'and')} below it"
            yield source.broken(reason)
            return
        spec = whole.value.spec
    unknown = ""
    if missing:
        unknown = (
            f"LLMInferenceServiceConfig {quote(missing[0])}, which it is based on, is not in Git: it may say how it is "
            "split and scaled"
        )
    build = _Parts(source=source, own=service.spec, spec=spec, unknown=unknown)
    yield from read_parts(source, build.parts(), ())
    yield from build.owners()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Parts:
    """The parts of one service: `own` is its spec as written, `spec` with the configs below it."""

    source: KubernetesObject
    own: SpecFields
    spec: SpecFields
    unknown: str

    def parts(self) -> tuple[ServedPart, ...]:
        """The main part, and that of prefill where there is one."""
        main = self._part("", self.own, self.spec)
        if self.spec.prefill is None:
            return (main,)
        return (main, self._part("prefill", self.own.prefill or WorkloadFields(), self.spec.prefill))

    def owners(self) -> Iterator[Piece]:
        """The autoscalers that KServe makes of `scaling`."""
        parts = (("", self.own, self.spec), ("prefill", self.own.prefill, self.spec.prefill))
        for name, own, spec in parts:
            if spec is None or spec.scaling is None:
                continue
            kind, ending = spec.scaling.autoscaler
            made = child_name(self.source.name, f"-kserve{f'-{name}' if name else ''}{ending}")
            path = (*self._path(name), "scaling")
            scaling = own.scaling if own is not None else None
            bounds = None
            if scaling is not None:  # those of a config are shared by all that are based on it
                bounds = (
                    Count(path=(*path, "minReplicas"), written=scaling.min_replicas, default=1),
                    Count(path=(*path, "maxReplicas"), written=scaling.max_replicas, is_ceiling=True),
                )
            owner = bounds_owner(self.source, f"{kind} {made}, which KServe makes of scaling", name, bounds, path)
            if bounds is None or spec.scaling.wva is not None:
                yield owner
                continue
            keda = (*path, "keda")
            yield replace(
                owner,
                scaler=keda_scaler(
                    self.source,
                    bounds[0].value or 0,
                    bounds[1].value,
                    spec_path=keda,
                    behavior_path=(*keda, "advanced", "horizontalPodAutoscalerConfig", "behavior"),
                    hpa_name=f"keda-hpa-{made}",
                ),
            )

    def _path(self, name: str) -> FieldPath:
        return ("spec", name) if name else ("spec",)

    def _part(self, name: str, own: WorkloadFields, spec: WorkloadFields) -> ServedPart:
        source, is_split = self.source, self.spec.prefill is not None
        role = (name or "decode") if is_split else "both"
        path, group = self._path(name), spec.worker is not None
        ending = f"-kserve{'-mn' if group else ''}{f'-{name}' if name else ''}"
        words, variables, image = self._words(spec)
        served = (self.spec.model.name if self.spec.model is not None else None) or source.name
        inherited = spec.replicas if own.replicas is None and own.scaling is None else None
        default = inherited if isinstance(inherited, int) and not isinstance(inherited, bool) else None
        return ServedPart(
            name=name,
            counts=(Count(path=(*path, "replicas"), written=own.replicas, default=default),),
            templates=_templates(spec, path),
            engine=find_engine(image, words) or "vllm",
            words=words,
            variables=variables,
            model_id=served,
            served_names=(served,),
            labels={
                **{key: value or "" for key, value in (spec.labels or {}).items()},
                "app.kubernetes.io/name": source.name,
                "app.kubernetes.io/part-of": _PART_OF,
                "kserve.io/component": "workload",
                "llm-d.ai/role": role,
            },
            made=("LeaderWorkerSet" if group else "Deployment", child_name(source.name, ending)),
            unsized=self._stopped() or self.unknown,
            unwritable=self._contradiction(own, spec, path),
        )

    def _stopped(self) -> str:
        return f"it is stopped by its annotation {STOP}" if self.source.annotations.get(STOP) == "true" else ""

    def _contradiction(self, own: WorkloadFields, spec: WorkloadFields, path: FieldPath) -> Hold | None:
        """KServe refuses a spec that has both a number and an autoscaler."""
        if spec.replicas is None or spec.scaling is None:
            return None
        words = "both replicas and scaling are given, here or in a config that it is based on: KServe takes only one"
        field = "replicas" if own.replicas is not None else "scaling"
        return Hold(kind=HoldKind.SETTINGS_CONFLICT, words=words, place=self.source.locate((*path, field)))

    def _words(self, spec: WorkloadFields) -> tuple[tuple[str, ...], dict[str, str], str]:
        """The command line and the image: KServe's presets run `vllm serve` with arguments of the container."""
        containers = (spec.template.containers if spec.template is not None else None) or []
        container = next((each for each in containers if each.name == _MAIN), None)
        own, variables = command_line(container)
        words = own if container is not None and container.command else ("vllm", "serve", *own)
        parallel = spec.parallelism
        if not (container is not None and container.command):
            words = (*words, *_split(variables.get(_MORE_ARGUMENTS, "")))
            sizes = (
                ("--tensor-parallel-size", parallel.tensor if parallel else None),
                ("--data-parallel-size", parallel.data if parallel else None),
                ("--data-parallel-size-local", parallel.data_local if parallel else None),
                ("--pipeline-parallel-size", parallel.pipeline if parallel else None),
            )
            words = (*words, *(word for flag, size in sizes if size for word in (flag, str(size))))
        image = container.image if container is not None and isinstance(container.image, str) else ""
        return words, variables, image


def _templates(spec: WorkloadFields, path: FieldPath) -> tuple[PodTemplate, ...]:
    """The pods of one replica: one, or with a worker a group whose first is made of the template, if there is one."""
    main = None if spec.template is None else _template(spec.template, (*path, "template"))
    if spec.worker is None:
        return (main or _template(PodSpec(), (*path, "template")),)
    pods = spec.parallelism.pods if spec.parallelism is not None else 1
    if main is None:
        return (_template(spec.worker, (*path, "worker"), pods),)
    return (main, _template(spec.worker, (*path, "worker"), pods - 1)) if pods > 1 else (main,)


def _template(pod: PodSpec, path: FieldPath, pods: int = 1) -> PodTemplate:
    return PodTemplate(path=path, fields=TemplateFields(spec=pod), pods=pods, below=())


def _split(text: str) -> tuple[str, ...]:
    try:
        return tuple(shlex.split(text))
    except ValueError:
        return tuple(text.split())


def _spec_of(source: KubernetesObject) -> Mapping[str, object]:
    spec = source.fields.get("spec")
    return spec if isinstance(spec, dict) else {}


def _merge(*specs: Mapping[str, object]) -> dict[str, object]:
    """Specs one over the other as strategic merge patches: mappings by key, lists of named items by their names."""
    merged: dict[str, object] = {}
    for spec in specs:
        merged = cast("dict[str, object]", _over(merged, spec))
    return merged


def _over(below: object, above: object) -> object:
    if isinstance(below, dict) and isinstance(above, dict):
        return {**below, **{key: _over(below[key], value) if key in below else value for key, value in above.items()}}
    if isinstance(below, list) and isinstance(above, list) and _named(below) and _named(above):
        by_name = {each["name"]: each for each in below}
        for each in above:
            by_name[each["name"]] = _over(by_name.get(each["name"], {}), each)
        return list(by_name.values())
    return above


def _named(items: Sequence[object]) -> bool:
    return all(isinstance(each, dict) and isinstance(each.get("name"), str) for each in items)
