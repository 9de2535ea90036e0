"""What the inference gateway declares: pools of pods that serve models, and how important requests to them are.

`group` is the API group an object is written in: objects of equal names in two groups are two objects.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from reconciler.domain.identity import Place, ResourceKey

POOL_GROUP = "inference.networking.k8s.io"
EXPERIMENTAL_GROUP = "inference.networking.x-k8s.io"
ROUTER_GROUP = "llm-d.ai"
DEFAULT_PRIORITY = 0
"""The priority of requests that no objective speaks for, and of an objective that has none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolRef:
    """A pool in the namespace of whoever refers to it."""

    name: str
    group: str = POOL_GROUP
    kind: str = "InferencePool"
    place: Place


@dataclass(frozen=True, slots=True, kw_only=True)
class InferenceObjective:
    """How important the requests are that name it: higher goes first, below 0 is expendable.

    `priority_place` is None when no priority is written.
    """

    key: ResourceKey
    group: str
    place: Place
    pool: PoolRef
    priority: int = DEFAULT_PRIORITY
    priority_place: Place | None = None


class Criticality(StrEnum):
    """How important a model's requests were before there were priorities."""

    CRITICAL = "Critical"
    STANDARD = "Standard"
    SHEDDABLE = "Sheddable"

    @property
    def priority(self) -> int:
        """In today's terms; only the order matters."""
        return {Criticality.CRITICAL: 1, Criticality.STANDARD: 0, Criticality.SHEDDABLE: -1}[self]


@dataclass(frozen=True, slots=True, kw_only=True)
class InferenceModel:
    """The older objective: a model's name in requests and its criticality."""

    key: ResourceKey
    group: str
    place: Place
    model_name: str
    pool: PoolRef
    criticality: Criticality = Criticality.STANDARD
    criticality_place: Place | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class InferencePool:
    """Pods of a namespace by their labels; every port of a pod is an endpoint of its own.

    It has no replicas and names no scale target: those whose pods it selects are its.
    """

    key: ResourceKey
    group: str
    place: Place
    selector: Mapping[str, str]

    def selects(self, labels: Mapping[str, str]) -> bool:
        """Whether pods with these labels are in it; an empty selector selects none."""
        return bool(self.selector) and self.selector.items() <= labels.items()


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRewrite:
    """That requests of a pool are sent to other models; by which rules changes no count."""

    key: ResourceKey
    group: str
    place: Place
    pool: PoolRef


@dataclass(frozen=True, slots=True, kw_only=True)
class Inference:
    """All that the inference gateway declares in the commit."""

    pools: tuple[InferencePool, ...] = ()
    objectives: tuple[InferenceObjective, ...] = ()
    models: tuple[InferenceModel, ...] = ()
    rewrites: tuple[ModelRewrite, ...] = ()
