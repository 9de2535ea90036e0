"""What goes in and what comes out: a model's readings, and an answer that can be explained line by line."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from reconciler.domain.identity import ModelKey, ResourceKey
from reconciler.domain.measured.replicas import ReplicaMetrics, UpstreamQueue
from reconciler.domain.provenance import Figure
from reconciler.domain.requirements import Requirement
from reconciler.sizing.saturation.capacities import MeanLengths
from reconciler.sizing.saturation.compute_bound import BoundHistory
from reconciler.sizing.saturation.replicas import Screened, number_fault, screen
from reconciler.sizing.saturation.thresholds import LayeredThresholds, Thresholds, layer_thresholds
from reconciler.sizing.saturation.variants import VariantFacts, obstacle_of


@dataclass(frozen=True, slots=True, kw_only=True)
class ZeroRule:
    """Whether a model may go to zero, and the requests it got in the window that decides it.

    `requests` None is not known, for `reason`: then nothing goes to zero. `is_countable` is false where an engine
    does not count requests in a way that upstream reads (anything but vLLM).
    """

    is_enabled: bool = False
    requests: float | None = None
    reason: str = ""
    is_countable: bool = True

    @property
    def is_idle(self) -> bool:
        """Whether the window is known to have been without a single request."""
        return self.requests is not None and not number_fault(self.requests) and self.requests == 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelReadings:
    """Everything that sizing one model needs; `history` is what earlier runs remembered, nothing is kept here.

    `lengths_before` are those of the last hour's requests: they stand for those of now while no replica finishes any.
    """

    model: ModelKey
    variants: tuple[VariantFacts, ...]
    replicas: tuple[ReplicaMetrics, ...] = ()
    queue: UpstreamQueue | None = None
    zero_rule: ZeroRule = field(default_factory=ZeroRule)
    history: BoundHistory = field(default_factory=dict)
    lengths_before: MeanLengths | None = None
    layered: LayeredThresholds = field(default_factory=layer_thresholds)

    @property
    def thresholds(self) -> Thresholds:
        """The effective thresholds."""
        return self.layered.thresholds

    def sound_variants(self) -> tuple[VariantFacts, ...]:
        """The variants whose own numbers can be used, sorted; of two with one key, none."""
        obstacles = self.obstacles()
        return tuple(sorted((each for each in self.variants if each.key not in obstacles), key=lambda each: each.key))

    def obstacles(self) -> dict[ResourceKey, str]:
        """In words, why the other variants cannot be sized."""
        declared = Counter(variant.key for variant in self.variants)
        return {
            each.key: obstacle_of(each) or "it is declared more than once"
            for each in self.variants
            if declared[each.key] > 1 or obstacle_of(each)
        }

    def screened(self) -> Screened:
        """Its replicas as far as they can be believed."""
        return screen(self.replicas, {variant.key for variant in self.variants})


@dataclass(frozen=True, slots=True, kw_only=True)
class Filling:
    """What replicas work on in their requirement's unit, and the part of what they carry that it may fill (0-1).

    `least` is what a proposal that is open must carry to stay; None is all that is required. `reach` is what noise may
    have them need again; 0 where the past tells nothing of it.
    """

    demand: float
    full: float
    least: float | None = None
    reach: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SaturationAnswer:
    """What saturation asks for a model: requirements for the optimizer, and what keeps variants from shrinking.

    `fillings` say how full the replicas of a requirement are. `floors` are replicas below which a variant must not go
    on this evidence, `held` says why a variant must stay as it is, `lacking` which of its metrics nobody reports, and
    `reasons` says per requirement why its amount is what it is.
    """

    requirements: tuple[Requirement, ...]
    reasons: Mapping[ModelKey, str]
    fillings: Mapping[ModelKey, Filling] = field(default_factory=dict)
    floors: Mapping[ResourceKey, int] = field(default_factory=dict)
    held: Mapping[ResourceKey, str] = field(default_factory=dict)
    lacking: Mapping[ResourceKey, str] = field(default_factory=dict)
    figures: tuple[Figure, ...] = ()
    findings: tuple[str, ...] = ()
