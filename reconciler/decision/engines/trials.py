"""Accelerators that a model never ran on and that are worth a trial: sized by a prior's slow edge, never proposed.

The rules are in rules/prior.md#worth-a-trial.
"""

import math
from collections.abc import Iterable, Mapping, Sequence

from reconciler.decision.engines.queueing_capacities import Capacities, SizingRow
from reconciler.domain.identity import CandidateKey, ModelKey
from reconciler.domain.plan import RATE, Decision, Outcome
from reconciler.domain.priors import Lengths, Prior, Trial
from reconciler.domain.records import dataclass
from reconciler.domain.settings import ModelSettings
from reconciler.domain.snapshot import Snapshot, Variant
from reconciler.domain.variant_settings import ACCELERATOR, CHOOSE, MIN_REPLICAS
from reconciler.sizing.prior.estimate import estimate
from reconciler.snapshot.canaries import is_canary
from reconciler.snapshot.priors import hardware_of, known_profiles, shape_of

LEAST_SHARE = 0.1
"""Of what a model costs: less than this at the slow edge is not worth a trial."""
MOST_SIZED = 20
"""Models that are sized, the costliest of those that could be: all of a large fleet would take longer than its plan.

Shards divide them: each starts its portion of canaries at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialModel:
    """A model with its demand (req/s), what the plan gives it an hour, and a variant whose load and class it has."""

    model: ModelKey
    variant: Variant
    decision: Decision
    demand_per_s: float
    cost_per_hour: float
    least: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SizedTrial:
    """An untried accelerator of a model with what a replica carries inside the targets (req/s) at three edges."""

    asked: TrialModel
    prior: Prior
    rates_per_s: tuple[float, float, float]

    @property
    def trial(self) -> Trial | None:
        """What it would save; None where it does not keep the targets at the slow edge."""
        saves, price = self.saves_per_hour, self.prior.cost_per_hour
        if saves is None or price is None or min(self.rates_per_s) <= 0:
            return None
        return Trial(
            model=self.asked.model,
            accelerator=self.prior.accelerator,
            replicas=self._replicas(self.rates_per_s[0]),
            replica_cost_per_hour=price,
            planned_cost_per_hour=self.asked.cost_per_hour,
            saves_per_hour=saves,
            evidence=self.prior.evidence,
        )

    @property
    def saves_per_hour(self) -> tuple[float, float, float] | None:
        """At the slow edge, the median and the fast edge: minus infinity where it does not keep the targets."""
        price = self.prior.cost_per_hour
        if price is None:
            return None
        slow, median, fast = (
            self.asked.cost_per_hour - self._replicas(each) * price if each > 0 else -math.inf
            for each in self.rates_per_s
        )
        return slow, median, fast

    @property
    def shares_saved_per_hour(self) -> tuple[float, float, float] | None:
        """The same by parts of replicas: in a quiet hour one replica of anything is enough, which says nothing."""
        price, asked = self.prior.cost_per_hour, self.asked
        if price is None:
            return None
        slow, median, fast = (
            asked.cost_per_hour - asked.demand_per_s / each * price if each > 0 else -math.inf
            for each in self.rates_per_s
        )
        return slow, median, fast

    def _replicas(self, rate_per_s: float) -> int:
        return max(math.ceil(self.asked.demand_per_s / rate_per_s), self.asked.least)


def find_trials(sized: Iterable[SizedTrial], snapshot: Snapshot) -> tuple[Trial, ...]:
    """What is worth a trial, the most at the slow edge first; what a canary tries or has tried is not."""
    tried = {_tried(each) for each in snapshot.variants if is_canary(each)}
    found = (each.trial for each in sized if (each.asked.model, each.prior.accelerator) not in tried)
    worth = (each for each in found if each and each.saves_per_hour[0] >= LEAST_SHARE * each.planned_cost_per_hour)
    return tuple(sorted(worth, key=lambda each: (-each.saves_per_hour[0], each.model, each.accelerator)))


def _tried(canary: Variant) -> tuple[ModelKey, str]:
    return canary.model.whole, canary.current.accelerator


def size_trials(snapshot: Snapshot, decisions: Iterable[Decision]) -> tuple[SizedTrial, ...]:
    """What each of the cluster's priced accelerators would carry that a model has no profile on.

    Only models that are decided by arrivals under a service class, all of whose variants are priced, whose sizes are
    known and that may choose their accelerator are looked at; `MOST_SIZED` of them, the costliest.
    """
    rows: list[SizingRow] = []
    found: list[tuple[TrialModel, Prior]] = []
    shard = snapshot.settings.shard
    most = MOST_SIZED if shard is None else shard.portion(MOST_SIZED)
    sized, stated_of = 0, {each.model_id: each for each in snapshot.settings.models}
    for asked in sorted(_asked(snapshot, decisions), key=lambda each: (-each.cost_per_hour, each.model)):
        if sized == most:
            break
        priors = _priors(snapshot, asked, stated_of)
        for prior in priors:
            rows += _rows(asked, prior, len(found))
            found.append((asked, prior))
        sized += bool(priors)
    if not rows:
        return ()
    carried = {key: each.rate_per_s for key, each in Capacities(rows).of.items()}
    return tuple(_sized(asked, prior, carried, number) for number, (asked, prior) in enumerate(found))


def _asked(snapshot: Snapshot, decisions: Iterable[Decision]) -> list[TrialModel]:
    members: dict[ModelKey, list[Decision]] = {}
    canaries = {each.key for each in snapshot.variants if is_canary(each)}
    for decision in decisions:
        if decision.variant not in canaries:
            members.setdefault(decision.model, []).append(decision)
    variants = {variant.key: variant for variant in snapshot.variants}
    found = []
    for model, mine in members.items():
        decided = [each for each in mine if each.outcome is not Outcome.HELD]
        costs = [each.cost_after_per_hour for each in mine]
        first = next((each for each in decided if each.load is not None and each.load.has_lengths), None)
        if first is None or len(decided) < len(mine) or None in costs or any(each.unit != RATE for each in mine):
            continue
        variant = variants[first.variant]
        if variant.service_class is None or any(variants[each.variant].is_autoscaled for each in mine):
            continue
        if any(variants[each.variant].settings[ACCELERATOR].value != CHOOSE for each in mine):
            continue
        found.append(
            TrialModel(
                model=model,
                variant=variant,
                decision=first,
                demand_per_s=sum(each.demand or 0.0 for each in mine),
                cost_per_hour=sum(each or 0.0 for each in costs),
                least=max(variant.settings[MIN_REPLICAS].value, 1),
            )
        )
    return [each for each in found if each.demand_per_s > 0 and each.cost_per_hour > 0]


def _priors(snapshot: Snapshot, asked: TrialModel, stated_of: Mapping[str, ModelSettings]) -> Sequence[Prior]:
    """Of the accelerators in the cluster's catalog with a price, on which no variant of the model has a profile."""
    model_id, load = asked.model.model_id, asked.decision.load
    stated = stated_of.get(model_id, ModelSettings(model_id=model_id))
    shape = shape_of(stated)
    catalog = snapshot.catalogs.get(asked.model.cluster)
    if shape is None or load is None or load.input_tokens is None or catalog is None:
        return ()
    mine = [each for each in snapshot.variants if each.model == asked.model]
    known = known_profiles(stated, mine, catalog)
    names = {each.hardware.name for each in known} | {each.current.accelerator for each in mine}
    lengths = Lengths(input_tokens=max(load.input_tokens, 1.0), output_tokens=max(load.output_tokens, 1.0))
    priced = [each for each in catalog.accelerators.values() if each.cost_per_hour and each.name not in names]
    tried = {
        _tried(each): snapshot.tried[each.key].posterior for each in snapshot.variants if each.key in snapshot.tried
    }
    found = (
        tried.get((asked.model, each.name)) or estimate(model_id, shape, hardware_of(each), lengths, known)
        for each in priced
    )
    return [each for each in found if isinstance(each, Prior)]


def _key(asked: TrialModel, number: int, edge: str) -> CandidateKey:
    return asked.variant.key.on(f"{number} {edge}")


def _rows(asked: TrialModel, prior: Prior, number: int) -> list[SizingRow]:
    load, service_class = asked.decision.load, asked.variant.service_class
    if load is None or service_class is None:
        return []
    edges = {edge: prior.slower(factor) for edge, factor in _edges(prior).items()}
    return [
        SizingRow(key=_key(asked, number, edge), profile=profile, load=load, service_class=service_class.value)
        for edge, profile in edges.items()
    ]


def _edges(prior: Prior) -> Mapping[str, float]:
    spread = prior.spread
    return {"slow": spread.high, "median": spread.median, "fast": spread.low}


def _sized(asked: TrialModel, prior: Prior, carried: Mapping[CandidateKey, float], number: int) -> SizedTrial:
    slow, median, fast = (carried[_key(asked, number, edge)] for edge in _edges(prior))
    return SizedTrial(asked=asked, prior=prior, rates_per_s=(slow, median, fast))
