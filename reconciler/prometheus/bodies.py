"""Bodies as they drip in: decompressed, counted after decompression, and stopped at a cap or a deadline."""

import zlib
from collections.abc import Callable, Iterator

from urllib3.exceptions import DecodeError, IncompleteRead

GZIP_OR_ZLIB = zlib.MAX_WBITS | 32
DEFLATED = frozenset({"gzip", "x-gzip", "deflate"})


def read_capped(chunks: Iterator[bytes], encoding: str, cap: int, is_late: Callable[[], bool]) -> bytes | None:
    """At most `cap` + 1 bytes of the body, so that a longer one is seen as such; None when it is late.

    Raises DecodeError for an unknown or broken `encoding` and IncompleteRead for compression that breaks off.
    """
    inflate = _inflater(encoding)
    content = bytearray()
    for chunk in chunks:
        if is_late():
            return None
        content += inflate(chunk, cap + 1 - len(content))
        if len(content) > cap:
            return bytes(content)
    if is_late():  # a watchdog ends a dripping answer as if it were complete
        return None
    inflate(b"", 0)
    return bytes(content)


def _inflater(encoding: str) -> Callable[[bytes, int], bytes]:
    """Turns a chunk into at most so many bytes; called with nothing at the end, it checks that all has come."""
    if encoding in ("", "identity"):
        return lambda chunk, room: chunk[:room]
    if encoding not in DEFLATED:
        raise DecodeError(f"unexpected encoding {encoding!r}")
    decoder = zlib.decompressobj(GZIP_OR_ZLIB)

    def inflate(chunk: bytes, room: int) -> bytes:
        if not chunk:
            if not decoder.eof:
                raise IncompleteRead(0, 1)
            return b""
        try:
            return decoder.decompress(chunk, room)
        except zlib.error as error:
            raise DecodeError("broken compression") from error

    return inflate
