"""The reproduction modes `wva-v1` and `wva-v2`: upstream's whole cycle.

Formulas and defaults: rules/upstream.md#wva.
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean

from reconciler.domain.identity import Figure, ResourceKey
from reconciler.domain.observed import UpstreamQueue
from reconciler.domain.records import dataclass, replace
from reconciler.domain.requirements import Requirement, Segment
from reconciler.domain.settings import AnalyzerSettings
from reconciler.sizing.saturation import (
    MeanLengths,
    ModelReadings,
    SaturationAnswer,
    ZeroRule,
    capacity_figures,
    queued_tokens,
    variant_tokens,
)
from reconciler.sizing.saturation_readings import (
    BUILT_IN,
    DEFAULT_COST,
    PERCENT_UNITS,
    TOKEN_UNITS,
    Thresholds,
    VariantFacts,
    by_role,
    find_lacking,
    replica_tokens,
    screen_queue,
    threshold_figures,
)
from reconciler.upstream.wva_analyzers import (
    Ballot,
    TransitionTest,
    analyze_percent,
    ballot_figures,
    percent_figures,
    percent_targets,
    token_ballot,
)
from reconciler.upstream.wva_limits import (
    DeviceBudget,
    ModelBallots,
    Quota,
    Rescaled,
    WantedReplicas,
    cost_aware,
    fair_share,
    limit,
    rescale,
)
from reconciler.upstream.wva_throughput import ThroughputAnalysis, ThroughputReadings, analyze_throughput


@dataclass(frozen=True, kw_only=True)
class UpstreamReadings(ModelReadings):
    """A model's readings with the analyzers that vote, and the input of the one called `throughput`."""

    analyzers: tuple[AnalyzerSettings, ...] = ()
    throughput: ThroughputReadings | None = None


# Upstream's names. Its `saturation` is the analyzer `tokens`.
_TOKENS, _THROUGHPUT = "saturation", "throughput"


@dataclass(frozen=True, slots=True, kw_only=True)
class Votes:
    """What the analyzers say of a model, and the numbers and words behind it."""

    asked: ModelBallots
    reasons: tuple[str, ...]
    figures: tuple[Figure, ...]
    findings: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Voice:
    """How an analyzer votes: its score, and the thresholds that hold for it."""

    score: float
    scale_up: float
    scale_down: float


