"""The client of one Prometheus: credentials, one question or many, and what a failed answer means."""

import functools
import json
import logging
import math
import re
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed

from reconciler.domain.answers import Answer, AnswerStatus, Body, HeldBody, Query, parse_json
from reconciler.domain.records import replace
from reconciler.domain.settings import PrometheusSettings, Pushgateway, SecretRef
from reconciler.errors import ConfigurationError, TransientError
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
from reconciler.http.redaction import Redactor, checked_root

logger = logging.getLogger(__name__)

ReadSecret = Callable[[SecretRef], str]
Server = PrometheusSettings | Pushgateway

# ---- credentials, read anew for each request

_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_ENCRYPTED_KEY = re.compile(r"-----BEGIN ENCRYPTED|Proc-Type: 4,ENCRYPTED")


def read_credentials(settings: Server, read_secret: ReadSecret) -> Credentials:
    """Everything that `settings` refers to; ConfigurationError says which reference is wrong, never its text."""
    if settings.bearer_token and settings.basic_auth:
        raise ConfigurationError("prometheus: expected bearerToken or basicAuth, found both")
    headers: dict[str, str] = {}
    secrets: list[str] = []
    for name, given in settings.headers.items():
        if not _HEADER_NAME.fullmatch(name):
            raise ConfigurationError(f"prometheus.headers: expected the name of a header, found {name!r}")
        value = _read(given, f"header {name}", read_secret) if isinstance(given, SecretRef) else given
        check_sendable(value, f"prometheus.header {name}")
        headers[name] = value
        secrets += [value] if isinstance(given, SecretRef) else []
    if settings.bearer_token:
        token = _read(settings.bearer_token, "bearerToken", read_secret)
        check_sendable(token, "prometheus.bearerToken")
        headers["Authorization"] = bearer(token)
        secrets.append(token)
    if settings.basic_auth:
        username = settings.basic_auth.username
        password = _read(settings.basic_auth.password, "basicAuth.password", read_secret)
        if ":" in username:
            raise ConfigurationError("prometheus.basicAuth.username: a user name cannot hold a colon")
        headers["Authorization"] = basic(username, password)
        secrets += [password, f"{username}:{password}"]
    paths = {name: _path(getattr(settings.tls, name), f"tls.{name}", read_secret) for name in ("ca", "cert", "key")}
    key = settings.tls.key
    if key and _ENCRYPTED_KEY.search(read_secret(key)):
        # OpenSSL would ask the terminal for its password and wait for ever
        raise ConfigurationError(f"prometheus.tls.key: {key} is encrypted: give a key without a password")
    return Credentials(headers=headers, redactor=Redactor(tuple(secrets)), **paths)


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
    read_secret(ref)  # an unreadable file is refused here, with the reason
    return ref.file


def _describe(settings: Server) -> str:
    """The credentials that a server may have refused, as a person knows them."""
    refs = []
    if settings.bearer_token:
        refs.append(f"the token in {settings.bearer_token}")
    if settings.basic_auth:
        refs.append(f"the password in {settings.basic_auth.password}")
    refs += [f"header {name} from {ref}" for name, ref in settings.headers.items() if isinstance(ref, SecretRef)]
    if settings.tls.cert:
        refs.append(f"the client certificate in {settings.tls.cert}")
    return " and ".join(refs)


# ---- what an answer without a result means, and what to do about it

_RECOVERABLE = frozenset({429, 500, 502, 503, 504})
_CONTENT_TYPES = frozenset({"", "application/json", "text/plain"})
_QUOTED_CHARACTERS = 300
_PREFIX = "is the URL's path prefix right?"
_NO_CREDENTIAL = "it wants a credential: set RECONCILER_PROMETHEUS_TOKEN with --prometheus, or prometheus.bearerToken"
_ADVICE: Advice = {
    FailureKind.UNTRUSTED: "set prometheus.tls.ca, or tls.cert and tls.key",
    FailureKind.SILENT: "is the server overloaded? Its query log says what it works on",
    FailureKind.TOO_LARGE: "does the query match other tenants' series?",
}
_CONFIGURED = frozenset({FailureKind.REFUSED, FailureKind.UNTRUSTED, FailureKind.REDIRECTED})
"""No later run gets past these: a credential, certificate or address is wrong."""
_SERVER_WIDE = _CONFIGURED | {FailureKind.UNREACHABLE}
"""Every other question to the same server will fail with these, too."""


def _judge(response: Response, place: FailurePlace, credential: str) -> Failure | None:
    """Why `response` is no answer; `credential` names what would have been refused."""
    status = response.status
    if status == 200:
        if response.content_type not in _CONTENT_TYPES:
            what = f"answered {response.content_type}, not a Prometheus API: {_PREFIX}"
            return place.failure(FailureKind.REFUSED, what)
        if response.content.lstrip()[:1] != b"{":
            return place.failure(FailureKind.REJECTED, f"answered something that is no JSON object: {_PREFIX}")
        return None
    if status == 404:
        return place.failure(FailureKind.REFUSED, f"404, no Prometheus API there: {_PREFIX}")
    try:
        document = json.loads(response.content)
    except (ValueError, RecursionError):
        document = None
    text = document.get("error") if isinstance(document, dict) else None
    error = response.redactor.show(text)[:_QUOTED_CHARACTERS] if isinstance(text, str) else ""
    words = f" ({error})" if error else ""
    if status in (401, 403):
        refused = f"{credential} was refused" if credential else _NO_CREDENTIAL
        return place.failure(FailureKind.REFUSED, f"{status}, {refused}{words}")
    wait_s = (response.retry_after_s or 0.0) if status in _RECOVERABLE else None
    return place.failure(FailureKind.REJECTED, f"{status}{words}", wait_s=wait_s)


