"""A policy file -> rules; what cannot be read becomes a rule that holds its scope, and a finding at its line."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal

from pydantic import ConfigDict, create_model

from reconciler.domain.identity import Finding, Place, Severity, finding_of
from reconciler.domain.records import dataclass
from reconciler.domain.rules import BrokenRule, Direction, Rule, Scope
from reconciler.manifests.documents import Document, parse_readable
from reconciler.manifests.wording import describe, join_words, name_field
from reconciler.policy.judging import KINDS
from reconciler.policy.port import KindSection
from reconciler.policy.values import Glob, Name, Priority
from reconciler.resources.validation import Field, Shape, validate

# pydantic copies a default for each instance; ruff knows this of direct subclasses only.
# ruff: noqa: RUF012


class PrioritySection(Shape):
    """Bounds of a priority."""

    at_least: Priority | None = None
    """the lowest priority"""
    at_most: Priority | None = None
    """the highest priority"""


class ScopeSection(Shape):
    """Which changes a rule is for: every key that is given must fit."""

    cluster: Glob | None = None
    """a glob on the cluster"""
    namespace: Glob | None = None
    """a glob on the namespace"""
    model: Glob | None = None
    """a glob on the model's id; ** crosses the / in it"""
    name: Glob | None = None
    """a glob on the name of the resource"""
    path: Glob | None = None
    """a glob on the file of the resource"""
    accelerator: Glob | None = None
    """a glob on the accelerator that it runs on now"""
    service_class: Glob | None = None
    """a glob on the name of the service class"""
    labels: dict[str, str] = {}
    """labels of the resource and their values"""
    priority: PrioritySection = PrioritySection()
    """{atLeast: 10}, {atMost: 0}"""
    direction: list[Literal["up", "down", "move", "toZero", "first"]] = []
    """a list of up, down, move, toZero, first: what the change does, any of them"""

    def read(self, *, with_directions: bool = True) -> Scope:
        """The same as a rule has it."""
        return Scope(
            cluster=self.cluster or "",
            namespace=self.namespace or "",
            model=self.model or "",
            name=self.name or "",
            path=self.path or "",
            accelerator=self.accelerator or "",
            service_class=self.service_class or "",
            labels=self.labels,
            priority_least=self.priority.at_least,
            priority_most=self.priority.at_most,
            directions=tuple(map(Direction, self.direction)) if with_directions else (),
        )


API_VERSION = "reconciler.io/v1alpha1"
KIND = "Policy"
MAX_RULES = 1000
_HEADER = {"apiVersion": API_VERSION, "kind": KIND}


class RuleShape(Shape):
    """A rule: a name, a scope, and exactly one of the kinds below."""

    name: Name
    scope: ScopeSection = ScopeSection()


class _OneOfKinds(RuleShape):
    model_config = ConfigDict(json_schema_extra={"oneOf": [{"required": [name]} for name in KINDS]})


def _rule_section() -> type[RuleShape]:
    fields: dict[str, Any] = {name: (kind.section | None, None) for name, kind in KINDS.items()}
    return create_model("RuleSection", __base__=_OneOfKinds, __module__=__name__, __doc__=RuleShape.__doc__, **fields)


RuleSection = _rule_section()


class PolicyFile(Shape):
    """Guard rails of the Reconciler: what it may do alone, what needs a person, what never happens."""

    api_version: Literal["reconciler.io/v1alpha1"]
    kind: Literal["Policy"]
    rules: list[RuleSection]  # type: ignore[valid-type]  # made from the registry of kinds


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadPolicy:
    """The rules of one file, those that cannot be read among them, and what is wrong with it."""

    rules: tuple[Rule, ...] = ()
    findings: tuple[Finding, ...] = ()


def read_policy(path: str, data: bytes) -> ReadPolicy:
    """The rules of a file, in its order."""
    documents, errors = parse_readable(path, data)
    findings = [finding_of(error) for error in errors]
    rules = [_unread(finding) for finding in findings]
    if not documents and not errors:
        missing = Finding(place=Place(path=path), severity=Severity.ERROR, message="expected rules, found nothing")
        return ReadPolicy(rules=(_unread(missing),), findings=(missing,))
    for document in documents:
        read = _document(document)
        rules += read.rules
        findings += read.findings
    return ReadPolicy(rules=tuple(rules), findings=tuple(findings))


