"""Label selectors and references to objects, wherever they stand."""

import pytest

from reconciler.domain.identity import Place
from reconciler.domain.metric_targets import EVERY_POD, LabelOperator, LabelRequirement, LabelSelector
from reconciler.manifests.wording import name_field
from reconciler.resources.kubernetes.fields import LocalReferenceFields, ReferenceFields, SelectorFields, read_selector
from reconciler.resources.validation import Validated, validate


def read(value: object) -> Validated[SelectorFields]:
    return validate(SelectorFields, value, locate=lambda field: Place(path="a.yaml", field=name_field(field)))


def told(value: object) -> list[str]:
    return [f"{finding.place.field}: {finding.message}" for finding in read(value).findings]


def test_a_selector_has_its_labels_and_expressions() -> None:
    expressions = [{"key": "tier", "operator": "NotIn", "values": ["a", "b"]}, {"key": "gpu", "operator": "Exists"}]
    selector = read_selector(read({"matchLabels": {"app": "x"}, "matchExpressions": expressions}).value)
    assert selector == LabelSelector(
        match_labels={"app": "x"},
        match_expressions=(
            LabelRequirement(key="tier", operator=LabelOperator.NOT_IN, values=("a", "b")),
            LabelRequirement(key="gpu", operator=LabelOperator.EXISTS),
        ),
    )


def test_no_selector_and_an_empty_one_mean_every_pod() -> None:
    assert read_selector(None) == read_selector(read({}).value) == EVERY_POD


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ({"key": "a", "operator": "In"}, "expected at least one value for In, got nothing"),
        ({"key": "a", "operator": "NotIn", "values": []}, "expected at least one value for NotIn, got nothing"),
        ({"key": "a", "operator": "Exists", "values": ["b"]}, "expected no values for Exists, got b"),
    ],
)
def test_values_belong_to_in_and_not_in(expression: dict[str, object], message: str) -> None:
    assert told({"matchExpressions": [expression]}) == [f"matchExpressions[0]: {message}"]


def test_other_operators_and_fields_are_told() -> None:
    assert told({"matchExpressions": [{"key": "a", "operator": "Gt"}]}) == [
        'matchExpressions[0].operator: expected In, NotIn, Exists or DoesNotExist, got "Gt"'
    ]
    assert told({"matchLabel": {}}) == ['matchLabel: unknown field, did you mean "matchLabels"?']


def test_references_are_read_with_whatever_they_say() -> None:
    fields = {"apiVersion": "v1", "kind": "Pod", "namespace": "n", "name": "a", "uid": "u", "fieldPath": "spec"}
    reference = ReferenceFields.model_validate(fields)
    assert (reference.api_version, reference.kind, reference.namespace, reference.name) == ("v1", "Pod", "n", "a")
    assert ReferenceFields.model_validate({}).name is None
    assert LocalReferenceFields.model_validate({"name": "p"}).name == "p"