# ---- the client

_MAX_VALUES = 1000
"""Of JSON in what a server says about itself."""
_SUCCESS = b'{"status":"success"'
Progress = Callable[[int, int], None]
"""Called with how many answers are there and how many there will be."""


def hold_in_memory(content: bytes) -> Body:
    """The simplest place for an answer's bytes."""
    return HeldBody(content=content)


class PrometheusClient:
    """Asks one Prometheus-compatible server (Prometheus, Thanos, Mimir, VictoriaMetrics).

    `read_secret` turns a reference into text on each use. Nothing is asked after `run_ends_s`, in the clock's own
    seconds. `keep` decides where an answer's bytes are kept. ConfigurationError for an invalid URL.
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
        judge = functools.partial(_judge, credential=_describe(settings))
        self._door = Door(self._limits, judge, advice=_ADVICE, clock=clock or Clock())

    def close(self) -> None:
        """Let go of the connections."""
        self._door.close()

    @property
    def requests_sent(self) -> int:
        """How many requests went out so far, retries and redirects included."""
        return self._door.requests_sent

    def ask(self, query: Query) -> Answer:
        """The answer to one question; FAILED or REFUSED with a reason for any fault outside."""
        return self._answer(query, [])

    def ask_time(self, cluster: str) -> Answer:
        """The time on the server: a scalar."""
        return self.ask(Query(cluster=cluster, quantity="time", text="time()", start_s=math.nan, end_s=math.nan))

    def ask_retention(self) -> str:
        """How long it keeps samples, in its own words (`15d or 10GiB`); empty where it does not say."""
        request = Request(method="GET", url=f"{self._root}/api/v1/status/runtimeinfo")
        response = self._door.ask(request, self._credentials)
        if isinstance(response, Failure):
            logger.debug("no retention: %s", response.error)
            return ""
        try:
            content = parse_json(response.content, most_values=_MAX_VALUES)
        except ValueError:
            return ""
        data = content.get("data") if isinstance(content, dict) else None
        kept = data.get("storageRetention") if isinstance(data, dict) else None
        return kept if isinstance(kept, str) else ""

    def ask_all(self, queries: Sequence[Query], progress: Progress | None = None) -> tuple[Answer, ...]:
        """The answers in the order of `queries`; once the server is plainly out of reach the rest fails at once."""
        outages: list[Failure] = []
        executor = ThreadPoolExecutor(max_workers=self._limits.parallel)
        futures = [executor.submit(self._answer, query, outages) for query in queries]
        try:
            if progress is not None:
                for done, _ in enumerate(as_completed(futures), start=1):
                    progress(done, len(futures))
            return tuple(future.result() for future in futures)
        finally:  # a run that is stopped waits for no server
            outages.append(Failure(kind=FailureKind.UNREACHABLE, error=TransientError("the run was stopped")))
            executor.shutdown(wait=False, cancel_futures=True)

    def _answer(self, query: Query, outages: list[Failure]) -> Answer:
        """`outages` collects why nothing more is worth asking: the first is the cause, later ones its echoes."""
        response = self._door.ask(
            self._request(query), self._credentials, given_up=lambda: outages[0] if outages else None
        )
        if isinstance(response, Failure):
            is_silence = response.kind is FailureKind.SILENT and not self._has_answered
            if response.kind in _SERVER_WIDE or is_silence:
                outages.append(response)
            logger.debug("%s %s failed: %s", query.cluster, query.quantity, response.error)
            status = AnswerStatus.REFUSED if response.kind in _CONFIGURED else AnswerStatus.FAILED
            return Answer(query=query, status=status, body=HeldBody(), reason=str(response.error))
        self._has_answered = True
        with self._lock:
            self._kept_bytes += len(response.content)
            is_over = self._kept_bytes > self._limits.kept_bytes
        if is_over:
            reason = f"{self._root}: the answers together are larger than {self._limits.kept_bytes} bytes"
            return Answer(query=query, status=AnswerStatus.FAILED, body=HeldBody(), reason=reason)
        # without the secrets that a server may echo in an error; a success stays as it is, as a tenant's name may be a
        # secret header and a label's value as well
        content = response.content
        if not content.lstrip().startswith(_SUCCESS):
            content = response.redactor.hide_bytes(content)
        return Answer(query=query, status=AnswerStatus.OK, body=self._keep(content))

    def _request(self, query: Query) -> Request:
        if query.step_s is None:
            form = {"query": query.text, **({} if math.isnan(query.end_s) else {"time": f"{query.end_s:.3f}"})}
            return Request(method="POST", url=f"{self._root}/api/v1/query", form=form)
        times = {"start": f"{query.start_s:.3f}", "end": f"{query.end_s:.3f}", "step": f"{query.step_s:.3f}"}
        return Request(method="POST", url=f"{self._root}/api/v1/query_range", form={"query": query.text, **times})
