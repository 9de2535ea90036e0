"""The engine `saturation`: what a model needs when nobody states its SLO, without the flaws of what it replaces.

Against the reproduction modes: all that is needed in one step, every replica counted (saturated ones, lone ones),
missing is unknown and never idle, pending replicas count and do not block, variants at zero are candidates, and of a
model at zero only the cheapest variant wakes. The choice itself is the optimizer's.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from reconciler.domain.identity import ModelKey, ResourceKey
from reconciler.domain.measured.replicas import Role
from reconciler.domain.provenance import Figure
from reconciler.domain.requirements import Requirement, Segment
from reconciler.sizing.saturation.answer import Filling, ModelReadings, SaturationAnswer
from reconciler.sizing.saturation.capacities import MeanLengths, VariantTokens, capacity_figures, mean_lengths
from reconciler.sizing.saturation.need import Need, described_in_tokens, need_in_replicas, need_in_tokens
from reconciler.sizing.saturation.replicas import Screened, find_lacking, screen_queue
from reconciler.sizing.saturation.thresholds import PERCENT_UNITS, TOKEN_UNITS, threshold_figures
from reconciler.sizing.saturation.tokens import ReplicaTokens
from reconciler.sizing.saturation.variants import VariantFacts, by_role

# Sums of capacities in another order differ by this much: no reason to add a replica.
_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class _ScreenedModel:
    """A model's readings, screened and put into tokens once for all its roles."""

    readings: ModelReadings
    screened: Screened
    lengths: MeanLengths | None
    tokens: Mapping[ResourceKey, Sequence[ReplicaTokens]]
    described: Mapping[ResourceKey, VariantTokens]
    has_obstacles: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class _RoleAnswer:
    """A role's amount (None: hold everything), why, and which variants must not shrink or move."""

    amount: float | None
    reason: str
    need: Need | None = None
    may_shrink: bool = True

    @property
    def grows(self) -> bool:
        """Whether it asks for more than there is."""
        return self.need is not None and self.amount is not None and self.amount > self.need.has


def size_saturation(readings: ModelReadings) -> SaturationAnswer:
    """Return what a model needs, one requirement per role, and what must not shrink or move for want of evidence."""
    screened = readings.screened()
    lengths = mean_lengths(screened.replicas) or readings.lengths_before
    tokens, described = described_in_tokens(readings, screened, lengths)
    seen = _ScreenedModel(
        readings=readings,
        screened=screened,
        lengths=lengths,
        tokens=tokens,
        described={each.key: each for each in described},
        has_obstacles=bool(readings.obstacles()),
    )
    groups = by_role(readings.sound_variants())
    is_split = set(groups) - {Role.BOTH} != set()
    answers = {role: _answer_role(role, group, seen) for role, group in groups.items()}
    models = {role: replace(readings.model, role=role.value) if is_split else readings.model for role in groups}
    requirements = tuple(
        _requirement(models[role], groups[role], answer)
        for role, answer in answers.items()
        if answer.amount is not None
    )
    return SaturationAnswer(
        requirements=requirements,
        reasons={models[role]: answer.reason for role, answer in answers.items()}
        or {readings.model: "none of its variants can be sized"},
        fillings={
            models[role]: Filling(demand=answer.need.demand, full=answer.need.full)
            for role, answer in answers.items()
            if answer.need is not None and answer.amount is not None
        },
        floors={
            variant.key: variant.current_replicas
            for role, answer in answers.items()
            if not answer.may_shrink
            for variant in groups[role]
        },
        held=_held(readings, groups, answers),
        lacking=_lacking(screened, groups, answers),
        figures=_figures(readings, described, answers),
        findings=(*readings.layered.findings, *screened.findings),
    )


def _answer_role(role: Role, group: Sequence[VariantFacts], seen: _ScreenedModel) -> _RoleAnswer:
    if not any(variant.current_replicas for variant in group):
        return _wake(seen.readings)
    need = _need(role, group, seen)
    if not any(seen.screened.of(variant.key) for variant in group if variant.current_replicas):
        return _RoleAnswer(amount=None, reason="no replica reports: it is unknown, not idle", need=need)
    if need.unsized and not need.per_replica:
        return _RoleAnswer(amount=None, reason="nobody knows what one replica holds", need=need)
    return _settle(need, group, seen)


