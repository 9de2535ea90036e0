"""Prometheus' remote write: samples of any time, in the order of their times, as another Prometheus would send them."""

from struct import pack
from urllib.request import ProxyHandler, Request, build_opener  # noqa: TID251  # a client of the tests

from tests.servers.prometheus import History, Points

HEADERS = {
    "Content-Type": "application/x-protobuf",
    "Content-Encoding": "snappy",
    "X-Prometheus-Remote-Write-Version": "0.1.0",
}
LITERAL = 60_000
"""Bytes of a snappy literal, of which one may hold 65,536 with a length of two bytes."""


def send(history: History, url: str, *, after_s: float) -> None:
    """Append the samples of a history that are later than `after_s` to the Prometheus at `url`."""
    message = b"".join(_field(1, _series(*family, after_s)) for family in history.families())
    request = Request(f"{url}/api/v1/write", data=_snappy(message), headers=HEADERS, method="POST")
    with build_opener(ProxyHandler({})).open(request, timeout=60) as answer:
        assert answer.status == 204


def _series(metric: str, _kind: str, labels: dict[str, str], points: Points, after_s: float) -> bytes:
    suffix = labels.pop("")
    named = sorted({**labels, "__name__": f"{metric}{suffix}"}.items())
    told = [_field(1, _field(1, name.encode()) + _field(2, value.encode())) for name, value in named]
    later = ((at_s, value) for at_s, value in points if at_s > after_s)
    samples = [_field(2, b"\x09" + pack("<d", value) + b"\x10" + _varint(round(at_s * 1000))) for at_s, value in later]
    return b"".join((*told, *samples)) if samples else b""


def _field(number: int, content: bytes) -> bytes:
    """A field of Protocol Buffers that has a length."""
    return bytes([number << 3 | 2]) + _varint(len(content)) + content


def _varint(number: int) -> bytes:
    digits = bytearray()
    while number > 127:
        digits.append(number & 127 | 128)
        number >>= 7
    return bytes((*digits, number))


def _snappy(message: bytes) -> bytes:
    """Snappy's block format without any compression: literals alone."""
    pieces = (message[start : start + LITERAL] for start in range(0, len(message), LITERAL))
    return _varint(len(message)) + b"".join(b"\xf4" + pack("<H", len(piece) - 1) + piece for piece in pieces)
