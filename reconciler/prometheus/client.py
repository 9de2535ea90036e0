"""The client of one Prometheus: credentials, one question or many, and what a failed answer means."""

import functools
import json
import logging
import math
import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from dataclasses import replace
from typing import Protocol

from reconciler.domain.answers import Answer, AnswerStatus, Body, HeldBody, Query, parse_json
from reconciler.domain.settings import BasicAuth, PrometheusSettings, SecretRef, Tls
from reconciler.errors import ConfigurationError, TransientError
from reconciler.http.addresses import checked_root
from reconciler.http.door import Door
from reconciler.http.messages import (
    Advice,
    Clock,
    Credentials,
    Failure,
    FailureKind,
    FailurePlace,
    Limits,
    Request,
    Response,
    basic,
    bearer,
    check_sendable,
)
from reconciler.http.redaction import Redactor

# --- was reconciler/prometheus/credentials.py:
# What a request to Prometheus carries to be let in, read anew for each request.

ReadSecret = Callable[[SecretRef], str]


class Connection(Protocol):
    """A server with what it takes to be let in."""

    @property
    def bearer_token(self) -> SecretRef | None: ...
    @property
    def basic_auth(self) -> BasicAuth | None: ...
    @property
    def tls(self) -> Tls: ...
    @property
    def headers(self) -> Mapping[str, str | SecretRef]: ...


HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
ENCRYPTED_KEY = re.compile(r"-----BEGIN ENCRYPTED|Proc-Type: 4,ENCRYPTED")


def read_credentials(settings: Connection, read_secret: ReadSecret) -> Credentials:
    """Everything that `settings` refers to; ConfigurationError says which reference is wrong, never its text."""
    if settings.bearer_token and settings.basic_auth:
        raise ConfigurationError("prometheus: expected bearerToken or basicAuth, found both")
    headers: dict[str, str] = {}
    secrets: list[str] = []
    for name, value, secret in _headers(settings, read_secret):
        headers[name] = value
        secrets.extend(secret)
    return Credentials(
        headers=headers,
        redactor=Redactor(tuple(secrets)),
        ca=_path(settings.tls.ca, "tls.ca", read_secret),
        cert=_path(settings.tls.cert, "tls.cert", read_secret),
        key=_key_path(settings.tls.key, read_secret),
    )


def describe(settings: Connection) -> str:
    """Which credential a server would have refused, as a person knows it."""
    refs = []
    if settings.bearer_token:
        refs.append(f"the token in {settings.bearer_token}")
    if settings.basic_auth:
        refs.append(f"the password in {settings.basic_auth.password}")
    refs += [f"header {name} from {ref}" for name, ref in settings.headers.items() if isinstance(ref, SecretRef)]
    if settings.tls.cert:
        refs.append(f"the client certificate in {settings.tls.cert}")
    return " and ".join(refs)


def _headers(settings: Connection, read_secret: ReadSecret) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """Name, value, and the secrets in it."""
    for name, given in settings.headers.items():
        if not HEADER_NAME.fullmatch(name):
            raise ConfigurationError(f"prometheus.headers: expected the name of a header, found {name!r}")
        value = _read(given, f"header {name}", read_secret) if isinstance(given, SecretRef) else given
        check_sendable(value, f"prometheus.header {name}")
        yield name, value, (value,) if isinstance(given, SecretRef) else ()
    if settings.bearer_token:
        token = _read(settings.bearer_token, "bearerToken", read_secret)
        check_sendable(token, "prometheus.bearerToken")
        yield "Authorization", bearer(token), (token,)
    if settings.basic_auth:
        username = settings.basic_auth.username
        password = _read(settings.basic_auth.password, "basicAuth.password", read_secret)
        if ":" in username:
            raise ConfigurationError("prometheus.basicAuth.username: a user name cannot hold a colon")
        yield "Authorization", basic(username, password), (password, f"{username}:{password}")


def _read(ref: SecretRef, field_name: str, read_secret: ReadSecret) -> str:
    text = read_secret(ref).strip("\r\n")
    if not text.strip():
        raise ConfigurationError(f"prometheus.{field_name}: {ref} is empty")
    return text


def _path(ref: SecretRef | None, field_name: str, read_secret: ReadSecret) -> str:
    if ref is None:
        return ""
    if not ref.file:
        raise ConfigurationError(f"prometheus.{field_name}: expected {{file: PATH}} of a PEM file, found {ref}")
    read_secret(ref)  # whoever may not be read is refused here, with the reason
    return ref.file