def join_policies(read: Iterable[ReadPolicy]) -> ReadPolicy:
    """Rules of several files: a later one of the same name takes the place of an earlier one, if it can be read."""
    rules: dict[str, Rule] = {}
    findings: list[Finding] = []
    for number, each in enumerate(read):
        findings += each.findings
        for index, rule in enumerate(each.rules):
            is_broken = isinstance(rule.asks, BrokenRule)
            rules[f"{number} {index}" if is_broken else rule.name] = rule
    return ReadPolicy(rules=tuple(rules.values()), findings=tuple(findings))


def _document(document: Document) -> ReadPolicy:
    wrong = tuple(_wrong_header(document))
    value = document.value
    entries = value.get("rules") if isinstance(value, dict) else None
    if not wrong and (not isinstance(entries, list) or len(entries) > MAX_RULES):
        expected = f"expected a list of at most {MAX_RULES} rules, got {describe(entries)}"
        wrong = (_finding(document, ("rules",), expected),)
    if wrong or not isinstance(entries, list):
        return ReadPolicy(rules=tuple(map(_unread, wrong)), findings=wrong)
    seen: dict[str, int] = {}
    read = [_entry(document, index, entry, seen) for index, entry in enumerate(entries)]
    return ReadPolicy(
        rules=tuple(rule for each in read for rule in each.rules),
        findings=tuple(finding for each in read for finding in each.findings),
    )


def _wrong_header(document: Document) -> Iterator[Finding]:
    value = document.value
    if not isinstance(value, dict):
        yield _finding(document, (), f"expected a mapping with apiVersion, kind and rules, got {describe(value)}")
        return
    for name, expected in _HEADER.items():
        if value.get(name) != expected:
            yield _finding(document, (name,), f"expected {expected}, got {describe(value.get(name))}")
    for name in value.keys() - _HEADER.keys() - {"rules"}:
        yield _finding(document, (name,), "unknown field: expected apiVersion, kind and rules")


def _entry(document: Document, index: int, entry: object, seen: dict[str, int]) -> ReadPolicy:
    def locate(field: Field) -> Place:
        return _place(document, ("rules", index, *field))

    validated = validate(RuleSection, entry, locate=locate)
    findings = list(validated.findings)
    name = str(entry.get("name", "")) if isinstance(entry, Mapping) else ""
    section = validated.value
    given = [] if section is None else [each for each in KINDS if getattr(section, each) is not None]
    if section is not None and len(given) != 1:
        kinds = join_words(list(KINDS))
        message = f"expected exactly one of {kinds}, got {join_words(given, 'and') or 'none'}"
        findings.append(_finding(document, ("rules", index), message))
    if section is not None and name in seen:
        line = document.line_of(("rules", seen[name]))
        findings.append(_finding(document, ("rules", index), f"{describe(name)} is already at line {line}"))
    seen.setdefault(name, index)
    if section is None or findings:
        scope = _scope_of(entry)
        return ReadPolicy(rules=tuple(_unread(each, name, scope) for each in findings[:1]), findings=tuple(findings))
    asked: KindSection = getattr(section, given[0])
    rule = Rule(name=name, place=_place(document, ("rules", index)), asks=asked.asks(), scope=section.scope.read())
    return ReadPolicy(rules=(rule,))


def _scope_of(entry: object) -> Scope:
    """What a broken rule is for; everything where not even that can be read."""
    scope = entry.get("scope", {}) if isinstance(entry, Mapping) else None
    validated = validate(ScopeSection, scope, locate=lambda _: Place(path=""))
    # A direction says what the rule would have asked, and that is not known.
    return Scope() if validated.value is None else validated.value.read(with_directions=False)


def _unread(finding: Finding, name: str = "", scope: Scope | None = None) -> Rule:
    words = ": ".join(filter(None, (finding.place.field, finding.message)))
    return Rule(name=name or "unreadable", place=finding.place, asks=BrokenRule(words=words), scope=scope or Scope())


def _finding(document: Document, field: Field, message: str) -> Finding:
    return Finding(place=_place(document, field), severity=Severity.ERROR, message=message)


def _place(document: Document, field: Field) -> Place:
    return Place(path=document.path, line=document.line_of(field), field=name_field(field))
