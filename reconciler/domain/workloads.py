"""What a scale target runs, and what scales it."""

from collections.abc import Mapping
from dataclasses import field
from typing import TypeAlias

from reconciler.domain.canaries import CopyPlace
from reconciler.domain.holds import Hold
from reconciler.domain.identity import Place, ResourceKey
from reconciler.domain.records import dataclass
from reconciler.domain.scalers import Scaler
from reconciler.domain.written import (
    DocumentRef,
    EntryPlace,
    FieldPath,
    WrittenField,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Annotation:
    """One of our annotations, checked; `value` is already of the setting's type."""

    value: str | int | float | bool
    place: Place


_UNSET_BATCH_TOKENS = 2048
_CHUNKED_BATCH_TOKENS = 8192


@dataclass(frozen=True, slots=True, kw_only=True)
class DisruptionBudget:
    """A PodDisruptionBudget: how many pods must be available, or with `is_unavailable` how many may be away.

    `amount` is a count of pods, or a percentage of all.
    """

    name: str
    place: Place
    amount: int
    is_percent: bool = False
    is_unavailable: bool = False

    @property
    def is_count(self) -> bool:
        """Whether so many pods must be available however many there are."""
        return not self.is_percent and not self.is_unavailable

    def keeps(self, pods: int) -> int:
        """How many of so many pods must be available, as Kubernetes counts: it rounds both kinds of shares up."""
        amount = -(-self.amount * pods // 100) if self.is_percent else self.amount
        return max(pods - amount, 0) if self.is_unavailable else amount


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchSettings:
    """How an inference engine was started, as far as its capacity depends on it: see rules/saturation.md.

    `max_batched_tokens` None is the engine's own default; the overrides are None where the engine measures itself.
    `parallel`: over how many devices its arguments spread it, by tensors, stages and copies; None where they cannot be
    read.
    """

    engine: str = "vllm"
    memory_fraction: float = 0.9
    block_tokens: int = 16
    kv_dtype: str = "auto"
    tensor_parallel: int = 1
    parallel: int | None = field(default=1, compare=False)
    max_num_seqs: int = 256
    max_batched_tokens: int | None = None
    max_model_tokens: int | None = None
    is_chunked: bool = True
    is_first_engine: bool = False
    num_blocks_override: int | None = None
    total_kv_tokens_override: int | None = None
    written_num_seqs: int | None = field(default=None, compare=False)
    """`max_num_seqs` where the arguments state it; defaults differ between releases of an engine."""
    step_tokens: int | None = field(default=None, compare=False)
    """Tokens of a request that a step computes where the arguments ask for speculative decoding: drafts and its own."""

    @property
    def sizes(self) -> tuple[int, ...]:
        """The values of all settings that are counts."""
        optional = self.max_batched_tokens, self.max_model_tokens, self.num_blocks_override
        return (self.block_tokens, self.tensor_parallel, self.max_num_seqs, *(each or 0 for each in optional))

    @property
    def batched_tokens(self) -> int:
        """Tokens that one engine step may hold at most."""
        if self.max_batched_tokens is not None and self.max_batched_tokens > 0:
            return self.max_batched_tokens
        if self.is_chunked:
            return _UNSET_BATCH_TOKENS if self.is_first_engine else _CHUNKED_BATCH_TOKENS
        return max(self.max_model_tokens or 0, _UNSET_BATCH_TOKENS)

    def is_compatible(self, other: "LaunchSettings") -> bool:
        """Whether a replica started like that holds as many tokens as this one."""
        return self.footprint == other.footprint

    @property
    def footprint(self) -> tuple[object, ...]:
        """Everything that decides how many tokens a replica holds."""
        return (
            self.engine,
            self.memory_fraction,
            self.block_tokens,
            self.kv_dtype,
            self.tensor_parallel,
            self.num_blocks_override,
            self.total_kv_tokens_override,
            self.batched_tokens,
        )


NodeTerm: TypeAlias = tuple[tuple[str, str, tuple[str, ...]], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PodPlace:
    """Pods of a scale target that ask for devices: where `nodeSelector` and `affinity` stand, and what they say.

    `affinity` holds the allowed values by key, of required terms only; `terms` are these terms themselves, of which a
    node meets one: key, operator and values of each requirement. `unplaceable` says in words why no node selector can
    be written there.
    """

    path: FieldPath
    node_selector: Mapping[str, str] = field(default_factory=dict)
    affinity: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    terms: tuple[NodeTerm, ...] = ()
    unplaceable: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """A scale target as written: a Deployment, a StatefulSet, or a LeaderWorkerSet, whose replicas are groups of pods.

    `replicas` None is not written. `node_selector` and `affinity` (key -> allowed values, required terms only)
    are the pod template's; of a group what its templates agree on. `devices` counts each vendor resource one replica
    asks for, over its pods and their containers; `device_resources` are those of the only container that asks, of the
    only pod. `pods` are the templates with devices, else the first; `moves` lists the mappings below them (and of
    the labels, or the flavors) that are not written in its own manifest alone.
    `images` are those of its pods' containers. `engine` is `vllm`, `sglang`, `tgi`, `trtllm`, `triton`, `nim` or empty
    when it is none of these. `launch` says how it is started, None when that is not read of this engine; `spread` is
    then the number of devices for a replica, as it is written. `model_id` is the model that its arguments, its
    environment or a field of its kind name, and `unsized` says why its replicas are not sized although it serves.
    `port` is the name of the port of the engine's server, or its number where it has none; empty where none is
    declared.
    `templated` names a field whose place holds `${}` or `{{ }}` text. `replica_fields` are where its replicas are
    written when that is not its own `spec.replicas`: all get the number, and `considered` is the chain of places it was
    chosen from, in words. `unwritable` says why no number may be written, `immovable` why no other accelerator.
    `becomes` is the object that a controller makes of it, after which its pods are named.
    """

    key: ResourceKey
    document: DocumentRef
    place: Place
    replicas: int | None
    replicas_place: Place | None = None
    node_selector: Mapping[str, str] = field(default_factory=dict)
    affinity: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    devices: Mapping[str, int] = field(default_factory=dict)
    device_resources: FieldPath | None = None
    pods: tuple[PodPlace, ...] = ()
    moves: Mapping[FieldPath, EntryPlace] = field(default_factory=dict)
    served_names: tuple[str, ...] = ()
    images: tuple[str, ...] = ()
    engine: str = ""
    launch: LaunchSettings | None = None
    spread: str = ""
    model_id: str = ""
    unsized: str = ""
    port: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    template_labels: Mapping[str, str] = field(default_factory=dict)
    settings: Mapping[str, Annotation] = field(default_factory=dict)
    templated: str = ""
    replica_fields: tuple[WrittenField, ...] = ()
    considered: tuple[str, ...] = ()
    unwritable: Hold | None = None
    immovable: Hold | None = None
    caution: str = ""
    """What a person should know who is about to merge an edit of it."""
    budgets: tuple[DisruptionBudget, ...] = ()
    """Over its pods, by name."""
    copies_at: CopyPlace | None = None
    """Where a second one can be written beside it; None where nobody looked."""
    becomes: ResourceKey | None = None
    bounds_of: str = ""
    """The autoscaler whose lower bound `replicas` is; empty where they are a count of their own."""

    @property
    def is_serving(self) -> bool:
        """Whether it visibly serves a model: it runs a known engine, of a known model or on devices."""
        return bool(self.engine) and bool(self.model_id or self.devices)

    @property
    def written_at(self) -> tuple[WrittenField, ...]:
        """Every field that says how many replicas run."""
        return self.replica_fields or (self.own_replicas,)

    @property
    def own_replicas(self) -> WrittenField:
        """`spec.replicas` of its own manifest, whether or not that counts."""
        return WrittenField(document=self.document, field=("spec", "replicas"), place=self.replicas_place or self.place)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaOwner:
    """Something else that sets a workload's replicas: an HPA, a ScaledObject, a kustomization.

    `namespace` empty: in any namespace of its cluster (a kustomization does not say). `fields` are the bounds of an
    autoscaler, the smaller first, and `least` its smaller one; `signals` name what it scales by, as far as it says.
    `target_part` names one part of the target, if not all. `is_followed`: it states what is followed here, unless it
    is to be tuned itself.
    """

    cluster: str
    namespace: str
    owner: str
    target_kind: str
    target_name: str
    place: Place
    least: int | None = None
    makes_autoscaler: bool = False
    """Whether it makes an autoscaler of its own: another one on the same target then does not count."""
    signals: tuple[str, ...] = ()
    fields: tuple[WrittenField, ...] = ()
    target_part: str = ""
    scaler: Scaler | None = None
    """Its other settings, where they are read."""
    is_followed: bool = False
