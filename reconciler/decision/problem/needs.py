"""What the variants of one model and role must carry together, and what their replicas carry, in whatever unit."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from reconciler.domain.identity import ModelKey, ResourceKey
from reconciler.domain.inventory import Allocation
from reconciler.domain.requirements import Requirement
from reconciler.sizing.saturation.answer import Filling

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
        """What a variant's replicas carry under an allocation; None when nobody knows."""
        requirement = self.of_variant(variant)
        key = variant.on(allocation.accelerator)
        each = None if requirement is None else requirement.per_replica.get(key)
        return None if each is None else each * allocation.replicas

    def total(self, model: ModelKey, allocations: Allocations) -> float:
        """What all variants behind a requirement carry under allocations; what nobody knows carries nothing."""
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
