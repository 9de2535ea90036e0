"""What upstream's analyzers say of a model, as its settings let them speak: one ballot for each that is enabled."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from reconciler.domain.provenance import Figure
from reconciler.domain.saturation_rules import AnalyzerSettings
from reconciler.sizing.saturation.answer import ModelReadings
from reconciler.sizing.saturation.capacities import capacity_figures, mean_lengths, queued_tokens, variant_tokens
from reconciler.sizing.saturation.thresholds import BUILT_IN, TOKEN_UNITS, Thresholds, threshold_figures
from reconciler.sizing.saturation.tokens import replica_tokens
from reconciler.sizing.saturation.variants import VariantFacts
from reconciler.sizing.wva.ballot import Ballot, ballot_figures, token_ballot
from reconciler.sizing.wva.fair_share import ModelBallots
from reconciler.sizing.wva.throughput import ThroughputAnalysis, ThroughputReadings, analyze_throughput


@dataclass(frozen=True, slots=True, kw_only=True)
class UpstreamReadings(ModelReadings):
    """A model's readings with the analyzers that vote, and what the one called `throughput` is told."""

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
    lengths = mean_lengths(screened.replicas)
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
        return ThroughputAnalysis(ballot=None, reasons=("throughput: nobody asked for its samples",))
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
