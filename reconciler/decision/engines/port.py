"""The port of sizing engines: what one is asked, for all of its models together, and what it answers."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from enum import Enum, auto
from typing import Protocol

from reconciler.decision.devices import Devices
from reconciler.decision.formulation import FormulatedProblem, ModelProblem
from reconciler.decision.load_variation import LoadVariation
from reconciler.decision.variant_states import Allocations, VariantState
from reconciler.domain.holds import Hold
from reconciler.domain.identity import CandidateKey, Figure, ModelKey, ResourceKey
from reconciler.domain.inventory import Allocation
from reconciler.domain.observed import Load, Performance
from reconciler.domain.plan import Step
from reconciler.domain.records import dataclass
from reconciler.domain.settings import SaturationRules
from reconciler.domain.snapshot import Snapshot, Variant
from reconciler.domain.variant_settings import Engine

Models = Mapping[ModelKey, Sequence[VariantState]]
"""The variants of each model."""


class EngineQuestion(Enum):
    """What an engine may want to know of a model from Prometheus."""

    LOAD = auto()
    PAST = auto()
    USUAL = auto()
    REPLICAS = auto()
    TRACES = auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class Admission:
    """Whether an engine can size a model, with the reason in words; a refusal may have none worth telling."""

    is_admitted: bool
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lacks:
    """What an engine lacks to size a variant; None is not lacking.

    `metrics` were asked for and are not there. `means` is what somebody must give: a profile, a class, a policy. Some
    of its `replicas` did not report the load that they carry: then nothing of the model is scaled down.
    """

    metrics: Hold | None = None
    means: Hold | None = None
    replicas: Hold | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SizingInput:
    """What every engine sizes from: the snapshot, its devices, and what the load of each model did before."""

    snapshot: Snapshot
    devices: Devices
    variations: Mapping[ModelKey, LoadVariation]


class EngineAnswer(Protocol):
    """What an engine says of all the models that it sizes: their part of the problem, and the words for it."""

    @property
    def problems(self) -> Mapping[ModelKey, ModelProblem]:
        """Requirements, candidates and holds, by model; one that nothing is known of is left out."""

    def expect(self, rates: Collection[tuple[CandidateKey, float]]) -> Mapping[CandidateKey, Performance]:
        """The expected performance of its candidates among those given, each at its arrival rate (req/s a replica)."""
        return {}

    def max_batch_size(self, candidate: CandidateKey) -> int | None:
        """The batch that a candidate was sized for; None where none was."""
        return None

    def is_unsure(self, candidate: CandidateKey) -> bool:
        """Whether a replica would carry more inside its targets than a learned profile is sure of."""
        return False

    def steps(self, state: VariantState, formulated: FormulatedProblem) -> Iterable[Step]:
        """The steps from what was observed of a variant to what its model needs; none where it saw nothing of it."""

    def why_kept(self, variant: Variant, desired: Allocation, formulated: FormulatedProblem, after: Allocations) -> str:
        """What keeps a replica that the demand of now does not need; empty when that is not what does."""
        return ""

    def why(self, variant: Variant, desired: Allocation) -> str:
        """Why a variant gets its allocation, where neither optimizer nor staging has more to say."""

    def figures(self, variant: Variant) -> Iterable[Figure]:
        """The figures behind its answer for a variant, inputs first."""
        return ()


class Basis(Enum):
    """What an engine sizes a model from."""

    LOAD = auto()
    """Arrivals and token lengths: without them it can do nothing."""
    FULLNESS = auto()
    """What replicas report of their KV caches and queues."""
    TARGETS = auto()
    """The metric targets of a policy."""


class Safeguards(Protocol):
    """What keeps an engine from acting on what is not known; with it no replica goes that `payback` needed.

    Engines that follow a policy or reproduce upstream have none: they have windows and rules of their own.
    """

    def waits_for_replicas_s(self, variant: Variant) -> float:
        """How long after the newest commit replicas in Git that do not report hold any further growth."""

    def forgets(self, snapshot: Snapshot, members: Sequence[Variant], payback_s: float) -> str:
        """Why it is not known what the model of these variants needed within `payback_s`; empty where it is."""

    def contradictions(self, snapshot: Snapshot, variants: Iterable[Variant]) -> Mapping[ResourceKey, Hold]:
        """Why what it would expect of some of the variants that it sizes is not what was measured."""
        return {}

    def why_capacity_unknown(self, state: VariantState) -> str:
        """Why it is not known what a held variant's replicas carry; empty where it does not matter."""
        return ""


class SizingEngine(Protocol):
    """One way to size models, for all of its models together."""

    @property
    def name(self) -> Engine:
        """As `sizing.engine` spells it."""

    @property
    def basis(self) -> Basis:
        """What it sizes from."""

    @property
    def safeguards(self) -> Safeguards | None:
        """What it checks before it acts; None where the rule that it follows has its own."""
        return None

    def admit(self, members: Sequence[Variant], load: Load | None) -> Admission:
        """Whether it can size the model of these variants under its load (None: not known yet)."""

    def questions(self, members: Sequence[Variant], rules: SaturationRules) -> Collection[EngineQuestion]:
        """What Prometheus must be asked for the model of these variants."""

    def lacks(self, snapshot: Snapshot, variant: Variant) -> Lacks:
        """What it lacks to size a variant."""

    def size(self, given: SizingInput, models: Models) -> EngineAnswer:
        """What it requires for these models, which are all that it sizes."""


def has_learned(members: Iterable[Variant]) -> bool:
    """Whether any of the profiles was learned."""
    return any(option.profile.learning is not None for each in members for option in each.options)
