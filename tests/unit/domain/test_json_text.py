import tracemalloc

import pytest

from reconciler.domain.answers import parse_json


def peak_bytes(body: bytes, most_values: int) -> int:
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match="values that are read"):
            parse_json(body, most_values=most_values)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("value", ["[]", "{}", '""', "0", '{"":[]}'])
def test_a_bomb_of_small_values_is_refused_before_it_fills_the_memory(value: str) -> None:
    body = f"[{','.join([value] * 300_000)}]".encode()
    assert peak_bytes(body, most_values=100_000) < 3 * len(body)


def test_punctuation_within_texts_is_no_value() -> None:
    text = ',[{"\\' * 1000
    assert parse_json(b'["%s"]' % text.replace("\\", "\\\\").replace('"', '\\"').encode(), most_values=3) == [text]


def test_nesting_without_end_is_no_json() -> None:
    with pytest.raises(ValueError, match="too deep"):
        parse_json(b"[" * 100_000, most_values=1_000_000)
