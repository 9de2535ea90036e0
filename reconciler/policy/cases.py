"""A team's own cases: what is given of a change, what rules are to say of it, and what they do say."""

from datetime import UTC, datetime
from typing import Literal

from pydantic import Field, field_validator

from reconciler.domain.identity import (
    Finding,
    ModelKey,
    Place,
    ResourceKey,
    Severity,
    Source,
    Sourced,
    SourceKind,
    finding_of,
)
from reconciler.domain.inventory import Allocation
from reconciler.domain.plan import Verdict, VerdictKind
from reconciler.domain.profiles import ServiceClass
from reconciler.domain.records import dataclass, replace
from reconciler.domain.snapshot import Form, StatusShape, Variant
from reconciler.domain.variant_settings import VariantSettings
from reconciler.domain.written import DocumentRef
from reconciler.manifests.documents import Document, parse_readable
from reconciler.manifests.wording import name_field
from reconciler.policy.judging import RuleBook, strictest
from reconciler.policy.port import Change, Counted, FleetChange, Merge, Spoken, Subject
from reconciler.policy.values import Count, Duration, Money, Name, Priority
from reconciler.resources.validation import Field as FieldPath
from reconciler.resources.validation import Shape, validate

_BY = {True: "by itself", False: "by a person"}
_STOPS = (VerdictKind.REFUSE, VerdictKind.HOLD)


class GivenSection(Shape):
    """A change: what there is, and what the optimizer would have it be."""

    cluster: str = "default"
    namespace: str = "default"
    name: str = "variant"
    model: str = "model"
    path: str = "variant.yaml"
    labels: dict[str, str] = Field(default_factory=dict)
    service_class: str = ""
    priority: Priority = 0
    accelerator: str = "H100"
    replicas: Count
    to: Count
    """replicas that are wanted"""
    to_accelerator: str = ""
    """another accelerator that is wanted (= the same)"""
    price: Money | None = None
    """what a replica costs an hour; the variant is alone in its group (= unknown)"""
    reporting: Count | None = None
    """replicas that report, where fewer do"""
    merged_ago: Duration | None = None
    """a duration like 10m: when a change of it was merged (= never)"""
    learned_on: str = ""
    """the day on which its profile was learned (= given)"""
    repair: bool = False
    """whether the load exceeds what runs now"""
    at: str = "2026-01-05T12:00:00"
    """the time, by UTC"""

    @field_validator("at")
    @classmethod
    def _is_time(cls, value: str) -> str:
        datetime.fromisoformat(value)
        return value


class ExpectSection(Shape):
    """What rules are to say of it."""

    verdict: Literal["refuse", "hold", "clamp", "needs approval", "allow"]
    rule: str | None = None
    """the rule that is named (= any)"""
    replicas: Count | None = None
    """where it ends (= anywhere)"""
    merges: bool | None = None
    """whether a rule lets it merge by itself, and none leaves it to a person (= either)"""


class CaseSection(Shape):
    """One case."""

    name: Name
    given: GivenSection
    expect: ExpectSection


class CasesFile(Shape):
    """Cases for the rules of a repository."""

    api_version: Literal["reconciler.io/v1alpha1"]
    kind: Literal["PolicyTest"]
    cases: list[CaseSection]


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseOutcome:
    """What became of a case; `fault` is in words what was expected and is not so, empty where all is."""

    name: str
    place: Place
    verdict: Verdict
    replicas: int
    fault: str


def run_cases(path: str, data: bytes, book: RuleBook) -> tuple[tuple[CaseOutcome, ...], tuple[Finding, ...]]:
    """Every case of a file held against rules, and what is wrong with the file."""
    documents, errors = parse_readable(path, data)
    findings = [finding_of(error) for error in errors]
    outcomes: list[CaseOutcome] = []
    for document in documents:

        def locate(field: FieldPath, document: Document = document) -> Place:
            return Place(path=path, line=document.line_of(field), field=name_field(field))

        read = validate(CasesFile, document.value, locate=locate)
        findings += read.findings
        for index, case in enumerate(read.value.cases if read.value is not None else ()):
            outcomes.append(_run(case, locate(("cases", index)), book))
    if not outcomes and not findings:
        findings.append(Finding(place=Place(path=path), severity=Severity.ERROR, message="expected cases, found none"))
    return tuple(outcomes), tuple(findings)