def _key_path(ref: SecretRef | None, read_secret: ReadSecret) -> str:
    path = _path(ref, "tls.key", read_secret)
    if ref and ENCRYPTED_KEY.search(read_secret(ref)):
        # OpenSSL would ask the terminal for its password and wait for ever
        raise ConfigurationError(f"prometheus.tls.key: {ref} is encrypted: give a key without a password")
    return path


# --- was reconciler/prometheus/refusals.py:
# What an answer of Prometheus means that holds no result, and what to do about it.

OK = 200
NOT_FOUND = 404
RECOVERABLE = frozenset({429, 500, 502, 503, 504})
REFUSED = frozenset({401, 403})
CONTENT_TYPES = frozenset({"", "application/json", "text/plain"})
QUOTED_CHARACTERS = 300
PREFIX = "is the URL's path prefix right?"

ADVICE: Advice = {
    FailureKind.UNTRUSTED: "set prometheus.tls.ca, or tls.cert and tls.key",
    FailureKind.SILENT: "is the server overloaded? Its query log says what it works on",
    FailureKind.TOO_LARGE: "does the query match other tenants' series?",
}
SERVER_WIDE = frozenset({FailureKind.UNREACHABLE, FailureKind.UNTRUSTED, FailureKind.REDIRECTED, FailureKind.REFUSED})
"""What every other question to the same server will fail with, too."""


def judge(response: Response, place: FailurePlace, credential: str) -> Failure | None:
    """Why `response` can be no answer; `credential` names what would have been refused."""
    if response.status != OK:
        return _judge_status(response, place, credential)
    if response.content_type not in CONTENT_TYPES:
        what = f"answered {response.content_type}, not a Prometheus API: {PREFIX}"
        return place.failure(FailureKind.REFUSED, what)
    if response.content.lstrip()[:1] != b"{":
        return place.failure(FailureKind.REJECTED, f"answered something that is no JSON object: {PREFIX}")
    return None


def _judge_status(response: Response, place: FailurePlace, credential: str) -> Failure:
    said = _said_by(response)
    words = f" ({said})" if said else ""
    if response.status in REFUSED:
        refused = (
            f"{credential} was refused"
            if credential
            else "it wants a credential: set RECONCILER_PROMETHEUS_TOKEN beside --prometheus, or prometheus.bearerToken"
        )
        return place.failure(FailureKind.REFUSED, f"{response.status}, {refused}{words}")
    if response.status == NOT_FOUND:
        return place.failure(FailureKind.REFUSED, f"404, no Prometheus API there: {PREFIX}")
    wait_s = (response.retry_after_s or 0.0) if response.status in RECOVERABLE else None
    return place.failure(FailureKind.REJECTED, f"{response.status}{words}", wait_s=wait_s)


def _said_by(response: Response) -> str:
    """The error text of an answer, without secrets; empty when there is none."""
    try:
        document = json.loads(response.content)
    except (ValueError, RecursionError):
        return ""
    text = document.get("error") if isinstance(document, dict) else None
    return response.redactor.show(text)[:QUOTED_CHARACTERS] if isinstance(text, str) else ""


# --- was reconciler/prometheus/client.py:
# The client of one Prometheus: one question, or many at once.

logger = logging.getLogger(__name__)

MAX_VALUES = 1000
"""Of what a server says of itself."""
SUCCESS = b'{"status":"success"'

CONFIGURED = frozenset({FailureKind.REFUSED, FailureKind.UNTRUSTED, FailureKind.REDIRECTED})
"""What no later run gets past: a credential, certificate or address is wrong."""

Progress = Callable[[int, int], None]
"""Called with how many answers are there and how many there will be."""


def hold_in_memory(content: bytes) -> Body:
    """The simplest place for an answer's bytes."""
    return HeldBody(content=content)


