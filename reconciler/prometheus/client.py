"""The client of one Prometheus: one question, or many at once."""

import functools
import logging
import math
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from dataclasses import replace

from reconciler.domain.json_text import parse_json
from reconciler.domain.measured.answers import Answer, AnswerStatus, Body, HeldBody, Query
from reconciler.domain.settings import PrometheusSettings
from reconciler.errors import TransientError
from reconciler.http.addresses import checked_root
from reconciler.http.door import Door
from reconciler.http.failures import Failure, FailureKind
from reconciler.http.limits import Clock, Limits
from reconciler.http.messages import Request, Response
from reconciler.prometheus.credentials import ReadSecret, describe, read_credentials
from reconciler.prometheus.refusals import ADVICE, SERVER_WIDE, judge

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
