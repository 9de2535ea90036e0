"""One request and its answer, within its caps and its time."""

import io
import zlib
from collections.abc import Callable, Iterable, Iterator

import requests
from urllib3.exceptions import DecodeError, HTTPError, IncompleteRead

from reconciler.http.connections import Watchdog
from reconciler.http.failures import Failure, FailureKind, FailurePlace
from reconciler.http.limits import MIB, Limits
from reconciler.http.messages import SUCCESS, Credentials, Request, Response, retry_after_s
from reconciler.http.redaction import redacting_logs

CHUNK_BYTES = 64 * 1024
GZIP_OR_ZLIB = zlib.MAX_WBITS | 32
DEFLATED = frozenset({"gzip", "x-gzip", "deflate"})
HEADERS = {"Accept": "application/json", "Accept-Encoding": "gzip", "User-Agent": "reconciler"}


def exchange(
    session: requests.Session,
    request: Request,
    credentials: Credentials,
    *,
    place: FailurePlace,
    limits: Limits,
    left_s: float,
    now_s: float,
) -> Response | Failure:
    """What came back within `left_s` seconds, whatever its status; `now_s` is Unix time."""
    with Watchdog(left_s) as watchdog, redacting_logs(credentials.redactor):
        try:
            with _send(session, request, credentials, limits, left_s) as reply:
                received = _receive(reply, place, limits, now_s)
        except (requests.RequestException, HTTPError, OSError) as error:
            received = place.failure_of(error)
        # a connection that was shut down looks broken, or like the end of an answer
        return place.silence() if watchdog.has_expired else received


def _send(
    session: requests.Session, request: Request, credentials: Credentials, limits: Limits, left_s: float
) -> requests.Response:
    return session.request(
        request.method,
        request.url,
        params=dict(request.query),
        data=request.content if request.form is None else dict(request.form),
        json=None if request.json is None else dict(request.json),
        headers={**HEADERS, **request.headers, **credentials.headers},
        verify=credentials.ca or True,
        cert=(credentials.cert, credentials.key) if credentials.key else credentials.cert or None,
        timeout=(min(limits.connect_s, left_s), min(limits.read_s, left_s)),
        allow_redirects=False,
        stream=True,
    )


def _receive(reply: requests.Response, place: FailurePlace, limits: Limits, now_s: float) -> Response | Failure:
    is_success = reply.status_code in SUCCESS
    cap = limits.body_bytes if is_success else limits.error_bytes
    encoding = reply.headers.get("Content-Encoding", "").strip().lower()
    content, is_whole = _read_capped(_chunks(reply), encoding, cap)
    if is_success and not is_whole:
        return place.failure(FailureKind.TOO_LARGE, f"the answer is larger than {cap} bytes")
    return Response(
        status=reply.status_code,
        headers=reply.headers,
        content=content,
        redactor=place.redactor,
        retry_after_s=retry_after_s(reply.headers, now_s),
    )


def _chunks(reply: requests.Response) -> Iterator[bytes]:
    """What is there of the body: a full chunk would be waited for, however slowly it drips."""
    return iter(lambda: reply.raw.read1(CHUNK_BYTES, decode_content=False) or b"", b"")


def _read_capped(chunks: Iterable[bytes], encoding: str, cap: int) -> tuple[bytes, bool]:
    """At most `cap` bytes of a body, counted before and after decompression, and whether they are all of it.

    Raises DecodeError for an unknown or broken `encoding` and IncompleteRead for compression that breaks off.
    """
    inflate = _inflater(encoding)
    content = io.BytesIO()  # unlike a bytearray it hands out its bytes without a second copy of them
    arrived = 0
    for chunk in chunks:
        arrived += len(chunk)
        content.writelines(inflate(chunk, cap + 1 - content.tell()))
        if arrived > cap or content.tell() > cap:
            content.truncate(cap)
            return content.getvalue(), False
    if arrived:  # what has no body may name its compression all the same
        content.writelines(inflate(b"", 0))
    return content.getvalue(), True


def _inflater(encoding: str) -> Callable[[bytes, int], Iterable[bytes]]:
    """Turns a chunk into pieces of at most so many bytes together; called with nothing at the end, it checks that all
    has come.
    """
    if encoding in ("", "identity"):
        return lambda chunk, room: (chunk[:room],)
    if encoding not in DEFLATED:
        raise DecodeError("unknown compression")
    decoder = zlib.decompressobj(GZIP_OR_ZLIB)

    def inflate(chunk: bytes, room: int) -> Iterator[bytes]:
        if not chunk and not decoder.eof:
            raise IncompleteRead(0, 1)
        while chunk and room > 0:  # in pieces: one chunk may hold the whole of a large body, which is held already
            try:
                piece = decoder.decompress(chunk, min(room, MIB))
            except zlib.error as error:
                raise DecodeError("broken compression") from error
            room -= len(piece)
            chunk = decoder.unconsumed_tail
            yield piece
        if decoder.unused_data:  # zlib would keep it, however much there is
            raise DecodeError("more after the end of the compression")

    return inflate
