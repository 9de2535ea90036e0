"""The door: one question to a server, with its redirects, its retries and one deadline for all of it."""

import logging
import threading
from collections.abc import Callable
from dataclasses import replace

from reconciler.http.addresses import place_of, same_origin
from reconciler.http.connections import open_session
from reconciler.http.exchange import exchange
from reconciler.http.failures import Advice, Failure, FailureKind, FailurePlace
from reconciler.http.limits import Clock, Limits
from reconciler.http.messages import Credentials, Request, Response
from reconciler.http.redaction import take_over_library_logs
from reconciler.http.traffic import TRAFFIC

logger = logging.getLogger(__name__)

REDIRECTS = frozenset({301, 302, 303, 307, 308})

Judge = Callable[[Response, FailurePlace], Failure | None]
"""Says what is wrong with an answer; None: it can be used."""


class Door:
    """Asks one server; may be used by several threads.

    `judge` knows what the server's answers mean, `advice` what to do about a failure where the usual words do not fit.
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
        """How many requests went out so far, retries and redirects included."""
        return self._requests_sent

    def close(self) -> None:
        """Let go of the connections: a server takes only so many, and the collector may never see this door."""
        self._session.close()

    def ask(
        self,
        request: Request,
        credentials: Callable[[], Credentials],
        *,
        given_up: Callable[[], Failure | None] = lambda: None,
    ) -> Response | Failure:
        """The answer, or why there is none after all attempts.

        `credentials` are read anew for each attempt, and their errors are raised. `given_up` says why no attempt is
        worth making any more.
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
            pause_s = self._pause_s(attempt, answer.wait_s)
            if self._clock.monotonic() + pause_s >= deadline_s:
                return answer
            logger.info("%s; trying again in %.1f s", answer.error, pause_s)
            self._clock.sleep(pause_s)
            attempt += 1

    def _pause_s(self, attempt: int, wait_s: float) -> float:
        backoff_s: float = self._limits.backoff_s * 2 ** (attempt - 1)
        return max(backoff_s, min(wait_s, self._limits.retry_after_s))

    def _attempt(self, request: Request, credentials: Credentials, deadline_s: float) -> Response | Failure:
        for _ in range(self._limits.redirects + 1):
            place = self._place(request, credentials)
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
            asked = place.redactor.show(str(request.form or request.query or ""))
            logger.debug("%s %s %s: %s in %.2f s", request.method, place.where, asked, _summary(answer), took_s)
        return answer

    def _place(self, request: Request, credentials: Credentials) -> FailurePlace:
        return FailurePlace(
            action=request.action,
            address=credentials.redactor.show(place_of(request.url)),
            advice=self._advice,
            redactor=credentials.redactor,
        )


def _summary(answer: Response | Failure) -> str:
    if isinstance(answer, Failure):
        return answer.kind.value
    return f"status {answer.status}, {len(answer.content)} bytes"
