"""The reproduction modes `wva-v1` and `wva-v2`: upstream's whole cycle, finished answers included its flaws."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from reconciler.domain.identity import ResourceKey
from reconciler.domain.measured.replicas import UpstreamQueue
from reconciler.domain.provenance import Figure
from reconciler.domain.requirements import Requirement, Segment
from reconciler.sizing.saturation.answer import ModelReadings, SaturationAnswer, ZeroRule
from reconciler.sizing.saturation.replicas import find_lacking, screen_queue
from reconciler.sizing.saturation.thresholds import PERCENT_UNITS, threshold_figures
from reconciler.sizing.saturation.variants import DEFAULT_COST, VariantFacts, by_role
from reconciler.sizing.wva.budgets import DeviceBudget
from reconciler.sizing.wva.cost_aware import cost_aware
from reconciler.sizing.wva.fair_share import fair_share
from reconciler.sizing.wva.percent import TransitionTest, analyze_percent, percent_figures, percent_targets
from reconciler.sizing.wva.quotas import Quota, WantedReplicas, limit
from reconciler.sizing.wva.rescale import Rescaled, rescale
from reconciler.sizing.wva.votes import UpstreamReadings, Votes, cast_ballots


@dataclass(frozen=True, slots=True, kw_only=True)
class Enforced:
    """Replicas after the rule, and in words what it changed (empty: nothing)."""

    replicas: Mapping[ResourceKey, int]
    reason: str = ""


def enforce(replicas: Mapping[ResourceKey, int], variants: Sequence[VariantFacts], rule: ZeroRule) -> Enforced:
    """Return the replicas with an idle model at zero where that is allowed, and one replica kept where it is not."""
    if not variants or not rule.is_countable or any(variant.floor > 0 for variant in variants):
        return Enforced(replicas=replicas)
    if rule.is_enabled:
        if not rule.is_idle:
            return Enforced(replicas=replicas)
        return Enforced(replicas=dict.fromkeys(replicas, 0), reason="no request in the window: to zero")
    if sum(replicas.values()) > 0:
        return Enforced(replicas=replicas)
    cheapest = min(variants, key=lambda each: (each.cost if each.cost > 0 else DEFAULT_COST, each.name, each.key))
    return Enforced(
        replicas={**replicas, cheapest.key: 1}, reason=f"one replica of {cheapest.name}, the cheapest, stays"
    )


def wake(variants: Sequence[VariantFacts], queue: UpstreamQueue | None) -> dict[ResourceKey, int]:
    """Return upstream's answer for variants at zero while requests wait: one replica of every one of them."""
    waiting = screen_queue(queue).num_waiting if queue is not None else None
    asleep = [variant for variant in variants if variant.current_replicas == 0]
    return {variant.key: variant.clamp(1) for variant in asleep} if waiting else {}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Draft:
    """A model's replicas on their way through the cycle; `spare` orders models in the limiter."""

    readings: ModelReadings
    active: tuple[VariantFacts, ...]
    replicas: Mapping[ResourceKey, int]
    reasons: tuple[str, ...]
    figures: tuple[Figure, ...]
    spare: float = 0.0
    findings: tuple[str, ...] = ()


def reproduce_percent(
    models: Sequence[ModelReadings],
    *quotas: Quota,
    transition_test: TransitionTest = TransitionTest.PENDING,
) -> tuple[SaturationAnswer, ...]:
    """Return what WVA with its first analyzer decides for each model, `fixed`; with quotas, under its limiters."""
    drafts = [_enforced(_percent_draft(readings, transition_test)) for readings in models]
    if quotas:
        wishes = [
            WantedReplicas(variant=variant, replicas=draft.replicas[variant.key], spare=draft.spare)
            for draft in drafts
            for variant in draft.active
        ]
        limited = limit(wishes, *quotas)
        drafts = [_with_limits(draft, limited.replicas, limited.limited) for draft in drafts]
    return tuple(_answer(draft) for draft in drafts)


def reproduce_tokens(
    models: Sequence[UpstreamReadings],
    budget: DeviceBudget | None = None,
    *,
    rescales: bool = False,
    rescaled_namespaces: frozenset[str] = frozenset(),
) -> tuple[SaturationAnswer, ...]:
    """Return what WVA with its second analyzer decides for each model, `fixed`.

    Without a budget the rule is cost-aware, with one the fair share, after the priority rescale where that is on. Of
    several analyzers each can ask for more, and all must agree to less.
    """
    votes = [cast_ballots(readings, _active(readings)) for readings in models]
    voting = [each.asked for each in votes if each.asked.ballots]
    rescaled = Rescaled(replicas={})
    if budget is not None and rescales:
        rescaled = rescale(voting, budget, rescaled_namespaces)
    rest = [asked for asked in voting if asked.model not in rescaled.models]
    if budget is None:
        decided = {key: count for asked in rest for key, count in cost_aware(asked.variants, asked.ballots).items()}
    else:
        decided = fair_share(rest, budget)
    decided |= rescaled.replicas
    return tuple(
        _answer(_enforced(_token_draft(readings, each, decided))) for readings, each in zip(models, votes, strict=True)
    )


