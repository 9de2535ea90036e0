"""The door: one question to a server, with its redirects, retries and one deadline for all of it."""

import io
import logging
import socket
import threading
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from contextvars import ContextVar
from http.cookiejar import DefaultCookiePolicy
from typing import Any, Self
from urllib.parse import urlsplit

import requests
from requests.adapters import HTTPAdapter
from urllib3 import HTTPConnectionPool, HTTPSConnectionPool, PoolManager
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.exceptions import DecodeError, HTTPError, IncompleteRead

from reconciler.domain.records import replace
from reconciler.http.messages import (
    MIB,
    SUCCESS,
    TRAFFIC,
    Advice,
    Clock,
    Credentials,
    Failure,
    FailureKind,
    FailurePlace,
    Limits,
    Request,
    Response,
    retry_after_s,
)
from reconciler.http.redaction import place_of, redacting_logs, same_origin, take_over_library_logs

logger = logging.getLogger(__name__)

REDIRECTS = frozenset({301, 302, 303, 307, 308})
CHUNK_BYTES = 64 * 1024
GZIP_OR_ZLIB = zlib.MAX_WBITS | 32
DEFLATED = frozenset({"gzip", "x-gzip", "deflate"})
HEADERS = {"Accept": "application/json", "Accept-Encoding": "gzip", "User-Agent": "reconciler"}


# Connections with a total time limit: the library's own time-out starts again with every byte.


