"""The HTTP client: one question with its retries, or many at once."""

import logging
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from dataclasses import dataclass, replace
from http import HTTPStatus
from http.cookiejar import DefaultCookiePolicy
from urllib.parse import urlsplit

import requests

from reconciler.domain.answers import Answer, AnswerStatus, Body, HeldBody, Query
from reconciler.domain.settings import PrometheusSettings
from reconciler.errors import ConfigurationError
from reconciler.prometheus.credentials import Credentials, ReadSecret, describe, read_credentials
from reconciler.prometheus.faults import Fault, fault_of_status, said_by
from reconciler.prometheus.limits import Limits
from reconciler.prometheus.transfer import Exchange, Received, place_of
from reconciler.prometheus.watchdog import WatchedAdapter

logger = logging.getLogger(__name__)

Progress = Callable[[int, int], None]
"""Called with how many answers are there and how many there will be."""


def hold_in_memory(content: bytes) -> Body:
    """The simplest place for an answer's bytes."""
    return HeldBody(content=content)


class PrometheusClient:
    """Asks one Prometheus-compatible server (Prometheus, Thanos, Mimir, VictoriaMetrics).

    `read_secret` turns a reference into text on each use. `keep` decides where an answer's bytes live. `sleep` and
    `monotonic` are the clock. ConfigurationError for a URL that no request can go to.
    """

    def __init__(
        self,
        settings: PrometheusSettings,
        read_secret: ReadSecret,
        *,
        limits: Limits | None = None,
        keep: Callable[[bytes], Body] = hold_in_memory,
        sleep: Callable[[float], None] = time.sleep,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        _check_url(settings.url)
        self._settings = settings
        self._read_secret = read_secret
        self._limits = limits or Limits()
        self._keep = keep
        self._sleep = sleep
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._requests_sent = 0
        self._has_answered = False
        self._session = _session(self._limits)
        self._exchange = Exchange(session=self._session, limits=self._limits, monotonic=monotonic, count=self._count)

    def close(self) -> None:
        """Let go of the connections: a server takes only so many, and the collector may never see this client."""
        self._session.close()

    @property
    def requests_sent(self) -> int:
        """How many requests went out so far, retries and redirects included."""
        return self._requests_sent

    def ask(self, query: Query) -> Answer:
        """The answer to one question; FAILED with a reason for any fault outside."""
        return self._answer(query, _Outage())

    def ask_all(self, queries: Sequence[Query], progress: Progress | None = None) -> tuple[Answer, ...]:
        """The answers in the order of `queries`; once the server is plainly out of reach the rest fails at once."""
        outage = _Outage()
        with ThreadPoolExecutor(max_workers=self._limits.parallel) as executor:
            futures = [executor.submit(self._answer, query, outage) for query in queries]
            try:
                _report(futures, progress)
                return tuple(future.result() for future in futures)
            finally:
                outage.note("the run was stopped")
                executor.shutdown(wait=False, cancel_futures=True)

    def _answer(self, query: Query, outage: "_Outage") -> Answer:
        received = self._ask_with_retries(query, outage)
        if isinstance(received, Fault):
            if received.is_server_wide or (received.is_silence and not self._has_answered):
                outage.note(received.reason)
            logger.debug("%s %s failed: %s", query.cluster, query.quantity, received.reason)
            return Answer(query=query, status=AnswerStatus.FAILED, body=HeldBody(), reason=received.reason)
        self._has_answered = True
        return Answer(query=query, status=AnswerStatus.OK, body=self._keep(received.content))

    def _ask_with_retries(self, query: Query, outage: "_Outage") -> Received | Fault:
        deadline_s = self._monotonic() + self._limits.total_s
        attempt = 1
        while True:
            if outage.reason:
                return Fault(reason=outage.reason)
            received = self._attempt(query, deadline_s)
            if isinstance(received, Received) or not received.is_recoverable or attempt == self._limits.attempts:
                return received
            pause_s = self._pause_s(attempt, received.retry_after_s)
            if self._monotonic() + pause_s >= deadline_s:
                return received
            self._sleep(pause_s)
            attempt += 1

    def _pause_s(self, attempt: int, retry_after_s: float | None) -> float:
        if retry_after_s is not None:
            return min(retry_after_s, self._limits.retry_after_s)
        backoff_s: float = self._limits.backoff_s * 2 ** (attempt - 1)
        return backoff_s

    def _attempt(self, query: Query, deadline_s: float) -> Received | Fault:
        credentials = read_credentials(self._settings, self._read_secret)
        started_s = self._monotonic()
        path, form = _request_of(query)
        url = f"{self._settings.url.rstrip('/')}{path}"
        received = self._exchange.post(url, form, credentials, deadline_s)
        outcome = self._judged(received, url, credentials)
        logger.debug(
            "POST %s %s %s: %s in %.2f s: %s",
            place_of(url),
            query.cluster,
            query.quantity,
            _summary(received),
            self._monotonic() - started_s,
            credentials.redactor.show(query.text),
        )
        return outcome

    def _judged(self, received: Received | Fault, url: str, credentials: Credentials) -> Received | Fault:
        """`received` when it can be an answer, else the fault it is, without secrets."""
        where = place_of(url)
        if isinstance(received, Received) and received.status != HTTPStatus.OK:
            said = credentials.redactor.show(said_by(received.content))
            fault = fault_of_status(received.status, said, where, describe(self._settings))
            received = _with_retry_after(fault, received.headers.get("Retry-After", ""))
        elif isinstance(received, Received) and received.content.lstrip()[:1] != b"{":
            reason = f"{where} answered something that is no JSON object: is the URL's path prefix right?"
            received = Fault(reason=reason)
        if isinstance(received, Fault):
            return replace(received, reason=credentials.redactor.show(received.reason))
        return replace(received, content=credentials.redact_bytes(received.content))

    def _count(self) -> None:
        with self._lock:
            self._requests_sent += 1


@dataclass(slots=True)
class _Outage:
    """Why no further question goes to the server; empty while it is worth asking."""

    reason: str = ""

    def note(self, reason: str) -> None:
        """Keep the first reason: it is the cause, the later ones are its echoes."""
        self.reason = self.reason or reason


class _Session(requests.Session):
    """A session that leaves redirects to us: requests would parse them and read their whole body, without limits."""

    def get_redirect_target(self, resp: requests.Response) -> None:
        """Say that there is none."""


def _session(limits: Limits) -> requests.Session:
    session = _Session()
    session.cookies.set_policy(DefaultCookiePolicy(allowed_domains=[]))  # nothing a server says is kept
    adapter = WatchedAdapter(limits.total_s, limits.parallel)
    session.mount("http://", adapter)
    session.mount("https://", adapter)
    return session


def _check_url(url: str) -> None:
    try:
        parts = urlsplit(url)
        host, user, _ = parts.hostname, parts.username or parts.password, parts.port
    except ValueError as error:
        raise ConfigurationError("prometheus.url: expected http(s)://HOST[:PORT][/PREFIX]") from error
    if user:
        raise ConfigurationError(f"prometheus.url: {place_of(url)} holds a user or password: use basicAuth")
    if parts.scheme not in ("http", "https") or not host or parts.query or parts.fragment:
        raise ConfigurationError(f"prometheus.url: expected http(s)://HOST[:PORT][/PREFIX], found {place_of(url)}")


def _request_of(query: Query) -> tuple[str, dict[str, str]]:
    if query.step_s is None:
        return "/api/v1/query", {"query": query.text, "time": f"{query.end_s:.3f}"}
    times = {"start": f"{query.start_s:.3f}", "end": f"{query.end_s:.3f}", "step": f"{query.step_s:.3f}"}
    return "/api/v1/query_range", {"query": query.text, **times}


def _with_retry_after(fault: Fault, written: str) -> Fault:
    # the other form of the header is a date, on a clock that need not be ours
    if not written.isdecimal() or len(written) > 9:
        return fault
    return replace(fault, retry_after_s=float(written))


def _report(futures: Sequence[Future[Answer]], progress: Progress | None) -> None:
    if progress is not None:
        for done, _ in enumerate(as_completed(futures), start=1):
            progress(done, len(futures))


def _summary(received: Received | Fault) -> str:
    if isinstance(received, Fault):
        return "no answer"
    return f"status {received.status}, {len(received.content)} bytes"