def _percent_draft(readings: ModelReadings, transition_test: TransitionTest) -> _Draft:
    active = _active(readings)
    screened = readings.screened()
    replicas: dict[ResourceKey, int] = {}
    reasons, figures, spares = [], list(threshold_figures(readings.thresholds, PERCENT_UNITS)), [0.0]
    for role, group in by_role(active).items():
        own = screened.of_all({variant.key for variant in group})
        analysis = analyze_percent(own, readings.thresholds)
        figures.extend(percent_figures(analysis, role))
        spares.append(analysis.kv_spare)
        if analysis.num_reporting == 0:
            # Upstream's safety net: what was wanted before, else what runs.
            replicas |= {each.key: each.desired_replicas or each.current_replicas for each in group}
            reasons.append("no replica reports: the previous answer stays")
            continue
        reporting = Counter(variant for variant, _ in {(each.variant, each.pod) for each in own})
        targets = percent_targets(analysis, group, reporting, transition_test=transition_test)
        replicas |= targets.replicas
        reasons.append(targets.reason)
    return _Draft(
        readings=readings,
        active=active,
        replicas=replicas,
        reasons=tuple(reasons),
        figures=tuple(figures),
        spare=min(spares[1:], default=0.0),
    )


def _token_draft(readings: ModelReadings, votes: Votes, decided: Mapping[ResourceKey, int]) -> _Draft:
    variants = votes.asked.variants
    return _Draft(
        readings=readings,
        active=variants,
        replicas={each.key: decided.get(each.key, each.current_replicas) for each in variants},
        reasons=votes.reasons,
        figures=votes.figures,
        findings=votes.findings,
    )


def _active(readings: ModelReadings) -> tuple[VariantFacts, ...]:
    """Upstream sees only variants that run: a variant at zero is left to the wake-up loop."""
    return tuple(variant for variant in readings.sound_variants() if variant.current_replicas > 0)


def _enforced(draft: _Draft) -> _Draft:
    enforced = enforce(draft.replicas, draft.active, draft.readings.zero_rule)
    return _with(draft, enforced.replicas, enforced.reason)


def _with_limits(draft: _Draft, replicas: Mapping[ResourceKey, int], limited: Mapping[ResourceKey, str]) -> _Draft:
    own = {key: replicas[key] for key in draft.replicas}
    return _with(draft, own, "; ".join(limited[key] for key in sorted(own) if key in limited))


def _with(draft: _Draft, replicas: Mapping[ResourceKey, int], reason: str) -> _Draft:
    return replace(draft, replicas=replicas, reasons=(*draft.reasons, reason) if reason else draft.reasons)


def _lacking(readings: ModelReadings, active: Sequence[VariantFacts]) -> dict[ResourceKey, str]:
    """Where a variant's metric cannot be had upstream gives up on its whole model."""
    lacking = find_lacking(readings.screened(), (variant.key for variant in active))
    words = next(iter(lacking.values()), "")
    return {variant.key: lacking.get(variant.key, words) for variant in active} if lacking else {}


def _answer(draft: _Draft) -> SaturationAnswer:
    readings = draft.readings
    sound = readings.sound_variants()
    woken = wake(sound, readings.queue)
    fixed = {each.key: 0 for each in sound} | woken | dict(draft.replicas)
    asleep = "requests wait: every variant at zero wakes" if woken else "no variant runs"
    requirement = Requirement(
        model=readings.model,
        unit="replicas",
        segments=(Segment(amount=float(sum(fixed.values()))),),
        per_replica={each.key.on(each.accelerator): 1.0 for each in sound},
        fixed=fixed,
    )
    return SaturationAnswer(
        requirements=(requirement,) if fixed else (),
        reasons={readings.model: "; ".join(draft.reasons) if draft.active else asleep},
        held=readings.obstacles(),
        lacking=_lacking(readings, draft.active),
        figures=draft.figures,
        findings=(*readings.layered.findings, *draft.findings, *readings.screened().findings),
    )