class Watchdog:
    """Shuts down every connection of its block after `limit_s`, during greeting, headers or body."""

    def __init__(self, limit_s: float) -> None:
        self.has_expired = False
        self._socket: socket.socket | None = None
        self._lock = threading.Lock()
        self._timer = threading.Timer(limit_s, self._expire)
        self._timer.daemon = True

    def __enter__(self) -> Self:
        self._token = _WATCHDOG.set(self)
        self._timer.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()
        _WATCHDOG.reset(self._token)
        with self._lock:
            self._let_go()

    def watch(self, connected: socket.socket) -> None:
        """Hold a connection by a second handle, which TLS does not take over and only we close."""
        with self._lock:
            self._let_go()
            self._socket = socket.fromfd(connected.fileno(), connected.family, connected.type)
            if self.has_expired:
                self._shut_down()

    def _expire(self) -> None:
        with self._lock:
            self.has_expired = True
            self._shut_down()

    def _shut_down(self) -> None:
        if self._socket is not None:
            with suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)

    def _let_go(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None


_WATCHDOG: ContextVar[Watchdog | None] = ContextVar("watchdog", default=None)
"""The watchdog of this thread's exchange, as the libraries pass nothing of ours to their connections."""


def _watch(connected: socket.socket | None) -> None:
    watchdog = _WATCHDOG.get()
    if watchdog is not None and connected is not None:
        watchdog.watch(connected)


class WatchedConnection(HTTPConnection):
    """Shows its socket to the watchdog: as soon as there is one, and whenever it is used again."""

    # the signatures are those of urllib3
    def _new_conn(self) -> socket.socket:
        connected = super()._new_conn()
        _watch(connected)
        return connected

    def request(self, *arguments: Any, **options: Any) -> None:
        """Send a request."""
        _watch(self.sock)
        super().request(*arguments, **options)


class WatchedTlsConnection(WatchedConnection, HTTPSConnection):
    """The same over TLS."""


class WatchedPool(HTTPConnectionPool):
    """Connections to one host."""

    ConnectionCls = WatchedConnection


class WatchedTlsPool(HTTPSConnectionPool):
    """Connections to one host over TLS."""

    ConnectionCls = WatchedTlsConnection


POOLS = {"http": WatchedPool, "https": WatchedTlsPool}


class WatchedAdapter(HTTPAdapter):
    """Gives requests our connections."""

    # the signatures are those of requests, which passes them on to urllib3
    def init_poolmanager(self, connections: int, maxsize: int, block: bool = False, **pool_kwargs: Any) -> None:
        """Make the pools for direct connections."""
        super().init_poolmanager(connections, maxsize, block, **pool_kwargs)
        self.poolmanager.pool_classes_by_scheme = POOLS

    def proxy_manager_for(self, proxy: str, **proxy_kwargs: Any) -> PoolManager:
        """Make the pools for connections through `proxy`."""
        manager: PoolManager = super().proxy_manager_for(proxy, **proxy_kwargs)
        manager.pool_classes_by_scheme = POOLS
        return manager


class _Session(requests.Session):
    """A session that leaves redirects to us: requests would parse them and read their whole body, without limits.

    It reads proxies and authorities from the environment once for each origin, as this takes as long as a small answer.
    """

    def __init__(self) -> None:
        super().__init__()
        self._merged: dict[tuple[object, ...], Mapping[str, Any]] = {}

    # the signature is that of requests
    def merge_environment_settings(
        self, url: str | bytes | None, proxies: Any, stream: bool | None, verify: Any, cert: Any
    ) -> Any:
        """What the environment makes of the settings of a request."""
        key = (*urlsplit(str(url))[:2], stream, verify, cert)
        if key not in self._merged:
            self._merged[key] = super().merge_environment_settings(url, proxies, stream, verify, cert)
        return dict(self._merged[key])

    def get_redirect_target(self, resp: requests.Response) -> None:
        """Offer none."""


class NoAuth(requests.auth.AuthBase):
    """An authentication that adds nothing: without one, requests would use .netrc and the URL."""

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        """`request` unchanged."""
        return request


def open_session(connections: int) -> requests.Session:
    """A session with up to so many open connections, without cookies."""
    session = _Session()
    session.auth = NoAuth()
    session.cookies.set_policy(DefaultCookiePolicy(allowed_domains=[]))
    adapter = WatchedAdapter(pool_maxsize=connections)
    session.mount("http://", adapter)
    session.mount("https://", adapter)
    return session


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
    """The answer within `left_s` seconds, with any status; `now_s` is Unix time."""
    with Watchdog(left_s) as watchdog, redacting_logs(credentials.redactor):
        try:
            reply = session.request(
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
            with reply:
                received = _receive(reply, place, limits, now_s)
        except (requests.RequestException, HTTPError, OSError) as error:
            received = place.failure_of(error)
        # a connection that was shut down looks broken, or like the end of an answer
        return place.silence() if watchdog.has_expired else received


def _receive(reply: requests.Response, place: FailurePlace, limits: Limits, now_s: float) -> Response | Failure:
    is_success = reply.status_code in SUCCESS
    cap = limits.body_bytes if is_success else limits.error_bytes
    encoding = reply.headers.get("Content-Encoding", "").strip().lower()
    # what has arrived of the body: reading a full chunk would wait for a slow server
    chunks = iter(lambda: reply.raw.read1(CHUNK_BYTES, decode_content=False) or b"", b"")
    content, is_whole = _read_capped(chunks, encoding, cap)
    if is_success and not is_whole:
        return place.failure(FailureKind.TOO_LARGE, f"the answer is larger than {cap} bytes")
    return Response(
        status=reply.status_code,
        headers=reply.headers,
        content=content,
        redactor=place.redactor,
        retry_after_s=retry_after_s(reply.headers, now_s),
    )


def _read_capped(chunks: Iterable[bytes], encoding: str, cap: int) -> tuple[bytes, bool]:
    """At most `cap` bytes of a body, counted before and after decompression, and whether they are all of it.

    Raises DecodeError for an unknown or broken `encoding` and IncompleteRead for compression that breaks off.
    """
    inflate = _inflater(encoding)
    content = io.BytesIO()  # unlike a bytearray it returns its bytes without a copy
    arrived = 0
    for chunk in chunks:
        arrived += len(chunk)
        content.writelines(inflate(chunk, cap + 1 - content.tell()))
        if arrived > cap or content.tell() > cap:
            content.truncate(cap)
            return content.getvalue(), False
    if arrived:  # an answer without a body may still name a compression
        content.writelines(inflate(b"", 0))
    return content.getvalue(), True


def _inflater(encoding: str) -> Callable[[bytes, int], Iterable[bytes]]:
    """Turns a chunk into pieces of a limited total size; called with nothing at the end, it checks for completeness."""
    if encoding in ("", "identity"):
        return lambda chunk, room: (chunk[:room],)
    if encoding not in DEFLATED:
        raise DecodeError("unknown compression")
    decoder = zlib.decompressobj(GZIP_OR_ZLIB)

    def inflate(chunk: bytes, room: int) -> Iterator[bytes]:
        if not chunk and not decoder.eof:
            raise IncompleteRead(0, 1)
        while chunk and room > 0:  # in pieces, as one chunk may contain a whole large body
            try:
                piece = decoder.decompress(chunk, min(room, MIB))
            except zlib.error as error:
                raise DecodeError("broken compression") from error
            room -= len(piece)
            chunk = decoder.unconsumed_tail
            yield piece
        if decoder.unused_data:  # zlib would keep all of it
            raise DecodeError("more after the end of the compression")

    return inflate


Judge = Callable[[Response, FailurePlace], Failure | None]
"""Returns the failure of an answer; None for a usable one."""


class Door:
    """Sends requests to one server; may be used by several threads.

    `judge` finds failures in the server's answers, `advice` replaces the usual advice about failures.
    """

    def __init__(self, limits: Limits, judge: Judge, *, advice: Advice, clock: Clock) -> None:
        take_over_library_logs()
        self._limits = limits
        self._judge = judge
        self._advice = advice
        self._clock = clock
        self._session = open_session(limits.parallel)
        self._lock = threading.Lock()
        self._requests_sent = 0

    @property
    def requests_sent(self) -> int:
        """The number of requests so far, including retries and redirects."""
        return self._requests_sent

    def close(self) -> None:
        """Close the connections, whose number is limited on servers."""
        self._session.close()

    def ask(
        self,
        request: Request,
        credentials: Callable[[], Credentials],
        *,
        given_up: Callable[[], Failure | None] = lambda: None,
    ) -> Response | Failure:
        """The answer, or the failure after all attempts.

        `credentials` are read again for each attempt, and their errors are raised. `given_up` returns a failure when
        further attempts are useless.
        """
        deadline_s = min(self._clock.monotonic() + self._limits.total_s, self._limits.run_ends_s)
        attempt = 1
        while True:
            if failure := given_up():
                return failure
            answer = self._attempt(request, credentials(), deadline_s)
            TRAFFIC.note(request.url, failed=isinstance(answer, Failure))
            if isinstance(answer, Response) or answer.wait_s is None or attempt == self._limits.attempts:
                return answer
            backoff_s: float = self._limits.backoff_s * 2 ** (attempt - 1)
            pause_s = max(backoff_s, min(answer.wait_s, self._limits.retry_after_s))
            if self._clock.monotonic() + pause_s >= deadline_s:
                return answer
            logger.info("%s; trying again in %.1f s", answer.error, pause_s)
            self._clock.sleep(pause_s)
            attempt += 1

    def _attempt(self, request: Request, credentials: Credentials, deadline_s: float) -> Response | Failure:
        for _ in range(self._limits.redirects + 1):
            place = FailurePlace(
                action=request.action,
                address=credentials.redactor.show(place_of(request.url)),
                advice=self._advice,
                redactor=credentials.redactor,
            )
            answer = self._exchange(request, credentials, place, deadline_s)
            if isinstance(answer, Failure):
                return answer
            if request.is_write or answer.status not in REDIRECTS:
                return self._judge(answer, place) or answer
            location = answer.headers.get("Location", "")
            target = same_origin(request.url, location)
            if not target:
                elsewhere = f"another origin, {place_of(location)}" if location else "nowhere"
                return place.failure(FailureKind.REDIRECTED, f"redirects to {elsewhere}")
            request = replace(request, url=target, query={})
        return place.failure(FailureKind.REDIRECTED, f"more than {self._limits.redirects} redirects")

    def _exchange(
        self, request: Request, credentials: Credentials, place: FailurePlace, deadline_s: float
    ) -> Response | Failure:
        started_s = self._clock.monotonic()
        if started_s >= deadline_s:
            return place.silence()
        with self._lock:
            self._requests_sent += 1
        answer = exchange(
            self._session,
            request,
            credentials,
            place=place,
            limits=self._limits,
            left_s=deadline_s - started_s,
            now_s=self._clock.now_s(),
        )
        if logger.isEnabledFor(logging.DEBUG):
            took_s = self._clock.monotonic() - started_s
            query = place.redactor.show(str(request.form or request.query or ""))
            outcome = answer.kind.value if isinstance(answer, Failure) else f"status {answer.status}"
            size = "" if isinstance(answer, Failure) else f", {len(answer.content)} bytes"
            logger.debug("%s %s %s: %s%s in %.2f s", request.method, place.where, query, outcome, size, took_s)
        return answer
