"""Field types that many kinds share: quantities, durations, selectors, conditions, and YAML inside of texts."""

import re
from decimal import ROUND_UP, Context, Decimal
from typing import Annotated, Literal, TypeAlias

from pydantic import AfterValidator, Field, model_validator

from reconciler.domain.identity import Place, Severity
from reconciler.domain.metric_targets import LabelOperator, LabelRequirement, LabelSelector
from reconciler.domain.records import dataclass
from reconciler.domain.snapshot import Condition
from reconciler.domain.units import seconds_from_duration
from reconciler.errors import InputError
from reconciler.manifests.documents import Document, parse_documents
from reconciler.manifests.wording import describe, join_words, name_field, quote
from reconciler.resources.objects import KubernetesObject
from reconciler.resources.validation import NonEmpty, Shape, validate

_EXAMPLES = 'a quantity like 10, "0.75", "500m" or "1Ki"'
_QUANTITY = re.compile(
    r"(?P<number>[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+))"
    r"(?:(?P<suffix>[numkMGTPE]|[KMGTPE]i)|[eE](?P<exponent>[+-]?[0-9]{1,3}))?"
)
_POWERS = {"n": -9, "u": -6, "m": -3, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_FACTORS = {
    **{suffix: Decimal(1).scaleb(power) for suffix, power in _POWERS.items()},
    **{f"{letter}i": Decimal(1024) ** power for power, letter in enumerate("KMGTPE", start=1)},
}
# Upstream keeps nothing finer than a nano unit, rounding it up, and nothing beyond 64 bits.
_FINEST = Decimal(1).scaleb(-9)
_LARGEST = Decimal(2**63 - 1)
_LONGEST = 64
_EXACT = Context(prec=2_000, rounding=ROUND_UP)


def read_quantity(written: int | float | str) -> float:
    """The amount that a Kubernetes Quantity means; ValueError says what was expected and what was found.

    A number without quotes counts as its text: the parser takes it, although schemas refuse a fraction so written.
    """
    text = str(written)
    match = _QUANTITY.fullmatch(text) if len(text) <= _LONGEST and not isinstance(written, bool) else None
    if match is None:
        raise ValueError(f"expected {_EXAMPLES}, got {describe(written)}")
    number = Decimal(match["number"])
    if match["exponent"] is not None:
        number = _EXACT.scaleb(number, int(match["exponent"]))
    amount = _EXACT.multiply(number, _FACTORS.get(match["suffix"] or "", Decimal(1)))
    magnitude = min(abs(amount), _LARGEST)
    return float(_EXACT.quantize(magnitude, _FINEST).copy_sign(amount))


def _check_quantity(written: int | float | str) -> int | float | str:
    read_quantity(written)
    return written


Quantity: TypeAlias = Annotated[int | float | str, AfterValidator(_check_quantity), Field(description=_EXAMPLES)]
"""A field of type Quantity; `read_quantity` has its amount."""

IntOrString: TypeAlias = Annotated[int | str, Field(description="an integer or a string")]
"""A field of type IntOrString: a port by number or name, a count or a percentage."""


_DURATION_EXAMPLES = 'a duration like "15s" or "1h30m"'


def parse_duration(text: str) -> float:
    """The seconds of a duration, below zero with a minus before it; ValueError says what was expected."""
    seconds = seconds_from_duration(text)
    if seconds is None:
        raise ValueError(f"expected {_DURATION_EXAMPLES}, got {quote(text)}")
    return seconds


_OPERATORS = tuple(LabelOperator)
_NEEDS_VALUES = (LabelOperator.IN, LabelOperator.NOT_IN)
_Operator = Annotated[str, Field(pattern=f"^({'|'.join(_OPERATORS)})$", description=join_words(_OPERATORS))]


class RequirementFields(Shape):
    """One element of `matchExpressions`."""

    key: NonEmpty
    operator: _Operator
    values: list[str] | None = None

    @model_validator(mode="after")
    def _check_values(self) -> "RequirementFields":
        if (self.operator in _NEEDS_VALUES) != bool(self.values):
            expected = "at least one value" if self.operator in _NEEDS_VALUES else "no values"
            found = "nothing" if not self.values else join_words(self.values[:3])
            raise ValueError(f"expected {expected} for {self.operator}, got {found}")
        return self


class SelectorFields(Shape):
    """A LabelSelector; both parts hold."""

    match_labels: dict[str, str] | None = None
    match_expressions: list[RequirementFields] | None = None


class ReferenceFields(Shape):
    """An ObjectReference. Which of its fields are required is up to where it stands."""

    api_version: str | None = None
    kind: str | None = None
    namespace: str | None = None
    name: str | None = None
    uid: str | None = None
    resource_version: str | None = None
    field_path: str | None = None


class LocalReferenceFields(Shape):
    """A LocalObjectReference: an object of the same namespace, its kind known from the field."""

    name: NonEmpty


def read_selector(fields: SelectorFields | None) -> LabelSelector:
    """The selector as a domain value; none or an empty one selects every pod."""
    if fields is None:
        return LabelSelector()
    return LabelSelector(
        match_labels=fields.match_labels or {},
        match_expressions=tuple(
            LabelRequirement(key=each.key, operator=LabelOperator(each.operator), values=tuple(each.values or ()))
            for each in fields.match_expressions or ()
        ),
    )


def selector_of(value: object) -> LabelSelector | None:
    """A selector as it stands in an object of no kind of ours; None where there is none, or it is not valid."""
    fields = validate(SelectorFields, value, locate=lambda _: Place(path="")).value if isinstance(value, dict) else None
    return None if fields is None else read_selector(fields)


_DATE_TIME = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt][0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]+)?([Zz]|[+-][0-9]{2}:[0-9]{2})$"
Time = Annotated[str, Field(pattern=_DATE_TIME, description="a time like 2026-01-09T22:00:00Z")]


