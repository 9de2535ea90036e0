"""Bodies as they arrive: decompressed, and counted before and after it."""

import zlib
from collections.abc import Callable, Iterable

from urllib3.exceptions import DecodeError, IncompleteRead

GZIP_OR_ZLIB = zlib.MAX_WBITS | 32
DEFLATED = frozenset({"gzip", "x-gzip", "deflate"})


def read_capped(chunks: Iterable[bytes], encoding: str, cap: int) -> tuple[bytes, bool]:
    """At most `cap` bytes of a body, and whether they are all of it.

    Raises DecodeError for an unknown or broken `encoding` and IncompleteRead for compression that breaks off.
    """
    inflate = _inflater(encoding)
    content = bytearray()
    arrived = 0
    for chunk in chunks:
        arrived += len(chunk)
        content += inflate(chunk, cap + 1 - len(content))
        if arrived > cap or len(content) > cap:
            return bytes(content[:cap]), False
    inflate(b"", 0)
    return bytes(content), True


def _inflater(encoding: str) -> Callable[[bytes, int], bytes]:
    """Turns a chunk into at most so many bytes; called with nothing at the end, it checks that all has come."""
    if encoding in ("", "identity"):
        return lambda chunk, room: chunk[:room]
    if encoding not in DEFLATED:
        raise DecodeError("unknown compression")
    decoder = zlib.decompressobj(GZIP_OR_ZLIB)

    def inflate(chunk: bytes, room: int) -> bytes:
        if not chunk:
            if not decoder.eof:
                raise IncompleteRead(0, 1)
            return b""
        try:
            content = decoder.decompress(chunk, room)
        except zlib.error as error:
            raise DecodeError("broken compression") from error
        if decoder.unused_data:  # zlib would keep it, however much there is
            raise DecodeError("more after the end of the compression")
        return content

    return inflate
