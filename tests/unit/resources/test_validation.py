"""The border every user value crosses: what is said of what is wrong."""

from typing import Annotated

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field, field_validator

from reconciler.domain.identity import Place, Severity
from reconciler.manifests.wording import describe, name_field, quote
from reconciler.resources.validation import MAX_FINDINGS, Shape, Validated, validate


class Secret(Shape):
    file: Annotated[str, Field(min_length=1)] = "-"


class Server(Shape):
    url: str
    port: Annotated[int, Field(ge=1, le=65535)] = 443
    share: Annotated[float, Field(gt=0, lt=1)] = 0.5
    token: Annotated[str | Secret | None, Field(repr=False)] = None
    delay: str = "5m"
    names: Annotated[list[str], Field(max_length=2)] = Field(default_factory=list)
    label: Annotated[str, Field(max_length=3)] = ""

    @field_validator("delay")
    @classmethod
    def _check_delay(cls, value: str) -> str:
        if not value.endswith("m"):
            raise ValueError(f"expected a duration like 5m, got {quote(value)}")
        return value


class Servers(Shape):
    servers: list[Server]
    headers: dict[str, str | Secret] = Field(default_factory=dict)


def _locate(field: tuple[str | int, ...]) -> Place:
    return Place(path="a.yaml", line=7, field=name_field(field))


def _validate(value: object, unknown: Severity = Severity.ERROR) -> Validated[Servers]:
    return validate(Servers, value, locate=_locate, unknown=unknown)


def _told(value: object) -> list[str]:
    return [f"{finding.place.field}: {finding.message}" for finding in _validate(value).findings]


@pytest.mark.parametrize(
    ("server", "told"),
    [
        ({}, "url: expected a string, found nothing"),
        ({"url": None}, "url: expected a string, found nothing"),
        ({"url": "x", "port": 0}, "port: expected at least 1, got 0"),
        ({"url": "x", "port": 70000}, "port: expected at most 65535, got 70000"),
        ({"url": "x", "port": True}, "port: expected an integer, got true"),
        ({"url": "x", "share": 0}, "share: expected more than 0, got 0"),
        ({"url": "x", "share": 1.0}, "share: expected less than 1, got 1.0"),
        ({"url": "x", "share": float("nan")}, "share: expected a finite number, got nan"),
        ({"url": "x", "delay": "5"}, 'delay: expected a duration like 5m, got "5"'),
        ({"url": "x", "names": ["a", "b", "c"]}, "names: expected at most 2 items, got a list"),
        ({"url": "x", "names": {}}, "names: expected a list, got an empty mapping"),
        ({"url": "x", "label": "long"}, 'label: expected at most 3 characters, got "long"'),
        ({"url": "x", "prot": 1}, 'prot: unknown field, did you mean "port"?'),
        ({"url": "x", "zzz": 1}, "zzz: unknown field"),
        ({"url": "x", "token": 5}, "token: expected a string or a mapping, got a value that is not shown"),
    ],
)
def test_each_mistake_says_what_was_expected_and_what_was_found(server: dict[str, object], told: str) -> None:
    assert _told({"servers": [server]}) == [f"servers[0].{told}"]


def test_members_of_a_union_complain_together_and_about_the_deepest_place() -> None:
    assert _told({"servers": [], "headers": {"X": [5]}}) == ["headers.X: expected a string or a mapping, got a list"]
    nested = {"servers": [], "headers": {"X": {"flie": "a"}}}
    assert _told(nested) == ['headers.X.flie: unknown field, did you mean "file"?']


def test_all_mistakes_are_told_at_once_and_too_many_are_counted() -> None:
    told = _told({"servers": [{} for _ in range(MAX_FINDINGS + 3)]})
    assert len(told) == MAX_FINDINGS + 1
    assert told[-1] == ": 3 more findings are not shown"


def test_unknown_fields_as_warnings_are_left_out_and_change_nothing_outside() -> None:
    shared = {"url": "x", "extra": 1}
    value = {"servers": [shared, shared], "more": {}}
    validated = _validate(value, unknown=Severity.WARNING)
    assert validated.value == Servers(servers=[Server(url="x"), Server(url="x")])
    assert {finding.severity for finding in validated.findings} == {Severity.WARNING}
    assert shared == {"url": "x", "extra": 1}


def test_a_document_that_is_no_mapping_is_told_at_its_root() -> None:
    assert _told(["a"]) == [": expected a mapping, got a list"]


def test_what_is_found_is_cut_and_made_harmless() -> None:
    assert quote("a\x1b[31m\u202eb\n") == r'"a\x1b[31m\u202eb\n"'
    assert len(quote("x" * 1000)) < 70
    assert describe([]) == "an empty list"
    assert name_field(("a\x1b", 0)) == r'["a\x1b"][0]'


PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["servers", "url", "token"]), inner),
)


@given(PLAIN, st.sampled_from(Severity))
def test_any_plain_value_is_a_model_or_findings(value: object, unknown: Severity) -> None:
    validated = _validate(value, unknown)
    errors = [finding for finding in validated.findings if finding.severity is Severity.ERROR]
    assert (validated.value is None) == bool(errors)
    assert all(str(finding).isprintable() for finding in validated.findings)


def test_other_base_models_are_validated_too() -> None:
    class Loose(BaseModel):
        name: str

    assert validate(Loose, {"name": "a", "other": 1}, locate=_locate).value == Loose(name="a")