def cast_ballots(readings: UpstreamReadings, active: tuple[VariantFacts, ...]) -> Votes:
    """Return the votes on the variants that run.

    The analyzer `saturation` votes unless it is disabled, `throughput` if it is listed and enabled.
    """
    listed, findings = _listed(readings.analyzers)
    tokens = _of_tokens(readings, active, _voice(listed.get(_TOKENS), readings.thresholds, findings))
    throughput = ThroughputAnalysis(ballot=None)
    if _THROUGHPUT in listed and listed[_THROUGHPUT].is_enabled:
        throughput = _of_throughput(readings, active, _voice(listed[_THROUGHPUT], readings.thresholds, findings))
    is_silenced = _TOKENS in listed and not listed[_TOKENS].is_enabled
    cast = (None if is_silenced else tokens.ballot, throughput.ballot)
    ballots = tuple(ballot for ballot in cast if ballot is not None)
    figures = [*threshold_figures(readings.thresholds, TOKEN_UNITS), *tokens.figures, *throughput.figures]
    figures.extend(figure for ballot in ballots for figure in ballot_figures(ballot))
    return Votes(
        asked=ModelBallots(
            model=readings.model,
            variants=active,
            ballots=ballots,
            priority=readings.thresholds.priority.value,
        ),
        reasons=("demand against supply" if ballots else "no replica reports: replicas stay", *throughput.reasons),
        figures=tuple(figures),
        findings=tuple(findings),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _TokenAnalysis:
    ballot: Ballot | None
    figures: tuple[Figure, ...]


def _of_tokens(readings: UpstreamReadings, active: Sequence[VariantFacts], voice: _Voice) -> _TokenAnalysis:
    screened, thresholds = readings.screened(), readings.thresholds
    tokens = {
        variant.key: tuple(
            each
            for replica in screened.of(variant.key)
            if replica.kv_cache_usage is not None or replica.num_waiting is not None
            if (each := replica_tokens(replica, variant, thresholds, readings.history)) is not None
        )
        for variant in active
    }
    # Upstream's means: a length that a replica does not report is 0 in them.
    reporting = [
        each for each in screened.replicas if (each.input_tokens or 0.0) > 0 or (each.output_tokens or 0.0) > 0
    ]
    lengths = MeanLengths()
    if reporting:
        lengths = MeanLengths(
            input_tokens=fmean(each.input_tokens or 0.0 for each in reporting),
            output_tokens=fmean(each.output_tokens or 0.0 for each in reporting),
            prefix_hit_rate=fmean(each.prefix_hit_rate or 0.0 for each in reporting),
        )
    described = variant_tokens(active, tokens, lengths, thresholds)
    ballot = token_ballot(
        described,
        queued_tokens(readings.queue, lengths),
        scale_up=voice.scale_up,
        scale_down=voice.scale_down,
        score=voice.score,
    )
    return _TokenAnalysis(
        ballot=ballot if any(tokens.values()) else None,
        figures=tuple(capacity_figures(described)),
    )


def _of_throughput(readings: UpstreamReadings, active: Sequence[VariantFacts], voice: _Voice) -> ThroughputAnalysis:
    if readings.throughput is None:
        return ThroughputAnalysis(ballot=None, reasons=("throughput: its samples were not queried",))
    return analyze_throughput(
        active,
        readings.throughput,
        readings.queue,
        scale_up=voice.scale_up,
        scale_down=voice.scale_down,
        score=voice.score,
    )


def _listed(analyzers: Iterable[AnalyzerSettings]) -> tuple[dict[str, AnalyzerSettings], list[str]]:
    listed: dict[str, AnalyzerSettings] = {}
    findings = []
    for each in analyzers:
        if each.name not in (_TOKENS, _THROUGHPUT):
            findings.append(f"analyzer {each.name!r} is not known: it does not vote")
        elif each.name in listed:
            findings.append(f"analyzer {each.name!r} is listed more than once: the first counts")
        else:
            listed[each.name] = each
    return listed, findings


def _voice(settings: AnalyzerSettings | None, thresholds: Thresholds, findings: list[str]) -> _Voice:
    """An analyzer's own thresholds over the model's; a pair that is inverted once joined is the built-in one."""
    up, down = thresholds.scale_up.value, thresholds.scale_down.value
    if settings is None:
        return _Voice(score=1.0, scale_up=up, scale_down=down)
    score = settings.score
    if not (math.isfinite(score) and score >= 0):
        findings.append(f"analyzer {settings.name!r}: score is {score:g}, expected at least 0: it is 1")
        score = 1.0
    up = _own("scale_up", settings.scale_up, up, settings.name, findings)
    down = _own("scale_down", settings.scale_down, down, settings.name, findings)
    if down >= up:
        findings.append(
            f"analyzer {settings.name!r}: scale_down {down:g} is not below scale_up {up:g}: both are the built-in ones"
        )
        up, down = BUILT_IN.scale_up or up, BUILT_IN.scale_down or down
    return _Voice(score=score, scale_up=up, scale_down=down)


def _own(name: str, value: float | None, otherwise: float, analyzer: str, findings: list[str]) -> float:
    if value is None or 0 < value <= 1:
        return otherwise if value is None else value
    findings.append(f"analyzer {analyzer!r}: {name} is {value:g}, expected more than 0 and at most 1: it is left out")
    return otherwise


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
    # Where a variant's metric cannot be had upstream gives up on its whole model.
    lacking = find_lacking(readings.screened(), (variant.key for variant in draft.active))
    words = next(iter(lacking.values()), "")
    return SaturationAnswer(
        requirements=(requirement,) if fixed else (),
        reasons={readings.model: "; ".join(draft.reasons) if draft.active else asleep},
        held=readings.obstacles(),
        lacking={variant.key: lacking.get(variant.key, words) for variant in draft.active} if lacking else {},
        figures=draft.figures,
        findings=(*readings.layered.findings, *draft.findings, *readings.screened().findings),
    )
