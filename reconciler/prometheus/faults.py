"""What can go wrong between us and a Prometheus, each in one sentence: what, where, what to do."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from http import HTTPStatus

import requests
from urllib3.exceptions import NewConnectionError

RECOVERABLE = frozenset({429, 500, 502, 503, 504})
REFUSED = frozenset({HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN})
QUOTED_CHARACTERS = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """Why an attempt brought nothing. `is_recoverable`: asking again may help.

    `is_server_wide`: no other question to this server will fare better; `is_silence`: nor will it when none was ever
    answered. `retry_after_s` is what the server asks for.
    """

    reason: str
    is_recoverable: bool = False
    is_server_wide: bool = False
    is_silence: bool = False
    retry_after_s: float | None = None


def fault_of_error(error: Exception, where: str) -> Fault:
    """The fault behind an exception of requests; its own text is not repeated, it may hold what was sent."""
    if isinstance(error, requests.exceptions.SSLError):
        reason = (
            f"{where}: no trust in the connection ({_cause(error)}): set prometheus.tls.ca, or tls.cert and tls.key"
        )
        return Fault(reason=reason, is_server_wide=True)
    if isinstance(error, requests.exceptions.ProxyError):
        reason = f"{where}: the proxy of HTTPS_PROXY or HTTP_PROXY did not connect ({_cause(error)})"
        return Fault(reason=reason, is_recoverable=True, is_server_wide=True)
    if isinstance(error, requests.exceptions.ConnectTimeout):
        reason = f"{where}: no connection in time: is the address right, and does a firewall let it through?"
        return Fault(reason=reason, is_recoverable=True, is_server_wide=True)
    if isinstance(error, requests.exceptions.ReadTimeout):
        return silence(where)
    if isinstance(error, requests.exceptions.ConnectionError):
        reason = f"{where}: no connection ({_cause(error)}): is the address right, and is the server up?"
        never_connected = any(isinstance(link, NewConnectionError) for link in _chain(error))
        return Fault(reason=reason, is_recoverable=True, is_server_wide=never_connected)
    # requests marks as ValueError what is wrong with the request itself
    is_recoverable = not isinstance(error, ValueError)
    return Fault(reason=f"{where}: the request failed ({type(error).__name__})", is_recoverable=is_recoverable)


def silence(where: str) -> Fault:
    """A server that is reached and does not answer in time; asking the same again would take as long."""
    reason = f"{where}: no complete answer in time: is the server overloaded? Its query log says what it works on"
    return Fault(reason=reason, is_silence=True)


def fault_of_status(status: int, said: str, where: str, credential: str) -> Fault:
    """The fault behind an HTTP status; `said` is what the server said in its own words, already without secrets."""
    words = f" ({said[:QUOTED_CHARACTERS]})" if said else ""
    if status in REFUSED:
        refused = f"{credential} was refused" if credential else "it wants a credential: set prometheus.bearerToken"
        return Fault(reason=f"{where}: {status}, {refused}{words}", is_server_wide=True)
    if status == HTTPStatus.NOT_FOUND:
        return Fault(
            reason=f"{where}: 404, no Prometheus API there: is the URL's path prefix right?", is_server_wide=True
        )
    return Fault(reason=f"{where}: {status}{words}", is_recoverable=status in RECOVERABLE)


def said_by(body: bytes) -> str:
    """The error text of a Prometheus answer; empty when it is none."""
    try:
        document = json.loads(body)
    except (ValueError, RecursionError):
        return ""
    text = document.get("error") if isinstance(document, dict) else None
    return text if isinstance(text, str) else ""


def _chain(error: BaseException) -> Iterator[BaseException]:
    """`error` and what it wraps, outermost first: the libraries use arguments, `reason` and causes alike."""
    seen: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        yield current
        reason = getattr(current, "reason", None)
        arguments = [part for part in (reason, *current.args) if isinstance(part, BaseException)]
        current = arguments[0] if arguments else current.__cause__ or current.__context__


def _cause(error: BaseException) -> str:
    """The operating system's or TLS library's own short words, from the innermost exception that has some."""
    links = list(_chain(error))
    words = [link.strerror for link in links if isinstance(link, OSError) and link.strerror]
    return words[-1] if words else type(links[-1]).__name__
