"""Checks of each variant: what holds it, and what is not known of it although it could be."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import date

from reconciler.domain.holds import Hold, HoldKind
from reconciler.domain.identity import Place, Severity
from reconciler.domain.plan import Decision, Plan
from reconciler.domain.reported.checkup import Check, warning
from reconciler.domain.snapshot import Option, Snapshot, Variant
from reconciler.metrics.readings import served_by
from reconciler.metrics.survey import Survey
from reconciler.pipeline.doctor.cures import CURES
from reconciler.report.formatting import count, labels_of

REPOSITORY_FILE = Place(path="reconciler.yaml")
OLD_PROFILE_DAYS = 90
"""Engines, drivers and prompts are other ones by then."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExaminedPlan:
    """A plan with what it was decided from.

    `broken` are clusters whose Prometheus is said to fail already, `blind` those that are said to see no replicas.
    """

    snapshot: Snapshot
    plan: Plan
    surveys: Mapping[str, Survey]
    today: date
    broken: frozenset[str] = frozenset()
    blind: frozenset[str] = frozenset()


def check_variants(examined: ExaminedPlan) -> Iterator[Check]:
    """Everything about every variant, in the plan's order; what is the same of several is told once."""
    found: dict[Check, list[str]] = {}
    for label, check in _check_each(examined):
        found.setdefault(check, []).append(label)
    for check, labels in found.items():
        others = f" and {len(labels) - 1} more" if len(labels) > 1 else ""
        yield replace(check, words=f"{labels[0]}{others}: {check.words}")
    yield from _prices(examined)


def _check_each(examined: ExaminedPlan) -> Iterator[tuple[str, Check]]:
    labels = labels_of(decision.variant for decision in examined.plan.decisions)
    variants = {variant.key: variant for variant in examined.snapshot.variants}
    told = {finding.place.path for finding in examined.plan.findings if finding.severity is Severity.ERROR}
    for decision in examined.plan.decisions:
        label = labels[decision.variant].removeprefix(f"{decision.variant.cluster}/")
        variant = variants.get(decision.variant)
        if decision.hold is not None and not _is_told(decision.hold, examined, decision, told):
            yield from ((label, check) for check in _held(decision, decision.hold, examined, variant))
        if variant is not None and variant.workload is not None and not variant.is_held_by(HoldKind.IGNORED):
            yield from ((label, check) for check in _unknown(variant, decision, examined))


def _is_told(hold: Hold, examined: ExaminedPlan, decision: Decision, told: set[str]) -> bool:
    """Whether another line says the same: of the file that is broken, or of a Prometheus that fails."""
    if hold.kind is HoldKind.RESOURCE_UNREADABLE or hold.kind is HoldKind.SCALE_TARGET_UNREADABLE:
        return _path_of(hold, decision) in told
    if hold.kind in (HoldKind.METRICS_MISSING, HoldKind.METRICS_STALE) and decision.variant.cluster in examined.blind:
        return True
    return decision.variant.cluster in examined.broken and hold.kind.is_missing_data


def _path_of(hold: Hold, decision: Decision) -> str:
    return hold.place.path if hold.place else decision.place.partition(":")[0]


def _held(decision: Decision, hold: Hold, examined: ExaminedPlan, variant: Variant | None) -> Iterator[Check]:
    cure = CURES[hold.kind]
    if cure is None:
        return
    place = hold.place or (REPOSITORY_FILE if cure.is_in_settings else _written_at(decision))
    words, cured = hold.words, cure.words
    if hold.kind is HoldKind.METRICS_MISSING and variant is not None:
        others = _other_names(variant, examined)
        if others:
            words = f'no series for model "{served_by(variant)[0].model}", its namespace reports {others}'
            cured, place = f"set models[].servedNames of {variant.model.model_id} to it", REPOSITORY_FILE
    yield Check(
        level=cure.level,
        subject=decision.variant.cluster,
        rule=str(hold.kind),
        words=words,
        cure=cured,
        place=place,
    )