class ConditionFields(Shape):
    """A Kubernetes condition."""

    type: Annotated[str, Field(min_length=1)]
    status: Literal["True", "False", "Unknown"]
    reason: Annotated[str, Field(min_length=1)]
    message: str
    last_transition_time: Time
    observed_generation: Annotated[int, Field(ge=0)] | None = None


def read_conditions(status: object) -> tuple[Condition, ...]:
    """The conditions that are well-formed, so that their transition times can be kept."""
    entries = status.get("conditions") if isinstance(status, dict) else None
    if not isinstance(entries, list):
        return ()
    read = (validate(ConditionFields, entry, locate=_nowhere, unknown=Severity.WARNING).value for entry in entries)
    return tuple(
        (
            Condition(
                type=condition.type,
                status=condition.status,
                reason=condition.reason,
                message=condition.message,
                last_transition_time=condition.last_transition_time,
                observed_generation=condition.observed_generation,
            )
        )
        for condition in read
        if condition is not None
    )


def _nowhere(_: tuple[str | int, ...]) -> Place:
    return Place(path="")


@dataclass(frozen=True, slots=True)
class EmbeddedYaml:
    """The one document in a ConfigMap's value, and where its lines are in the file."""

    source: KubernetesObject
    key: str
    document: Document
    has_lines: bool

    def locate(self, path: tuple[str | int, ...]) -> Place:
        """The field's own line in a block of text, else the line of the ConfigMap's key."""
        place = self.source.locate(("data", self.key))
        line = place.line + self.document.line_of(path) if self.has_lines else place.line
        return Place(path=place.path, line=line, field=name_field(("data", self.key, *path)))


def parse_embedded(source: KubernetesObject, key: str, value: object, expected: str) -> EmbeddedYaml:
    """The document under one key; InputError at the key's line when there is not exactly one."""
    place = source.locate(("data", key))
    if not isinstance(value, str):
        raise InputError(place.path, place.line, place.field, f"expected text, got {describe(value)}")
    try:
        documents = parse_documents(place.path, value.encode(errors="replace"))
    except InputError as error:
        raise InputError(place.path, place.line, place.field, error.message) from error
    if len(documents) != 1:
        raise InputError(place.path, place.line, place.field, f"expected {expected}")
    # Whether the text's lines are lines of the file: one in quotes, folded or from elsewhere has none of its
    # own.
    return EmbeddedYaml(
        source, key, documents[0], place.path == source.document.path and source.document.is_literal_at(place.line)
    )
