"""RayServices: their schemas, and what they declare."""

from collections.abc import Iterator, Sequence

from pydantic import ConfigDict

from reconciler.domain.holds import Hold, HoldKind
from reconciler.domain.identity import Place
from reconciler.domain.written import FieldPath
from reconciler.errors import InputError
from reconciler.manifests.documents import parse_documents
from reconciler.resources.kubernetes.pods import PodTemplate, Resources, TemplateFields, list_devices
from reconciler.resources.kubernetes.served_parts import Count, ServedPart, bounds_owner, read_parts, severity_of
from reconciler.resources.objects import KubernetesObject, Piece
from reconciler.resources.validation import LooseShape, is_templated, validate

_GPU = "nvidia.com/gpu"
_CONFIG: FieldPath = ("spec", "serveConfigV2")
_GROUPS: FieldPath = ("spec", "rayClusterConfig", "workerGroupSpecs")
_MOST_DEVICES = 100_000


class TextShape(LooseShape):
    """Base of what Ray reads itself: names as Python writes them."""

    model_config = ConfigDict(alias_generator=None)


class LoadingFields(TextShape):
    """The name that requests use, and where the model comes from."""

    model_id: str | None = None
    model_source: object = None


class ScalingFields(TextShape):
    """Bounds of Ray Serve's autoscaler."""

    min_replicas: object = None


class DeploymentFields(TextShape):
    """How many replicas there are."""

    num_replicas: object = None
    autoscaling_config: ScalingFields | None = None


class ModelFields(TextShape):
    """One model of an application of `ray.serve.llm`."""

    model_loading_config: LoadingFields | None = None
    engine_kwargs: dict[str, object] | None = None
    deployment_config: DeploymentFields | None = None


class ArgumentFields(TextShape):
    """What its builder is given."""

    llm_configs: object = None


class ApplicationFields(TextShape):
    """One application, with its models if it is of `ray.serve.llm`."""

    args: ArgumentFields | None = None


class ServeFields(TextShape):
    """The text of `serveConfigV2`."""

    applications: list[ApplicationFields] | None = None


class GroupFields(LooseShape):
    """Workers that are alike."""

    template: TemplateFields | None = None


class ClusterFields(LooseShape):
    """The cluster that the operator makes."""

    worker_group_specs: list[GroupFields] | None = None


class SpecFields(LooseShape):
    """The spec of a RayService, as far as it matters."""

    serve_config_v2: object = None
    ray_cluster_config: ClusterFields | None = None


class ServiceFields(LooseShape):
    """A RayService."""

    spec: SpecFields | None = None


def read_ray_service(source: KubernetesObject) -> Iterator[Piece]:
    """A workload for each model, its autoscaler, or the broken resource, and all findings.

    Applications of other kinds serve no language model that could be recognised.
    """
    severity = severity_of(source)
    validated = validate(ServiceFields, source.fields, locate=source.locate, severity=severity)
    findings, spec = list(validated.findings), validated.value.spec if validated.value is not None else None
    text = spec.serve_config_v2 if spec is not None else None
    models: list[ModelFields] = []
    if isinstance(text, str) and "llm_configs" in text and not is_templated(text):
        try:
            models = _models(text)
        except InputError as error:
            findings.append(source.complain(_CONFIG, error.message, severity))
    groups = (spec.ray_cluster_config.worker_group_specs if spec and spec.ray_cluster_config else None) or ()
    parts = [_part(source, each, groups) for each in models]
    yield from read_parts(source, parts, findings)
    for part, each in zip(parts, models, strict=True):
        if _is_scaled(each.deployment_config):
            yield bounds_owner(source, "Ray Serve's autoscaler", part.name, None, _CONFIG)


def _is_scaled(deployment: DeploymentFields | None) -> bool:
    return deployment is not None and (deployment.autoscaling_config is not None or deployment.num_replicas == "auto")


def _nowhere(_: FieldPath) -> Place:
    return Place(path="")


def _models(text: str) -> list[ModelFields]:
    """The models that an application lists by name; those in files that it mentions are not read."""
    found: dict[str, ModelFields] = {}
    for document in parse_documents("", text.encode(errors="replace"))[:1]:
        serve = validate(ServeFields, document.value, locate=_nowhere).value
        for application in (serve.applications if serve is not None else None) or ():
            listed = application.args.llm_configs if application.args is not None else None
            for each in listed if isinstance(listed, list) else ():
                model = validate(ModelFields, each, locate=_nowhere).value
                name = model.model_loading_config.model_id if model and model.model_loading_config else None
                if model is not None and name:
                    found.setdefault(name, model)
    return list(found.values())


def _part(source: KubernetesObject, model: ModelFields, groups: Sequence[GroupFields]) -> ServedPart:
    loading, deployment = model.model_loading_config or LoadingFields(), model.deployment_config or DeploymentFields()
    name, kwargs = loading.model_id or "", model.engine_kwargs or {}
    scaling, number = deployment.autoscaling_config, deployment.num_replicas
    written = number if scaling is None else scaling.min_replicas
    templates = [
        PodTemplate(path=(*_GROUPS, index, "template"), fields=each.template)
        for index, each in enumerate(groups)
        if each.template is not None
    ]
    asked = {
        resource
        for each in templates
        for container in (each.fields.spec.containers or () if each.fields.spec is not None else ())
        for _, resource, _ in list_devices(container.resources or Resources())
    }
    return ServedPart(
        name=name,
        counts=(Count(path=_CONFIG, written=written if isinstance(written, int) else None, default=1),),
        # of several groups Ray chooses the workers
        templates=tuple(templates) if len(templates) == 1 else (),
        engine="vllm",
        model_id=loading.model_source if isinstance(loading.model_source, str) else name,
        served_names=(name,),
        devices={
            asked.pop() if len(asked) == 1 else _GPU: _size(kwargs, "tensor_parallel_size")
            * _size(kwargs, "pipeline_parallel_size")
        },
        unwritable=Hold(
            kind=HoldKind.NOT_WRITABLE,
            words="a replica is an actor on workers of its Ray cluster: its number is in the text of serveConfigV2, "
            "and the workers that it needs are in workerGroupSpecs",
            place=source.locate(_CONFIG),
        ),
    )


def _size(kwargs: dict[str, object], name: str) -> int:
    value = kwargs.get(name)
    return value if isinstance(value, int) and 1 <= value <= _MOST_DEVICES else 1