def _other_names(variant: Variant, examined: ExaminedPlan) -> str:
    """Names that replicas of its namespace report and no variant in Git is known by."""
    survey = examined.surveys.get(variant.key.cluster, Survey())
    mine = [each for each in examined.snapshot.variants if each.key.cluster == variant.key.cluster]
    known = {served for each in mine for served in served_by(each)}
    names = sorted(
        served.model for served in survey.models - known if served.namespace == variant.model.namespace and served.model
    )
    return " or ".join(f'"{name}"' for name in names)


def _unknown(variant: Variant, decision: Decision, examined: ExaminedPlan) -> Iterator[Check]:
    """What a decision would be better with; what a hold says already is left out."""
    cluster = variant.key.cluster
    if not variant.current.accelerator and not variant.is_held_by(HoldKind.ACCELERATOR_UNKNOWN):
        cure = CURES[HoldKind.ACCELERATOR_UNKNOWN]
        words = "its accelerator is not known, so it is kept"
        yield warning(
            cluster, str(HoldKind.ACCELERATOR_UNKNOWN), words, cure.words if cure else "", _written_at(decision)
        )
    if variant.tracked_by is not None:
        return
    if variant.service_class is None and not variant.is_held_by(HoldKind.SERVICE_CLASS_MISSING):
        words = "no service class says how fast it must be, so it is sized by saturation"
        cure_words = "set serviceClass under defaults or models[] in reconciler.yaml"
        yield warning(cluster, "service-class-none", words, cure_words, REPOSITORY_FILE)
    elif variant.service_class is not None and variant.current.accelerator:
        yield from _profile(variant, examined)


def _profile(variant: Variant, examined: ExaminedPlan) -> Iterator[Check]:
    option = next((each for each in variant.options if each.accelerator == variant.current.accelerator), None)
    cluster = variant.key.cluster
    if option is None:
        words = f"nobody said or learned how fast {variant.model.model_id} is on {variant.current.accelerator}"
        cure = CURES[HoldKind.PROFILE_MISSING]
        if not variant.is_held_by(HoldKind.PROFILE_MISSING):
            yield warning(cluster, str(HoldKind.PROFILE_MISSING), words, cure.words if cure else "", REPOSITORY_FILE)
        return
    age = _age_days(option, examined.today)
    if age > OLD_PROFILE_DAYS:
        words = f"its profile on {option.accelerator} was learned {age} days ago"
        cure_words = f'learn it again: reconciler fit "{variant.model.model_id}" --write FILE'
        yield warning(cluster, "profile-old", words, cure_words, option.profile.place)


def _age_days(option: Option, today: date) -> int:
    learning = option.profile.learning
    return (today - date.fromisoformat(learning.on)).days if learning is not None else 0


def _prices(examined: ExaminedPlan) -> Iterator[Check]:
    """One line for each accelerator without a price, however many run on it."""
    unpriced: dict[tuple[str, str], int] = {}
    for variant in examined.snapshot.variants:
        if variant.current_cost_per_hour is None and variant.current.accelerator:
            key = (variant.key.cluster, variant.current.accelerator)
            unpriced[key] = unpriced.get(key, 0) + 1
    for (cluster, accelerator), number in sorted(unpriced.items()):
        words = f"the price of {accelerator} is not known: the cost of {count(number, 'variant')} is shown as ?"
        cure = f"set accelerators[] {{name: {accelerator}, costPerHour: ...}} in reconciler.yaml"
        yield warning(cluster, "price-missing", words, cure, REPOSITORY_FILE)


def _written_at(decision: Decision) -> Place:
    path, _, line = decision.place.partition(":")
    return Place(path=path, line=int(line) if line.isdigit() else 0)


def reporting(snapshot: Snapshot, cluster: str) -> tuple[int, int]:
    """How many variants of a cluster have series that can be trusted, and how many there are."""
    keys = [variant.key for variant in snapshot.variants if variant.key.cluster == cluster]
    seen = (snapshot.observed.observations.get(key) for key in keys)
    return sum(each is not None and each.absence is None for each in seen), len(keys)