def _run(case: CaseSection, place: Place, book: RuleBook) -> CaseOutcome:
    subject = _subject(case.given)
    verdict, replicas, merges = _judged(case.given, subject, book)
    expected = case.expect
    faults = [
        f"expected {what} {wanted}, got {found or 'none'}"
        for what, wanted, found in (
            ("verdict", expected.verdict, str(verdict.kind)),
            ("rule", expected.rule, verdict.rule),
            ("replicas", expected.replicas, replicas),
            ("a merge", None if expected.merges is None else _BY[expected.merges], _BY[merges]),
        )
        if wanted is not None and wanted != found
    ]
    return CaseOutcome(name=case.name, place=place, verdict=verdict, replicas=replicas, fault="; ".join(faults))


def _judged(given: GivenSection, subject: Subject, book: RuleBook) -> tuple[Verdict, int, bool]:
    """As a plan is judged, of one variant that is alone in it: the verdict, where it ends, whether it merges itself."""
    accelerator = given.to_accelerator or given.accelerator
    is_move = accelerator != given.accelerator and given.to > 0
    limits = book.limits(subject)
    unreadable, refused = book.broken(subject), book.refuse(subject, accelerator) if is_move else None
    said: list[Spoken] = [each for each in (unreadable, refused) if each is not None]
    if limits.conflict:
        said.append(Spoken(rule=limits.conflict[0], kind=VerdictKind.HOLD, words="leaves no number of replicas"))
    if is_move and limits.anchor is not None:
        said.append(Spoken(rule=limits.anchor.rule, kind=VerdictKind.CLAMP, words=limits.anchor.range.words))
        accelerator, is_move = given.accelerator, False
    limits = limits.on(is_move=is_move)
    desired = Allocation(accelerator=accelerator, replicas=limits.admitted(given.to))
    clamp = limits.stopped(given.to)
    said += [clamp] if clamp is not None else []
    if desired != subject.current:
        limits_of_one = book.shared({subject.variant.key: subject})
        shares = {each.rule.name: each.share(1) for each in limits_of_one if each.counts is Counted.CHANGES}
        said += book.judge(replace(_change(given, subject, desired), shares=shares))
    ends = [each.replicas for each in said if each.replicas is not None]
    verdict = strictest(said)
    merges = verdict.may_merge_itself and any(each.merges_per_hour for each in said)
    return verdict, given.replicas if verdict.kind in _STOPS else ends[0] if ends else desired.replicas, merges


def _change(given: GivenSection, subject: Subject, desired: Allocation) -> Change:
    before = None if given.price is None else given.price * given.replicas
    after = None if given.price is None else given.price * desired.replicas
    added = None if before is None or after is None else max(after - before, 0.0)
    return Change(
        subject=subject,
        desired=desired,
        cost_before=before,
        cost_after=after,
        group_cost_before=before,
        group_cost_added=added,
        learned_on=given.learned_on,
        is_repair=given.repair,
        fleet=FleetChange(variants=1, changes=1, cost_before=before, cost_added=added),
    )


def _subject(given: GivenSection) -> Subject:
    now_s = datetime.fromisoformat(given.at).replace(tzinfo=UTC).timestamp()
    place = Place(path=given.path, line=1)
    source = Source(kind=SourceKind.RESOURCE, place=place)
    named = ServiceClass(name=given.service_class)
    variant = Variant(
        key=ResourceKey(cluster=given.cluster, namespace=given.namespace, kind="VariantAutoscaling", name=given.name),
        model=ModelKey(cluster=given.cluster, namespace=given.namespace, model_id=given.model),
        form=Form.TARGET,
        status_shape=StatusShape.NONE,
        document=DocumentRef(path=given.path, document=0),
        place=place,
        workload=None,
        current=Allocation(accelerator=given.accelerator, replicas=given.replicas),
        accelerator_source="",
        settings=VariantSettings(),
        service_class=Sourced(value=named, source=source) if given.service_class else None,
        options=(),
        served_names=(),
        relative_cost=None,
        current_cost_per_hour=given.price,
        labels=given.labels,
    )
    ago = given.merged_ago
    merges = () if ago is None else (Merge(at_s=now_s - ago, replicas_before=given.replicas),)
    return Subject(
        now_s=now_s,
        variant=variant,
        priority=given.priority,
        reporting=given.reporting,
        merges=merges,
        is_short=given.repair,
    )
