"""The engines that follow metric targets: `tracking`, `kthena-v0` and `kthena-v1`."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

import numpy as np

from reconciler.decision.engines.port import (
    Admission,
    Basis,
    EngineAnswer,
    EngineQuestion,
    Lacks,
    Models,
    SizingEngine,
    SizingInput,
)
from reconciler.decision.formulation import FormulatedProblem, ModelProblem
from reconciler.decision.variant_states import VariantState
from reconciler.domain.holds import Hold, HoldKind
from reconciler.domain.identity import CandidateKey, Figure, ModelKey, ResourceKey
from reconciler.domain.inventory import Allocation
from reconciler.domain.metric_targets import (
    SYNC_PERIOD_S,
    BackendHistory,
    Generation,
    PodTotals,
    Series,
    TrackedBackend,
    TrackedHistory,
    TrackedTarget,
)
from reconciler.domain.observed import Load
from reconciler.domain.plan import Step
from reconciler.domain.records import dataclass, replace
from reconciler.domain.requirements import Requirement, Segment
from reconciler.domain.settings import SaturationRules
from reconciler.domain.snapshot import Snapshot, Variant
from reconciler.domain.variant_settings import Engine
from reconciler.sizing.arrays import Floats
from reconciler.sizing.tracking import TrackedOutcome, Trail, track
from reconciler.sizing.tracking_loads import KTHENA_V0 as V0
from reconciler.sizing.tracking_loads import KTHENA_V0_CORRECTED as V0_CORRECTED
from reconciler.sizing.tracking_loads import KTHENA_V1 as V1
from reconciler.sizing.tracking_loads import TRACKING as OUR_RULE
from reconciler.sizing.tracking_loads import PodHistory, Target, TargetHistory, TrackingRule
from reconciler.sizing.tracking_replay import RolePair


def replay_targets(
    targets: Sequence[TrackedTarget], histories: Mapping[ResourceKey, TrackedHistory], now_s: float, rule: TrackingRule
) -> tuple[TrackedOutcome, ...]:
    """What `rule` decides for each target at `now_s`, in their order; without a history it decides nothing."""
    known = [histories.get(target.key) for target in targets]
    ticks = max((len(each.replicas) for found in known if found for each in found.backends), default=0)
    ticks_s = now_s - SYNC_PERIOD_S * np.arange(ticks, dtype=np.float64)[::-1]
    seen = [_target(target, found, ticks, rule) for target, found in zip(targets, known, strict=True)]
    return track(seen, ticks_s, rule, _pairs(targets))


def _pairs(targets: Sequence[TrackedTarget]) -> list[RolePair]:
    """The pairings by position; a role that is not among the targets has none, which holds the other."""
    places = {target.key: place for place, target in enumerate(targets)}
    pairings = dict.fromkeys(target.pairing for target in targets if target.pairing)
    return [
        RolePair(
            numerator=places.get(pairing.numerator, len(targets)),
            denominator=places.get(pairing.denominator, len(targets)),
            ratio=pairing.ratio,
        )
        for pairing in pairings
    ]


def _target(target: TrackedTarget, history: TrackedHistory | None, ticks: int, rule: TrackingRule) -> Target:
    seen = history.backends if history and len(history.backends) == len(target.backends) else ()
    empty = BackendHistory(replicas=(), unready=())
    return Target(
        name=target.key.label,
        policy=target.policy,
        backends=tuple(each.backend for each in target.backends),
        cost_expansion_percent=target.cost_expansion_percent,
        history=_history(
            seen or [empty] * len(target.backends), history.activity if history else None, target, ticks, rule
        ),
    )


def _history(
    backends: Sequence[BackendHistory], activity: Series | None, target: TrackedTarget, ticks: int, rule: TrackingRule
) -> TargetHistory:
    unready = _columns([each.unready for each in backends], ticks)
    pods: dict[str, PodHistory] = {}
    external: dict[str, Floats] = {}
    for metric in target.policy.metrics:
        totals = [_totals_of(each, metric.name, rule) for each in backends]
        if any(totals):
            pods[metric.name] = _pods(totals, unready, ticks, rule)
        if any(metric.name in each.external for each in backends):
            external[metric.name] = _columns([each.external.get(metric.name, ()) for each in backends], ticks)
    return TargetHistory(
        replicas=_columns([each.replicas for each in backends], ticks),
        unready=np.fmin(unready, 1.0) if rule.needs_all_pods_ready else unready,
        pods=pods,
        external=external,
        # only held against zero: what is under way is as busy as what arrives
        arrivals_per_s=None if activity is None else _columns([activity], ticks)[:, 0],
    )


def _totals_of(backend: BackendHistory, metric: str, rule: TrackingRule) -> PodTotals | None:
    rate = backend.rates.get(metric) if rule.counters_as_rates else None
    return rate or backend.pods.get(metric)


def _pods(totals: Sequence[PodTotals | None], unready: Floats, ticks: int, rule: TrackingRule) -> PodHistory:
    nothing = PodTotals(total=(), reporting=(), missing=())
    found = [each or nothing for each in totals]
    series = PodHistory(
        total=_columns([each.total for each in found], ticks),
        reporting=_columns([each.reporting for each in found], ticks),
        missing=_columns([each.missing for each in found], ticks),
    )
    if not rule.needs_all_pods_ready:
        return series
    blind = unready > 0
    return PodHistory(
        total=np.where(blind, np.nan, series.total),
        reporting=np.where(blind, 0.0, series.reporting),
        missing=np.where(blind, 0.0, series.missing),
    )


def _columns(series: Sequence[Series], ticks: int) -> Floats:
    """Series as an array of shape (ticks, series): all end now, and what is shorter is unknown before."""
    columns = np.full((ticks, len(series)), np.nan)
    for index, values in enumerate(series):
        if values:
            columns[ticks - len(values) :, index] = values
    return columns


@dataclass(frozen=True, slots=True, kw_only=True)
class TrackedAnswer:
    """What a policy's metric targets ask of one workload, `target` being the policy's key.

    `replicas` None holds it as it is; `reasons` say why, or what slowed the answer. `current` is what was recorded
    last, None where unknown. `depends_on_start`: begun with other replicas, the replay would have ended elsewhere.
    """

    target: ResourceKey
    rule: str
    replicas: int | None
    current: int | None
    reasons: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    steps: tuple[Step, ...] = ()
    figures: tuple[Figure, ...] = ()
    depends_on_start: bool = False


def track_targets(
    targets: Sequence[TrackedTarget],
    histories: Mapping[ResourceKey, TrackedHistory],
    now_s: float,
    rule_of: Callable[[Generation], TrackingRule],
) -> dict[ResourceKey, TrackedAnswer]:
    """The answer for every workload that the targets scale, by its key; whatever is wrong is a reason, no error.

    `rule_of` says whose loop is run for a policy. All targets of one rule are replayed at once, on one grid that ends
    at `now_s`. A workload that two of the targets scale is held.
    """
    answers: dict[ResourceKey, TrackedAnswer] = {}
    rules = {target.key: rule_of(target.generation) for target in targets}
    for rule in dict.fromkeys(rules.values()):
        members = [target for target in targets if rules[target.key] == rule]
        outcomes = replay_targets(members, histories, now_s, rule)
        for target, outcome in zip(members, outcomes, strict=True):
            answers |= _answers(target, outcome, histories.get(target.key), rule)
    return answers | _contested(targets, answers)


def _answers(
    target: TrackedTarget, outcome: TrackedOutcome, history: TrackedHistory | None, rule: TrackingRule
) -> dict[ResourceKey, TrackedAnswer]:
    missing = history.reasons if history else (f"nothing was read for {target.key.label}",)
    reasons = (*outcome.reasons, *missing) if outcome.reasons else ()
    notes = (*outcome.notes, *(() if reasons else missing), *(history.notes if history else ()))
    figures = tuple(_figures(target, outcome, history))
    answers: dict[ResourceKey, TrackedAnswer] = {}
    for index, backend in enumerate(target.backends):
        replicas = None if outcome.replicas is None else outcome.replicas[index]
        answers[backend.scale_target] = TrackedAnswer(
            target=target.key,
            rule=rule.name,
            replicas=replicas,
            current=None if outcome.current is None else outcome.current[index],
            reasons=tuple(dict.fromkeys(reasons)),
            notes=tuple(dict.fromkeys((*notes, *_notes_of_rule(history, rule), *_note_of_minimum(backend, replicas)))),
            steps=(*outcome.steps(), *_split(target, index, outcome)),
            figures=figures,
            depends_on_start=outcome.depends_on_start,
        )
    return answers


def _note_of_minimum(scaled: TrackedBackend, replicas: int | None) -> Iterator[str]:
    """Where its count and its least are one field, a reader may wonder whose number that is."""
    least = scaled.backend.min_replicas
    if scaled.counts_at_minimum and replicas == least > 1:
        yield (
            f"not fewer than {least}: a person wrote that as minReplicas of {scaled.backend.name} "
            "(the annotation reconciler.io/min-replicas says another least)"
        )


def _split(target: TrackedTarget, index: int, outcome: TrackedOutcome) -> Iterator[Step]:
    if outcome.replicas is not None and len(target.backends) > 1:
        backend, total = target.backends[index].backend, sum(outcome.replicas)
        reason = f"of {total} for all backends, in the order of their costs; this one's is {backend.cost}"
        yield Step(stage="split", before=str(total), after=str(outcome.replicas[index]), reason=reason)


def _notes_of_rule(history: TrackedHistory | None, rule: TrackingRule) -> Iterator[str]:
    """Where a reproduction cannot, or should not, be believed to read what upstream reads."""
    for metric, label_sets in (history.label_sets if history else {}).items():
        if rule.first_label_set_only:
            yield (
                f"{metric} has up to {label_sets} label sets a pod: {rule.name} reads the first of them, which "
                "Prometheus cannot tell, so their sum is read"
            )
    counters = {name: None for each in (history.backends if history else ()) for name in each.rates}
    for metric in counters if not rule.counters_as_rates else ():
        yield f"{metric} only grows: {rule.name} takes what it has counted so far as the load"


def _figures(target: TrackedTarget, outcome: TrackedOutcome, history: TrackedHistory | None) -> Iterator[Figure]:
    subject, trail = target.key.label, outcome.trail
    queries = history.queries if history else {}
    for vote in trail.votes if trail else ():
        asked = tuple(queries[name] for name in (vote.metric,) if name in queries)
        reason = "" if vote.total is not None else "it could not be read"
        yield Figure(subject=subject, name=f"{vote.metric} in total", value=vote.total, queries=asked, reason=reason)
        yield Figure(subject=subject, name=f"{vote.metric} wanted of a replica", value=vote.per_replica)
        yield _count(subject, f"{vote.metric} asks for", vote.replicas, reason)
    for name, count in _counts(trail) if trail else ():
        yield _count(subject, name, count, "" if count is not None else "there is none")
    yield _count(
        subject, "replicas the replay began with", outcome.start, "" if outcome.start is not None else "unknown"
    )
    yield Figure(subject=subject, name="history without a gap", value=outcome.covered_s, unit="s")
    yield Figure(subject=subject, name="history that the windows need", value=outcome.needed_s, unit="s")


def _counts(trail: Trail) -> Iterable[tuple[str, int | None]]:
    return (
        ("replicas in the replay", trail.simulated),
        ("recommended", trail.recommended),
        ("held when shrinking", trail.held_down),
        ("held when growing", trail.held_up),
        ("highest within the shrinking period", trail.down_past),
        ("lowest within the growing period", trail.up_past),
        ("lowest within the panic period", trail.panic_past),
        ("limit of the rate", trail.limit),
        ("corrected", trail.corrected),
        ("desired", trail.desired),
    )


def _count(subject: str, name: str, value: int | None, reason: str) -> Figure:
    return Figure(subject=subject, name=name, value=value, unit="replicas", reason=reason)


def _contested(
    targets: Sequence[TrackedTarget], answers: Mapping[ResourceKey, TrackedAnswer]
) -> dict[ResourceKey, TrackedAnswer]:
    """Held: all that a policy scales, where it shares one of its workloads with another policy."""
    claims = Counter(backend.scale_target for target in targets for backend in target.backends)
    held: dict[ResourceKey, TrackedAnswer] = {}
    for target in targets:
        shared = [each.scale_target for each in target.backends if claims[each.scale_target] > 1]
        if not shared:
            continue
        rivals = sorted({each.key.label for each in targets if set(_scaled(each)) & set(shared)})
        reason = f"{shared[0].label} is scaled by several policies: {', '.join(rivals)}; leave one of them"
        for key in _scaled(target):
            held[key] = replace(answers[key], replicas=None, reasons=(reason,), steps=())
    return held


def _scaled(target: TrackedTarget) -> Iterator[ResourceKey]:
    return (backend.scale_target for backend in target.backends)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrackingEngine(SizingEngine):
    """One way to follow metric targets: our loop, or that of the releases that read a policy's generation."""

    name: Engine
    rule_of: Callable[[Generation], TrackingRule]
    basis = Basis.TARGETS

    def admit(self, members: Sequence[Variant], load: Load | None) -> Admission:
        if all(member.tracked_by is not None for member in members):
            return Admission(is_admitted=True, reason=f"metric targets of {members[0].tracked_by}")
        return Admission(is_admitted=False)

    def questions(self, members: Sequence[Variant], rules: SaturationRules) -> Collection[EngineQuestion]:
        """Metric targets have a history of their own."""
        return ()

    def lacks(self, snapshot: Snapshot, variant: Variant) -> Lacks:
        if variant.tracked_by is not None:
            return Lacks()
        words = f"{self.name} needs metric targets, and no policy gives any for it"
        return Lacks(means=Hold(kind=HoldKind.METRIC_TARGETS_MISSING, words=words))

    def size(self, given: SizingInput, models: Models) -> "TrackingAnswer":
        """Policies are followed together, as their controller does."""
        snapshot = given.snapshot
        followed = {state.variant.tracked_by for members in models.values() for state in members}
        targets = [target for target in snapshot.tracked if target.key in followed]
        answers = track_targets(targets, snapshot.histories, snapshot.now_s, self.rule_of)
        return TrackingAnswer(
            answers=answers,
            problems={model: _problem(model, members, answers) for model, members in models.items()},
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TrackingAnswer(EngineAnswer):
    """What metric targets ask of each workload, and of the models that they scale."""

    answers: Mapping[ResourceKey, TrackedAnswer]
    problems: Mapping[ModelKey, ModelProblem]

    def steps(self, state: VariantState, formulated: FormulatedProblem) -> Iterable[Step]:
        """From votes to a count, as the loop of its policy took it; what slowed the answer is among them."""
        answer = self.answers.get(state.variant.key)
        return () if answer is None else answer.steps

    def why(self, variant: Variant, desired: Allocation) -> str:
        answer = self.answers[variant.key]
        return "; ".join(answer.reasons) or f"as its metric targets ask, by {answer.rule}"

    def figures(self, variant: Variant) -> Iterable[Figure]:
        answer = self.answers.get(variant.key)
        return () if answer is None else answer.figures


def _problem(
    model: ModelKey, members: Iterable[VariantState], answers: Mapping[ResourceKey, TrackedAnswer]
) -> ModelProblem:
    """What metric targets ask for is a finished answer; a workload that they cannot judge stays as it is."""
    fixed: dict[CandidateKey, int] = {}
    holds: dict[ResourceKey, Hold] = {}
    notes: dict[ResourceKey, tuple[str, ...]] = {}
    for variant in (state.variant for state in members if state.is_free):
        answer = answers.get(variant.key)
        if answer is None or answer.replicas is None:
            reasons = answer.reasons if answer is not None else ()
            words = "; ".join(reasons) or "its metric targets were not followed"
            holds[variant.key] = Hold(kind=HoldKind.METRIC_TARGETS_UNDECIDED, words=words)
        else:
            key = variant.key.on(variant.current.accelerator)
            fixed[key] = answer.replicas
            notes[variant.key] = answer.notes
    requirement = Requirement(
        model=model,
        unit="replicas",
        segments=(Segment(amount=float(sum(fixed.values()))),),
        per_replica=dict.fromkeys(fixed, 1.0),
        fixed={key.variant: replicas for key, replicas in fixed.items()},
    )
    return ModelProblem(requirements=[requirement], holds=holds, notes=notes)


def _our_rule(_generation: Generation) -> TrackingRule:
    return OUR_RULE


TRACKING = TrackingEngine(name=Engine.TRACKING, rule_of=_our_rule)


def _v0(generation: Generation) -> TrackingRule:
    return V0_CORRECTED if generation in (Generation.G1, Generation.G2) else V0


def _v1(_generation: Generation) -> TrackingRule:
    return V1


KTHENA_V0 = TrackingEngine(name=Engine.KTHENA_V0, rule_of=_v0)
KTHENA_V1 = TrackingEngine(name=Engine.KTHENA_V1, rule_of=_v1)
