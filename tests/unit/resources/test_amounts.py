"""Quantities, durations and integer-or-string fields, as Kubernetes and Go read them."""

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.domain.identity import Place
from reconciler.manifests.wording import name_field
from reconciler.resources.kubernetes.fields import IntOrString, Quantity, parse_duration, read_quantity
from reconciler.resources.validation import Shape, validate


class Amounts(Shape):
    quantity: Quantity = 1
    port: IntOrString = 80


def told(**fields: object) -> list[str]:
    found = validate(Amounts, fields, locate=lambda field: Place(path="a.yaml", field=name_field(field))).findings
    return [f"{finding.place.field}: {finding.message}" for finding in found]


@pytest.mark.parametrize(
    ("written", "amount"),
    [
        (10, 10.0),
        (0.75, 0.75),
        ("0.75", 0.75),
        ("500m", 0.5),
        ("1Ki", 1024.0),
        ("1k", 1000.0),
        ("2Gi", 2.0 * 1024**3),
        ("1E", 1e18),
        ("1E2", 100.0),
        ("1e-3", 0.001),
        ("+3", 3.0),
        ("-1.5", -1.5),
        (".5", 0.5),
        ("5.", 5.0),
        ("100n", 1e-7),
        ("3u", 3e-6),
    ],
)
def test_quantities_mean_what_the_api_server_takes_them_for(written: int | float | str, amount: float) -> None:
    assert read_quantity(written) == amount


def test_quantities_are_rounded_up_to_nano_units_and_capped_at_64_bits() -> None:
    assert read_quantity("1e-100") == 1e-9
    assert read_quantity("-1e-100") == -1e-9
    assert read_quantity("1e100") == float(2**63 - 1)
    assert read_quantity("16Ei") == float(2**63 - 1)


@pytest.mark.parametrize("text", ["", "ten", "1 Ki", "1KiB", "0x10", "1e", "1e1000", "--1", "1_000", "9" * 65, "٣"])
def test_what_is_no_quantity_is_told(text: str) -> None:
    with pytest.raises(ValueError, match="expected a quantity like 10, "):
        read_quantity(text)
    assert len(told(quantity=text)) == 1


def test_a_field_of_another_type_is_told_in_the_same_words() -> None:
    assert told(quantity=[]) == ['quantity: expected a quantity like 10, "0.75", "500m" or "1Ki", got an empty list']
    assert told(quantity=True) == ['quantity: expected a quantity like 10, "0.75", "500m" or "1Ki", got true']
    assert told(port=1.5) == ["port: expected an integer or a string, got 1.5"]
    assert told(quantity="1Ki", port="http") == []


@given(st.decimals(-(10**15), 10**15, places=9, allow_nan=False))
def test_every_decimal_number_is_its_own_quantity(number: Decimal) -> None:
    assert read_quantity(f"{number:f}") == float(number)


@given(st.text(max_size=70))
def test_any_text_is_a_quantity_and_a_duration_or_a_value_error(text: str) -> None:
    for message in told(quantity=text):
        assert message.isprintable()
    if not told(quantity=text):
        assert abs(read_quantity(text)) < 1e19
    flaw = ""
    try:
        parse_duration(text)
    except ValueError as error:
        flaw = str(error)
    assert flaw.isprintable()


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("15s", 15.0),
        ("1h30m", 5400.0),
        ("0s", 0.0),
        ("0", 0.0),
        ("-5m", -300.0),
        ("1.5h", 5400.0),
        (".5s", 0.5),
        ("500ms", 0.5),
        ("1h1m1s1ms", 3661.001),
        ("7us", 7e-6),
        ("7µs", 7e-6),
    ],
)
def test_durations_are_read_in_seconds(text: str, seconds: float) -> None:
    assert parse_duration(text) == pytest.approx(seconds, rel=1e-12)


@pytest.mark.parametrize("text", ["", "15", "s", "1d", "5 m", "1h-5m", "five", "1e3s"])
def test_what_is_no_duration_is_told(text: str) -> None:
    with pytest.raises(ValueError, match='expected a duration like "15s" or "1h30m"'):
        parse_duration(text)
