"""Sizing by metric targets: what the loop of each policy answers for every workload that it scales."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from reconciler.decision.engines.tracking.replay import replay_targets
from reconciler.domain.identity import ResourceKey
from reconciler.domain.metric_targets import Generation, TrackedBackend, TrackedHistory, TrackedTarget
from reconciler.domain.plan import Step
from reconciler.domain.provenance import Figure
from reconciler.sizing.tracking.history import TrackingRule
from reconciler.sizing.tracking.outcome import TrackedOutcome, Trail


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
