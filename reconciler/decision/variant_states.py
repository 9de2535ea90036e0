"""What is known of variants and models before anything is decided: states, needs, targets of their class."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field

from reconciler.domain.holds import Hold, HoldKind
from reconciler.domain.identity import ModelKey, ResourceKey, SourceKind
from reconciler.domain.inventory import Allocation
from reconciler.domain.observed import Load
from reconciler.domain.proposals import BrokenPromise
from reconciler.domain.records import dataclass
from reconciler.domain.requirements import Bounds, Requirement
from reconciler.domain.snapshot import Variant, priority_of
from reconciler.domain.variant_settings import (
    ACCELERATOR,
    CHOOSE,
    IN_ORDER,
    KEEP,
    MAX_REPLICAS,
    MIN_REPLICAS,
    PAYBACK_S,
    START_DELAY_S,
    SYNC_DELAY_S,
    Engine,
)
from reconciler.metrics.queries import HISTORY_S
from reconciler.sizing.saturation import Filling


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineChoice:
    """A model's engine, and in words why; `conflict` says why there is none."""

    engine: Engine
    reason: str
    conflict: Hold | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class VariantState:
    """A variant with its model's load and engine.

    `holds` say why it must stay as it is, the most telling first; `gap` why what its replicas carry is unknown; without
    any it is decided. `partial` says that some replicas did not report the load that they carry, `kept` that what its
    model needs is not sure for another reason: then nothing of the model is scaled down. `contradiction` says that a
    profile of the model expects other than was measured: then saturation may add replicas, and none goes. `unproven`
    says why nothing of the model is scaled up. `promise` is what a merge of ours promised of it and did not keep.
    `replicas_reporting` is None if not counted, `replicas_live` where the cluster does not say how many it wants.
    """

    variant: Variant
    choice: EngineChoice
    load: Load | None
    holds: tuple[Hold, ...] = ()
    gap: Hold | None = None
    partial: Hold | None = None
    contradiction: Hold | None = None
    unproven: Hold | None = None
    kept: Hold | None = None
    promise: BrokenPromise | None = None
    replicas_reporting: int | None = None
    replicas_live: int | None = None

    @property
    def engine(self) -> Engine:
        """What sizes its model."""
        return self.choice.engine

    @property
    def hold(self) -> Hold | None:
        """The most telling reason why it stays as it is; None when the variant is decided."""
        return self.holds[0] if self.holds else self.gap

    @property
    def is_free(self) -> bool:
        """Whether the optimizer may choose for it."""
        return self.hold is None

    @property
    def surplus_replicas(self) -> int:
        """Replicas that run beyond what Git says, as far as anybody knows."""
        running = max(self.replicas_reporting or 0, self.replicas_live or 0)
        return max(running - self.variant.current.replicas, 0)


def beside_unknown(unknown: Variant, words: str) -> Hold:
    """Why a model's variants cannot be sized together with one whose capacity is unknown."""
    words = f"shares its model's load with {unknown.key.label}, whose capacity is unknown: {words}"
    return Hold(kind=HoldKind.CAPACITY_UNKNOWN, words=words, place=unknown.place)


def load_partial(words: str) -> Hold:
    """Why nothing of a model is scaled down: a part of its load was not seen."""
    return Hold(kind=HoldKind.LOAD_PARTIAL, words=words)


def lacks_profile(variant: Variant) -> Hold | None:
    """The only accelerator allowed cannot be sized, while the current one perhaps can."""
    allowed = variant.settings[ACCELERATOR]
    if allowed.value in (KEEP, CHOOSE, IN_ORDER, variant.current.accelerator):
        return None
    others = [option for option in variant.options if option.accelerator != variant.current.accelerator]
    if others or any(option.unwritable is None for option in variant.options):
        return None
    words = f"accelerator {allowed.value} ({allowed.source}) has no profile"
    return Hold(kind=HoldKind.PROFILE_MISSING, words=words, place=allowed.source.place)


def ago(age_s: float) -> str:
    """`25m ago`, `just now`."""
    minutes = round(age_s / 60)
    return "just now" if minutes < 1 else f"{span(minutes * 60.0)} ago"


def span(span_s: float) -> str:
    """`25m`, `1h`, `1h 30m`."""
    hours, minutes = divmod(round(span_s / 60), 60)
    return f"{hours}h" if hours and not minutes else f"{hours}h {minutes}m" if hours else f"{minutes}m"


