"""What llmaz declares: models with the flavors they may run on, what serves them, and how backends are started.

`place` is where a noun stands; of a resource it is the object's first line. The replicas of a Playground or Service
are those of the workload with the same key.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from reconciler.domain.identity import Place, ResourceKey
from reconciler.resources.variants import Flavor

DEFAULT_BACKEND = "vllm"
MODEL_LABEL = "llmaz.io/model-name"
FAMILY_LABEL = "llmaz.io/model-family-name"


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenModel:
    """A model and its flavors, the preferred one first; of the whole cluster, so its key has no namespace."""

    key: ResourceKey
    place: Place
    family_name: str
    protocol: str = ""
    """Of the address that its weights come from, in lower case; empty where a hub has them."""
    flavors: tuple[Flavor, ...] = ()

    def find_flavor(self, name: str) -> Flavor | None:
        """The flavor of that name, as llmaz finds it: the first."""
        return next((flavor for flavor in self.flavors if flavor.name == name), None)


class ModelRole(StrEnum):
    """What a model does beside another: drafts are for speculative decoding."""

    MAIN = "main"
    DRAFT = "draft"


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRef:
    """A claimed model by its name."""

    name: str
    role: ModelRole = ModelRole.MAIN
    place: Place


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelClaim:
    """The models that are served together, at least one, and the flavors wanted, all of the model's when none is named.

    `field` is the claim's own, under which `inferenceFlavors` stands: `spec.modelClaim` or `spec.modelClaims`.
    """

    models: tuple[ModelRef, ...]
    flavor_names: tuple[str, ...] = ()
    field: tuple[str, ...] = ("spec", "modelClaim")
    place: Place
    flavors_place: Place | None = None

    @property
    def main(self) -> ModelRef:
        """The model whose flavors and name count: the first with the role main."""
        return next((model for model in self.models if model.role is ModelRole.MAIN), self.models[0])

    @property
    def is_speculative(self) -> bool:
        """Whether a draft model runs beside the main one."""
        return any(model.role is ModelRole.DRAFT for model in self.models)


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvVar:
    """A variable of the backend; empty where its value comes from elsewhere."""

    name: str
    value: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class BackendConfig:
    """How a Playground's backend is run: `args` follow those of the recommended config, the rest replaces it."""

    backend_name: str = DEFAULT_BACKEND
    version: str = ""
    config_name: str = ""
    args: tuple[str, ...] = ()
    envs: tuple[EnvVar, ...] = ()
    devices: Mapping[str, int] = field(default_factory=dict)
    place: Place | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ElasticConfig:
    """Bounds of the replicas; without a trigger nobody moves them but us."""

    min_replicas: int = 1
    max_replicas: int
    trigger_place: Place | None = None
    """Where what makes llmaz create a HorizontalPodAutoscaler stands, which then owns the replicas."""
    place: Place


@dataclass(frozen=True, slots=True, kw_only=True)
class Playground:
    """A model served by a backend of llmaz's, one pod a replica."""

    key: ResourceKey
    place: Place
    claim: ModelClaim
    replicas: int = 1
    backend: BackendConfig = field(default_factory=BackendConfig)
    elastic: ElasticConfig | None = None
    skips_loader: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class InferenceService:
    """`inference.llmaz.io` Service: models served by pods of one's own, `size` of them in the group of a replica."""

    key: ResourceKey
    place: Place
    claim: ModelClaim
    replicas: int = 1
    size: int = 1
    skips_loader: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RecommendedConfig:
    """One way to start a backend, by name."""

    name: str
    args: tuple[str, ...] = ()
    devices: Mapping[str, int] = field(default_factory=dict)
    trigger_place: Place | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BackendRuntime:
    """An inference engine and how it is started; of the whole cluster.

    `ignored` are the written fields by which nothing is decided: the lifecycle and the probes.
    """

    key: ResourceKey
    place: Place
    image: str
    version: str
    command: tuple[str, ...] = ()
    envs: tuple[EnvVar, ...] = ()
    recommended: tuple[RecommendedConfig, ...] = ()
    ignored: tuple[str, ...] = ()

    def find_config(self, name: str) -> RecommendedConfig | None:
        """The recommended config of that name."""
        return next((config for config in self.recommended if config.name == name), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class GlobalConfig:
    """llmaz's own settings: which scheduler its pods get, empty for the cluster's default."""

    cluster: str
    place: Place
    scheduler_name: str = ""


Serving = Playground | InferenceService
"""What serves a model: both claim models and have replicas."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Llmaz:
    """All that llmaz declares in the commit."""

    models: tuple[OpenModel, ...] = ()
    playgrounds: tuple[Playground, ...] = ()
    services: tuple[InferenceService, ...] = ()
    runtimes: tuple[BackendRuntime, ...] = ()
    configs: tuple[GlobalConfig, ...] = ()

    @property
    def servings(self) -> tuple[Serving, ...]:
        """Playgrounds, then Services."""
        return (*self.playgrounds, *self.services)
