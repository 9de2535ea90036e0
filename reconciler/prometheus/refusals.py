"""What an answer of Prometheus means that holds no result, and what to do about it."""

import json

from reconciler.http.failures import Advice, Failure, FailureKind, FailurePlace
from reconciler.http.messages import Response

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
