"""What is known of a kind: one record each, made by the family that the kind belongs to, found in the registry."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field
from typing import TypeAlias

from reconciler.domain.records import dataclass
from reconciler.domain.written import FieldPath
from reconciler.resources.objects import KubernetesObject, Piece

Reader: TypeAlias = Callable[[KubernetesObject], Iterator[Piece]]
ConfigMapReader: TypeAlias = Callable[[KubernetesObject, Mapping[str, object]], Iterator[Piece]]
"""What a ConfigMap and the entries of its `data` declare."""
Undecided: TypeAlias = Callable[[Mapping[str, object]], Mapping[str, str]]
"""From a spec to the patterns of its fields that decide nothing, each with the reason (see `find_undecided`)."""

Joiner: TypeAlias = Callable[[Sequence[Piece]], Iterator[Piece]]
"""From the pieces of all files to what they declare together."""

GENERATED = "[bcdfghjklmnpqrstvwxz2456789]"
"""A letter of the names that Kubernetes generates: no vowels, nothing that looks like another."""
ROLE = "{role}"
"""In `pod_names`: the role that the pod belongs to."""


def _nothing(_: Mapping[str, object]) -> Mapping[str, str]:
    return {}


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingKind:
    """What a kind is that serves models by itself, in words: a row of the table in `.github/docs/workloads.md`.

    A `Workload` piece of such a kind becomes a variant when the team says so. `replicas` is the field with their
    number, `instance` what one replica is, `accelerator` where that is read, `bounds` who else may write the number and
    which bounds are proposed then, `metrics` how its series are found, `tried_on` the public repositories it was tried
    on.
    """

    replicas: str
    instance: str
    accelerator: str
    bounds: str
    metrics: str
    tried_on: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A kind that is read: its API versions, what makes pieces of one object, and what it is to others.

    `retired` are versions that a cluster no longer serves. A kind that is `ours_alone` has no namesake in another
    group, so another group is a mistake; else the object is somebody else's and ignored. One that `reads_templates`
    matters even when its own name is filled in later. `word` stands in every document of the kind where the kind's
    own name is one of a more common namesake, whose objects may leave out their version.
    """

    versions: tuple[str, ...]
    read: Reader
    retired: tuple[str, ...] = ()
    ours_alone: bool = False
    is_namespaced: bool = True
    reads_templates: bool = False
    word: str = ""
    undecided: Undecided = _nothing
    declares_variants: bool = False
    """Whether its objects declare variants: one that cannot be read is shown as held."""
    holds_settings: bool = False
    """Whether its objects are never scaled: one that cannot be built is reported only by its build."""
    is_scale_target: bool = False
    """Whether a VariantAutoscaling may name it, in the first of its versions."""
    is_autoscaler: bool = False
    """Whether it sets the replicas of what its `spec.scaleTargetRef` names."""
    holds_numbers: bool = False
    """Whether it holds numbers of other objects, in fields of any name or inside of texts."""
    is_pod_group: bool = False
    """Whether its pods are those of a LeaderWorkerSet of its name, which labels them."""
    serving: ServingKind | None = None
    """How its objects serve models, if they do so without a resource of an autoscaler."""
    pod_names: str = ""
    """The regular expression of what follows an object's name in the names of its pods; empty where none is known."""
    is_foreign: bool = False
    """Whether a mistake in an object is nothing to us as long as no annotation of ours stands on it."""
    flavor_lists: tuple[FieldPath, ...] = ()
    """Where the accelerators that it may run on are listed by the names of flavors."""


def _joined(_: Sequence[Piece]) -> Iterator[Piece]:
    yield from ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """The kinds of one system by name, and what it reads in ConfigMaps, by their names (empty: in any other).

    `join` makes further pieces of those of all files, for resources that depend on others.
    """

    kinds: Mapping[str, Kind]
    config_maps: Mapping[str, ConfigMapReader] = field(default_factory=dict)
    join: Joiner = _joined