def _settle(need: Need, group: Sequence[VariantFacts], seen: _ScreenedModel) -> _RoleAnswer:
    """More than it has, exactly what it has, or less: less only when everything is known and nothing is on its way."""
    pending = sum(variant.pending_replicas for variant in group)
    running_unsized = [each.key.label for each in group if each.current_replicas and each.key in need.unsized]
    doubts = [*need.doubts, *(f"{label} is not sized" for label in running_unsized)]
    if seen.has_obstacles:
        doubts.append("a variant of the model cannot be read")
    if need.wanted > need.has * (1 + _ROUNDING):
        reason = f"{need.wanted:.6g} {need.unit} needed, {need.has:.6g} there or pending"
        return _RoleAnswer(amount=need.wanted, reason=reason, need=need, may_shrink=not (doubts or pending))
    if doubts:
        return _RoleAnswer(amount=need.has, reason=f"held: {'; '.join(doubts)}", need=need, may_shrink=False)
    if pending:
        reason = f"enough once {pending} pending replicas serve"
        return _RoleAnswer(amount=need.has, reason=reason, need=need, may_shrink=False)
    if not need.is_loaded and seen.readings.zero_rule.is_enabled and seen.readings.zero_rule.is_idle:
        return _RoleAnswer(amount=0.0, reason="no request in the window: to zero", need=need)
    least = min(need.per_replica.values())
    if need.has_ready > need.kept:
        reason = f"{need.kept:.6g} {need.unit} must stay, {need.has_ready:.6g} are there"
        return _RoleAnswer(amount=max(need.kept, least), reason=reason, need=need)
    reason = f"{need.has:.6g} {need.unit} are enough, and not too many"
    return _RoleAnswer(amount=need.has, reason=reason, need=need)


def _need(role: Role, group: Sequence[VariantFacts], seen: _ScreenedModel) -> Need:
    """In tokens where every variant that runs has a capacity in tokens, else in replicas."""
    described = [seen.described[variant.key] for variant in group]
    if all(each.per_replica_tokens is not None for each in described if each.variant.current_replicas):
        return need_in_tokens(role, described, seen.tokens, seen.screened, seen.readings, seen.lengths)
    return need_in_replicas(group, seen.screened, seen.readings)


def _wake(readings: ModelReadings) -> _RoleAnswer:
    """A role at zero: one replica, of the optimizer's choice, as soon as a request is known to wait."""
    if readings.queue is None or (waiting := screen_queue(readings.queue).num_waiting) is None:
        return _RoleAnswer(amount=None, reason="at zero, and nobody can say whether requests wait")
    if waiting > 0:
        return _RoleAnswer(amount=1.0, reason=f"{waiting:g} requests wait for a model at zero: one replica wakes")
    return _RoleAnswer(amount=0.0, reason="at zero, and no request waits")


def _requirement(model: ModelKey, group: Sequence[VariantFacts], answer: _RoleAnswer) -> Requirement:
    carried = answer.need.per_replica if answer.need is not None else {variant.key: 1.0 for variant in group}
    return Requirement(
        model=model,
        unit=answer.need.unit if answer.need is not None else "replicas",
        segments=(Segment(amount=answer.amount or 0.0),),
        per_replica={
            variant.key.on(variant.accelerator): carried[variant.key] for variant in group if variant.key in carried
        },
    )


def _held(
    readings: ModelReadings,
    groups: Mapping[Role, Sequence[VariantFacts]],
    answers: Mapping[Role, _RoleAnswer],
) -> dict[ResourceKey, str]:
    held = readings.obstacles()
    for role, answer in answers.items():
        if answer.amount is None:
            held |= {variant.key: answer.reason for variant in groups[role]}
        elif answer.need is not None:
            held |= dict(answer.need.unsized)
    return held


def _lacking(
    screened: Screened, groups: Mapping[Role, Sequence[VariantFacts]], answers: Mapping[Role, _RoleAnswer]
) -> dict[ResourceKey, str]:
    """Nothing may hold what the other metric asks for; without that, what is not reported leaves nothing to say."""
    still = (role for role, answer in answers.items() if answer.need is not None and not answer.grows)
    return find_lacking(screened, (variant.key for role in still for variant in groups[role]))


def _figures(
    readings: ModelReadings, described: Sequence[VariantTokens], answers: Mapping[Role, _RoleAnswer]
) -> tuple[Figure, ...]:
    units = {each.need.unit for each in answers.values() if each.need is not None}
    names = {**(PERCENT_UNITS if "replicas" in units else {}), **(TOKEN_UNITS if "tokens" in units else {})}
    figures = [*threshold_figures(readings.thresholds, names)]
    if "tokens" in units:
        figures.extend(capacity_figures(described))
    for role, answer in answers.items():
        if answer.need is not None:
            figures.extend(
                Figure(subject=role, name=name, value=getattr(answer.need, name), unit=answer.need.unit)
                for name in ("wanted", "kept", "has", "has_ready")
            )
    return tuple(figures)