class PrometheusClient:
    """Asks one Prometheus-compatible server (Prometheus, Thanos, Mimir, VictoriaMetrics).

    `read_secret` turns a reference into text on each use. Nothing is asked after `run_ends_s`, in the clock's own
    seconds. `keep` decides where an answer's bytes live.
    ConfigurationError for a URL that no request can go to.
    """

    def __init__(
        self,
        settings: PrometheusSettings,
        read_secret: ReadSecret,
        *,
        limits: Limits | None = None,
        run_ends_s: float = math.inf,
        keep: Callable[[bytes], Body] = hold_in_memory,
        clock: Clock | None = None,
    ) -> None:
        self._root = checked_root(settings.url, "prometheus.url")
        self._credentials = functools.partial(read_credentials, settings, read_secret)
        self._limits = replace(limits or Limits(), run_ends_s=run_ends_s)
        self._keep = keep
        self._has_answered = False
        self._kept_bytes = 0
        self._lock = threading.Lock()
        judged = functools.partial(judge, credential=describe(settings))
        self._door = Door(self._limits, judged, advice=ADVICE, clock=clock or Clock())

    def close(self) -> None:
        """Let go of the connections."""
        self._door.close()

    @property
    def requests_sent(self) -> int:
        """How many requests went out so far, retries and redirects included."""
        return self._door.requests_sent

    def ask(self, query: Query) -> Answer:
        """The answer to one question; FAILED or REFUSED with a reason for any fault outside."""
        return self._answer(query, _Outage())

    def ask_time(self, cluster: str) -> Answer:
        """What time it is there: a scalar, of whatever moment the server takes for now."""
        query = Query(cluster=cluster, quantity="time", text="time()", start_s=math.nan, end_s=math.nan)
        return self.ask(query)

    def ask_retention(self) -> str:
        """For how long it keeps samples, in its own words (`15d or 10GiB`); empty where it does not say."""
        request = Request(method="GET", url=f"{self._root}/api/v1/status/runtimeinfo")
        response = self._door.ask(request, self._credentials)
        if isinstance(response, Failure):
            logger.debug("nothing is told of retention: %s", response.error)
            return ""
        try:
            content = parse_json(response.content, most_values=MAX_VALUES)
        except ValueError:
            return ""
        data = content.get("data") if isinstance(content, dict) else None
        kept = data.get("storageRetention") if isinstance(data, dict) else None
        return kept if isinstance(kept, str) else ""

    def ask_all(self, queries: Sequence[Query], progress: Progress | None = None) -> tuple[Answer, ...]:
        """The answers in the order of `queries`; once the server is plainly out of reach the rest fails at once."""
        outage = _Outage()
        executor = ThreadPoolExecutor(max_workers=self._limits.parallel)
        futures = [executor.submit(self._answer, query, outage) for query in queries]
        try:
            _report(futures, progress)
            return tuple(future.result() for future in futures)
        finally:  # a run that is stopped waits for no server
            outage.note(Failure(kind=FailureKind.UNREACHABLE, error=TransientError("the run was stopped")))
            executor.shutdown(wait=False, cancel_futures=True)

    def _answer(self, query: Query, outage: "_Outage") -> Answer:
        response = self._door.ask(self._request(query), self._credentials, given_up=outage.seen)
        if isinstance(response, Failure):
            is_silence = response.kind is FailureKind.SILENT and not self._has_answered
            if response.kind in SERVER_WIDE or is_silence:
                outage.note(response)
            logger.debug("%s %s failed: %s", query.cluster, query.quantity, response.error)
            status = AnswerStatus.REFUSED if response.kind in CONFIGURED else AnswerStatus.FAILED
            return Answer(query=query, status=status, body=HeldBody(), reason=str(response.error))
        self._has_answered = True
        with self._lock:
            self._kept_bytes += len(response.content)
            is_over = self._kept_bytes > self._limits.kept_bytes
        if is_over:
            reason = f"{self._root}: the answers together are larger than {self._limits.kept_bytes} bytes"
            return Answer(query=query, status=AnswerStatus.FAILED, body=HeldBody(), reason=reason)
        return Answer(query=query, status=AnswerStatus.OK, body=self._keep(_recordable(response)))

    def _request(self, query: Query) -> Request:
        if query.step_s is None:
            form = {"query": query.text, **({} if math.isnan(query.end_s) else {"time": f"{query.end_s:.3f}"})}
            return Request(method="POST", url=f"{self._root}/api/v1/query", form=form)
        times = {"start": f"{query.start_s:.3f}", "end": f"{query.end_s:.3f}", "step": f"{query.step_s:.3f}"}
        return Request(method="POST", url=f"{self._root}/api/v1/query_range", form={"query": query.text, **times})


class _Outage:
    """Why no further question goes to the server; nothing while it is worth asking."""

    def __init__(self) -> None:
        self._failure: Failure | None = None

    def seen(self) -> Failure | None:
        """The cause."""
        return self._failure

    def note(self, failure: Failure) -> None:
        """Keep the first failure: it is the cause, the later ones are its echoes."""
        self._failure = self._failure or failure


def _recordable(response: Response) -> bytes:
    """What is kept of an answer: without the secrets that a server may echo in an error.

    A success stays as it is: a tenant's name may be a secret header and, rightly, a label's value.
    """
    content = response.content
    return content if content.lstrip().startswith(SUCCESS) else response.redactor.hide_bytes(content)


def _report(futures: Sequence[Future[Answer]], progress: Progress | None) -> None:
    if progress is not None:
        for done, _ in enumerate(as_completed(futures), start=1):
            progress(done, len(futures))
