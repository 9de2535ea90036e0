"""ModelSpec and ModelBoosterSpec, as each generation validates them."""

from typing import Annotated, Literal

from pydantic import Field, model_validator

from reconciler.resources.kthena.fields import (
    MAX_REPLICAS,
    Count,
    MinReplicas,
    PolicyFieldsBeforeV1,
    ReplicaBoundsFields,
    Window,
)
from reconciler.resources.kubernetes.pods import Affinity, Resources
from reconciler.resources.validation import Shape

_NAME_PATTERN = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"
_NAME = "lower-case letters, digits and -"
Name = Annotated[str, Field(pattern=_NAME_PATTERN, description=_NAME)]
ModelUri = Annotated[
    str, Field(alias="modelURI", pattern=r"^(hf://|s3://|pvc://|ms://).+", description="a URI of hf, s3, pvc or ms")
]
CacheUri = Annotated[
    str | None,
    Field(alias="cacheURI", pattern=r"^(hostpath://|pvc://).+", description="a URI of hostpath or pvc"),
]
ArtifactUrl = Annotated[
    str | None,
    Field(alias="artifactURL", pattern=r"^(hf://|s3://|pvc://|ms://).+", description="a URL of hf, s3, pvc or ms"),
]
BackendType = Literal["vLLM", "vLLMDisaggregated", "SGLang", "MindIE", "MindIEDisaggregated"]
WorkerType = Literal["server", "prefill", "decode", "controller", "coordinator"]


class WorkerFields(Shape):
    """Pods of one type; `config` is JSON of the engine."""

    type: WorkerType | None = None
    image: str | None = None
    replicas: MinReplicas | None = None
    pods: MinReplicas | None = None
    resources: Resources | None = None
    affinity: Affinity | None = None
    tolerations: list[object] | None = None
    node_selector: dict[str, str | None] | None = None
    config: dict[str, object] | None = None


class LoraFields(Shape):
    """A LoRA adapter that a backend serves."""

    name: Name
    artifact_url: ArtifactUrl = None


class PolicyRefFields(Shape):
    """A policy of the same namespace; empty is none."""

    name: str | None = None


class BackendFields(Shape):
    """What backends of all generations have. Environment variables are read in part."""

    name: Name | None = None
    type: BackendType
    model_uri: ModelUri
    cache_uri: CacheUri = None
    env: list[dict[str, object]] | None = None
    env_from: list[dict[str, object]] | None = None
    workers: Annotated[list[WorkerFields], Field(min_length=1, max_length=1000)]
    scheduler_name: str | None = None
    runtime_class_name: str | None = None


class BackendFieldsBeforeG3(BackendFields, ReplicaBoundsFields):
    """One of a Model's backends. Only G0 wrote `cost`, `config`, `loraAdapterRefs` and `autoscalingPolicyRef`."""

    name: Name
    scaling_cost: Count | None = None
    cost: Count | None = None
    route_weight: Annotated[int, Field(ge=0, le=100)] | None = None
    scale_to_zero_grace_period: Window | None = None
    lora_adapters: list[LoraFields] | None = None
    lora_adapter_refs: list[PolicyRefFields] | None = None
    autoscaling_policy: PolicyFieldsBeforeV1 | None = None
    autoscaling_policy_ref: PolicyRefFields | None = None
    config: dict[str, object] | None = None


class BackendFieldsG3(BackendFields, ReplicaBoundsFields):
    """The only backend of a ModelBooster whose own policy scales it."""


class BackendFieldsG4(BackendFields):
    """The only backend of a ModelBooster with fixed replicas: other resources scale it, if any do."""

    replicas: MinReplicas | None = None


class StringMatchFields(Shape):
    """One way to match a text."""

    exact: str | None = None
    prefix: str | None = None
    regex: str | None = None

    @model_validator(mode="after")
    def _check_union(self) -> "StringMatchFields":
        written = [name for name in ("exact", "prefix", "regex") if getattr(self, name) is not None]
        if len(written) != 1:
            found = f"got {' and '.join(written)}" if written else "found none"
            raise ValueError(f"expected exactly one of exact, prefix and regex, {found}")
        return self


class BodyFields(Shape):
    """The model that a request names."""

    model: Annotated[str | StringMatchFields | None, Field(description="a name, or how it is matched")] = None


class MatchFields(Shape):
    """Which requests are for the model."""

    headers: dict[str, StringMatchFields] | None = None
    uri: StringMatchFields | None = None
    body: BodyFields | None = None


class ModelFields(Shape):
    """What specs of all generations have."""

    name: Annotated[str, Field(pattern=_NAME_PATTERN, max_length=64, description=f"{_NAME}, 64 at most")] | None = None
    owner: str | None = None
    model_match: MatchFields | None = None


class ModelFieldsBeforeG3(ModelFields):
    """The spec of a Model, and of a ModelBooster with several backends."""

    backends: Annotated[list[BackendFieldsBeforeG3], Field(min_length=1)]
    autoscaling_policy: PolicyFieldsBeforeV1 | None = None
    autoscaling_policy_ref: PolicyRefFields | None = None
    cost_expansion_rate_percent: Annotated[int, Field(ge=0, le=1000)] | None = None


class BoosterFieldsG3(ModelFields):
    """The spec of a ModelBooster with one backend and a policy."""

    backend: BackendFieldsG3
    autoscaling_policy: PolicyFieldsBeforeV1 | None = None


class BoosterFieldsG4(ModelFields):
    """The spec of a ModelBooster with fixed replicas."""

    backend: BackendFieldsG4


AnyBackendFields = BackendFieldsBeforeG3 | BackendFieldsG3 | BackendFieldsG4
AnyModelFields = ModelFieldsBeforeG3 | BoosterFieldsG3 | BoosterFieldsG4
LARGEST_SUM = MAX_REPLICAS
