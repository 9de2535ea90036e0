"""Which objects are meant: label selectors and references, as Kubernetes writes them anywhere."""

from typing import Annotated

from pydantic import Field, model_validator

from reconciler.domain.declared.tracking import LabelOperator, LabelRequirement, LabelSelector
from reconciler.domain.identity import Place
from reconciler.manifests.wording import join_words
from reconciler.resources.validation import NonEmpty, Shape, validate

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
    """The selector as domain value; without one, or an empty one, every pod is meant."""
    if fields is None:
        return LabelSelector()
    return LabelSelector(
        match_labels=fields.match_labels or {},
        match_expressions=tuple(_as_requirement(each) for each in fields.match_expressions or ()),
    )


def selector_of(value: object) -> LabelSelector | None:
    """A selector as it stands in an object of no kind of ours; None where there is none, or it is not valid."""
    fields = validate(SelectorFields, value, locate=lambda _: Place(path="")).value if isinstance(value, dict) else None
    return None if fields is None else read_selector(fields)


def _as_requirement(fields: RequirementFields) -> LabelRequirement:
    return LabelRequirement(key=fields.key, operator=LabelOperator(fields.operator), values=tuple(fields.values or ()))