TOLERANCE = 1e-9
"""What a cover may lack, as in the optimizer."""
Allocations = Mapping[ResourceKey, Allocation]
NO_FILLINGS: Mapping[ModelKey, Filling] = {}
NO_RATES: Mapping[ModelKey, float] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Needs:
    """The requirements by model and role, each variant's own, and the variants behind each.

    `fillings` are of requirements that ask for more than their replicas work on, so that these are not full; `rates`
    are what replicas work on where the requirement asks for more, so that noise moves none of them.
    """

    requirements: Mapping[ModelKey, Requirement]
    owner_of: Mapping[ResourceKey, ModelKey]
    variants_of: Mapping[ModelKey, tuple[ResourceKey, ...]]
    fillings: Mapping[ModelKey, Filling] = field(default_factory=dict)
    rates: Mapping[ModelKey, float] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        requirements: Iterable[Requirement],
        fillings: Mapping[ModelKey, Filling] = NO_FILLINGS,
        rates: Mapping[ModelKey, float] = NO_RATES,
    ) -> "Needs":
        """The needs that `requirements` state; a variant takes part in one of them."""
        asked = {requirement.model: requirement for requirement in requirements}
        variants = {model: tuple(sorted(set(_variants(each)))) for model, each in asked.items()}
        return cls(
            requirements=asked,
            owner_of={variant: model for model, members in variants.items() for variant in members},
            variants_of=variants,
            fillings=fillings,
            rates=rates,
        )

    def of_variant(self, variant: ResourceKey) -> Requirement | None:
        """The requirement that a variant takes part in; None when nothing is known of it."""
        model = self.owner_of.get(variant)
        return None if model is None else self.requirements[model]

    def carried(self, variant: ResourceKey, allocation: Allocation) -> float | None:
        """What a variant's replicas carry under an allocation; None when that is not known."""
        requirement = self.of_variant(variant)
        key = variant.on(allocation.accelerator)
        each = None if requirement is None else requirement.per_replica.get(key)
        return None if each is None else each * allocation.replicas

    def total(self, model: ModelKey, allocations: Allocations) -> float:
        """What all variants behind a requirement carry under allocations; what is not known carries nothing."""
        return sum(self.carried(variant, allocations[variant]) or 0.0 for variant in self.variants_of[model])

    def demand(self, model: ModelKey) -> float:
        """What the replicas behind a requirement work on, or must carry where only that is known."""
        filling = self.fillings.get(model)
        return self.rates.get(model, self.requirements[model].amount) if filling is None else filling.demand

    def asked(self, model: ModelKey) -> float:
        """What the load of now asks for, headroom included, whatever was needed before."""
        filling = self.fillings.get(model)
        asked = self.requirements[model].amount if filling is None else filling.demand / filling.full
        return self.rates.get(model, asked)

    def fullness(self, model: ModelKey, allocations: Allocations) -> float | None:
        """How full replicas are under allocations; None where nothing is counted that could fill them."""
        carried = self.total(model, allocations)
        return self.fillings[model].demand / carried if model in self.fillings and carried > 0 else None

    def is_met(self, model: ModelKey, allocations: Allocations, least: float, *, like: Allocations) -> bool:
        """Whether allocations carry `least` of what a requirement asks for, or as much as those they are held against.

        A finished answer is met by itself alone.
        """
        requirement = self.requirements[model]
        if requirement.fixed is not None and requirement.per_replica:
            return all(allocations[variant].replicas == count for variant, count in requirement.fixed.items())
        return self.total(model, allocations) >= min(least, self.total(model, like)) * (1 - TOLERANCE)


def _variants(requirement: Requirement) -> Iterator[ResourceKey]:
    yield from (key.variant for key in requirement.per_replica)
    yield from requirement.fixed or ()


SECONDS_PER_HOUR = 3600.0

UPSTREAM_RELATIVE_COST = 10.0
"""What upstream's resource takes a `variantCost` that is not written for."""


def written_minimum(variant: Variant) -> int:
    """The lower bound; who is less urgent than nothing has none unless somebody wrote it."""
    least = variant.settings[MIN_REPLICAS]
    is_assumed = least.source.kind is SourceKind.BUILT_IN
    return 0 if is_assumed and priority_of(variant) < 0 else least.value


def idle_replicas(variant: Variant) -> int:
    """The fewest replicas of a variant without load.

    A written minimum of 0 does not stop the last replica: waking it again would take a merge and a sync. A written
    maximum of 0 does.
    """
    least, most = variant.settings[MIN_REPLICAS].value, variant.settings[MAX_REPLICAS].value
    fewest = least if least > 0 else min(variant.current.replicas, 1)
    return fewest if most is None else min(fewest, most)


def bounds_of(variant: Variant, *, keeps_current: bool) -> Bounds:
    """The replicas that a variant may have; one that keeps its current ones may only grow."""
    least, most = written_minimum(variant), variant.settings[MAX_REPLICAS].value
    if keeps_current:
        least = max(least, variant.current.replicas)
    return Bounds(minimum=least if most is None else min(least, most), maximum=most)


def current_weight(variant: Variant, *, is_priced: bool) -> float:
    """The weight of one current replica, in the unit of its model's candidates; 0 where its price is unknown."""
    return variant.current_cost_per_hour or 0.0 if is_priced else relative_weight(variant)


def relative_weight(variant: Variant) -> float:
    """What a resource says its replicas cost relative to others of its model; no money."""
    return UPSTREAM_RELATIVE_COST if variant.relative_cost is None else variant.relative_cost


def start_share(variant: Variant) -> float:
    """What a replica costs before it serves, as a share of what it costs in the time that a change has to pay back."""
    return variant.settings[START_DELAY_S].value / variant.settings[PAYBACK_S].value


def compared_s(variant: Variant) -> float:
    """For how long (seconds) its accelerator and profiles must have been what they are to be all that is compared."""
    return variant.settings[SYNC_DELAY_S].value + variant.settings[START_DELAY_S].value + HISTORY_S


def payback_of(members: Iterable[Variant]) -> float:
    """The longest `payback` of a model's variants, in seconds."""
    return max(member.settings[PAYBACK_S].value for member in members)


def unserved_price(members: Iterable[VariantState]) -> float | None:
    """What an hour without one request a second costs, where all of a model's classes name a price; the highest."""
    classes = [state.variant.service_class for state in members]
    costs = [None if each is None else each.value.unserved_cost_per_request for each in classes]
    known = [cost for cost in costs if cost is not None]
    return max(known) * SECONDS_PER_HOUR if known and len(known) == len(costs) else None
