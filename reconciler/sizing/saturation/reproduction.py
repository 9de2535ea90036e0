"""The reproduction modes `wva-v1` and `wva-v2`: upstream's whole cycle, finished answers included its flaws."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from reconciler.domain.figures import Figure
from reconciler.domain.identity import ResourceKey
from reconciler.domain.requirements import CandidateKey, Requirement, Segment
from reconciler.sizing.saturation.answer import (
    PERCENT_UNITS,
    TOKEN_UNITS,
    ModelReadings,
    SaturationAnswer,
    threshold_figures,
)
from reconciler.sizing.saturation.budgets import Budget
from reconciler.sizing.saturation.capacities import VariantTokens, mean_lengths, variant_tokens
from reconciler.sizing.saturation.compute_bound import ObservedBound
from reconciler.sizing.saturation.cost_aware import cost_aware
from reconciler.sizing.saturation.enforcer import enforce, wake
from reconciler.sizing.saturation.fair_share import ModelBallots, fair_share
from reconciler.sizing.saturation.figures import ballot_figures, capacity_figures, percent_figures
from reconciler.sizing.saturation.percent import analyze_percent
from reconciler.sizing.saturation.percent_targets import TransitionTest, percent_targets
from reconciler.sizing.saturation.quotas import Quota, Wish, limit
from reconciler.sizing.saturation.rescale import Rescaled, rescale
from reconciler.sizing.saturation.signals import Ballot, queued_tokens, token_ballot
from reconciler.sizing.saturation.tokens import replica_tokens
from reconciler.sizing.saturation.variants import VariantState, by_role


@dataclass(frozen=True, slots=True, kw_only=True)
class _Draft:
    """A model's replicas on their way through the cycle; `spare` orders models in the limiter."""

    readings: ModelReadings
    active: tuple[VariantState, ...]
    replicas: Mapping[ResourceKey, int]
    reasons: tuple[str, ...]
    figures: tuple[Figure, ...]
    spare: float = 0.0
    observed: tuple[ObservedBound, ...] = ()


def reproduce_percent(
    models: Sequence[ModelReadings],
    quota: Quota | None = None,
    *,
    transition_test: TransitionTest = TransitionTest.PENDING,
) -> tuple[SaturationAnswer, ...]:
    """Return what WVA with its first analyzer decides for each model, `fixed`; with a quota, under its limiter."""
    drafts = [_enforced(_percent_draft(readings, transition_test)) for readings in models]
    if quota is not None:
        wishes = [
            Wish(variant=variant, replicas=draft.replicas[variant.key], spare=draft.spare)
            for draft in drafts
            for variant in draft.active
        ]
        limited = limit(wishes, quota)
        drafts = [_with_limits(draft, limited.replicas, limited.limited) for draft in drafts]
    return tuple(_answer(draft) for draft in drafts)


def reproduce_tokens(
    models: Sequence[ModelReadings],
    budget: Budget | None = None,
    *,
    rescales: bool = False,
    rescaled_namespaces: frozenset[str] = frozenset(),
) -> tuple[SaturationAnswer, ...]:
    """Return what WVA with its second analyzer decides for each model, `fixed`.

    Without a budget the rule is cost-aware, with one the fair share, after the priority rescale where that is on.
    """
    analyzed = [_token_ballots(readings) for readings in models]
    voting = [asked for asked, _, _ in analyzed if asked.ballots]
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
        _answer(_enforced(_token_draft(readings, *parts, decided)))
        for readings, parts in zip(models, analyzed, strict=True)
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


def _token_ballots(
    readings: ModelReadings,
) -> tuple[ModelBallots, tuple[VariantTokens, ...], tuple[ObservedBound, ...]]:
    active = _active(readings)
    screened = readings.screened()
    thresholds = readings.thresholds
    tokens = {
        variant.key: tuple(
            each
            for replica in screened.of(variant.key)
            if replica.kv_cache_usage is not None or replica.num_waiting is not None
            if (each := replica_tokens(replica, variant, thresholds, readings.history)) is not None
        )
        for variant in active
    }
    observed = tuple(each.observed for own in tokens.values() for each in own if each.observed is not None)
    lengths = mean_lengths(screened.replicas)
    described = variant_tokens(active, tokens, lengths, thresholds)
    ballots: tuple[Ballot, ...] = ()
    if any(tokens.values()):
        ballots = (
            token_ballot(
                described,
                queued_tokens(readings.queue, lengths),
                scale_up=thresholds.scale_up.value,
                scale_down=thresholds.scale_down.value,
            ),
        )
    asked = ModelBallots(model=readings.model, variants=active, ballots=ballots, priority=thresholds.priority.value)
    return asked, described, observed


def _token_draft(
    readings: ModelReadings,
    asked: ModelBallots,
    described: tuple[VariantTokens, ...],
    observed: tuple[ObservedBound, ...],
    decided: Mapping[ResourceKey, int],
) -> _Draft:
    figures = [*threshold_figures(readings.thresholds, TOKEN_UNITS), *capacity_figures(described)]
    for ballot in asked.ballots:
        figures.extend(ballot_figures(ballot))
    return _Draft(
        readings=readings,
        active=asked.variants,
        replicas={each.key: decided.get(each.key, each.current_replicas) for each in asked.variants},
        reasons=("demand against supply",) if asked.ballots else ("no replica reports: replicas stay",),
        figures=tuple(figures),
        observed=observed,
    )


def _active(readings: ModelReadings) -> tuple[VariantState, ...]:
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


def _answer(draft: _Draft) -> SaturationAnswer:
    readings = draft.readings
    sound = readings.sound_variants()
    fixed = {each.key: 0 for each in sound} | wake(sound, readings.queue) | dict(draft.replicas)
    requirement = Requirement(
        model=readings.model,
        unit="replicas",
        segments=(Segment(amount=float(sum(fixed.values()))),),
        per_replica={CandidateKey(variant=each.key, accelerator=each.accelerator): 1.0 for each in sound},
        fixed=fixed,
    )
    return SaturationAnswer(
        requirements=(requirement,) if fixed else (),
        reasons={readings.model: "; ".join(draft.reasons)},
        held=readings.obstacles(),
        figures=draft.figures,
        findings=(*readings.layered.findings, *readings.screened().findings),
        observed=draft.observed,
    )
