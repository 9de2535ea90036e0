"""One HTTP exchange: redirects on the same origin only, a body read within its cap and its time."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from urllib.parse import SplitResult, urljoin, urlsplit

import requests
from requests.structures import CaseInsensitiveDict
from urllib3.exceptions import DecodeError, HTTPError, ReadTimeoutError

from reconciler.prometheus.bodies import read_capped
from reconciler.prometheus.credentials import Credentials
from reconciler.prometheus.faults import Fault, fault_of_error, silence
from reconciler.prometheus.limits import Limits

CHUNK_BYTES = 64 * 1024
REDIRECTS = frozenset({301, 302, 303, 307, 308})
SHOWN_CHARACTERS = 200
PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True, kw_only=True)
class Received:
    """A complete answer: its status, its headers and at most as many bytes as asked for."""

    status: int
    headers: Mapping[str, str]
    content: bytes


class KeepHeaders(requests.auth.AuthBase):
    """An auth that adds nothing: with none at all, requests would look into .netrc and the URL."""

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        """`request` as it is."""
        return request


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """Posts forms to one server; `deadline_s` is on the clock of `monotonic`."""

    session: requests.Session
    limits: Limits
    monotonic: Callable[[], float]
    count: Callable[[], None]

    def post(self, url: str, form: Mapping[str, str], credentials: Credentials, deadline_s: float) -> Received | Fault:
        """What came back from `url`, after redirects that stay on its origin."""
        for _ in range(self.limits.redirects + 1):
            received = self._post_once(url, form, credentials, deadline_s)
            if isinstance(received, Fault) or received.status not in REDIRECTS:
                return received
            target = _target(url, received.headers.get("Location", ""))
            if not target or origin_of(target) != origin_of(url):
                reason = (
                    f"{place_of(url)} redirects to another origin, {place_of(target)}: set the URL that answers itself"
                )
                return Fault(reason=reason, is_server_wide=True)
            url = target
        return Fault(reason=f"{place_of(url)}: more than {self.limits.redirects} redirects", is_server_wide=True)

    def _post_once(
        self, url: str, form: Mapping[str, str], credentials: Credentials, deadline_s: float
    ) -> Received | Fault:
        where = place_of(url)
        left_s = deadline_s - self.monotonic()
        if left_s <= 0:
            return silence(where)
        self.count()
        try:
            with self.session.post(
                url,
                data=dict(form),
                headers={"Accept": "application/json", "Accept-Encoding": "gzip", **credentials.headers},
                auth=KeepHeaders(),
                verify=credentials.ca or True,
                cert=(credentials.cert, credentials.key) if credentials.key else credentials.cert or None,
                timeout=(min(self.limits.connect_s, left_s), min(self.limits.read_s, left_s)),
                allow_redirects=False,
                stream=True,
            ) as response:
                return self._receive(response, where, deadline_s)
        except requests.exceptions.RequestException as error:
            if self.monotonic() >= deadline_s:
                return silence(where)
            return fault_of_error(error, where)
        except OSError:  # what requests raises for a PEM file that is not there
            reason = f"{where}: a PEM file cannot be read: are REQUESTS_CA_BUNDLE and prometheus.tls right?"
            return Fault(reason=reason, is_server_wide=True)

    def _receive(self, response: requests.Response, where: str, deadline_s: float) -> Received | Fault:
        ok = response.status_code == requests.codes.ok
        if ok and _is_foreign(response.headers):
            kind = _content_type(response.headers)
            reason = f"{where} answered {kind}, not a Prometheus API: is the URL's path prefix right?"
            return Fault(reason=reason, is_server_wide=True)
        cap = self.limits.body_bytes if ok else self.limits.error_bytes
        try:
            content = self._read(response, cap, deadline_s)
        except ReadTimeoutError:
            return silence(where)
        except DecodeError:
            return Fault(reason=f"{where}: the answer's compression is broken")
        except (HTTPError, OSError) as error:
            return Fault(reason=f"{where}: the answer broke off ({type(error).__name__})", is_recoverable=True)
        if content is None:
            return silence(where)
        if len(content) > cap and ok:
            reason = f"{where}: the answer is larger than {cap} bytes: does the query match other tenants' series?"
            return Fault(reason=reason)
        return Received(status=response.status_code, headers=response.headers, content=content[:cap])

    def _read(self, response: requests.Response, cap: int, deadline_s: float) -> bytes | None:
        # read1 returns what is there: a full chunk would be waited for, however slowly it drips
        chunks = iter(lambda: response.raw.read1(CHUNK_BYTES, decode_content=False) or b"", b"")
        encoding = response.headers.get("Content-Encoding", "").strip().lower()
        return read_capped(chunks, encoding, cap, lambda: self.monotonic() > deadline_s)


def origin_of(url: str) -> tuple[str, str, int | None]:
    """Scheme, host and port: what a credential was meant for."""
    parts = _split(url)
    return parts.scheme, parts.hostname or "", _port_of(parts)


def place_of(url: str) -> str:
    """The origin and path of `url` for people: no user, no query, nothing that hides."""
    parts = _split(url)
    port = _port_of(parts)
    shown = "" if port == PORTS.get(parts.scheme) else f":{port}"
    shown_url = f"{parts.scheme}://{parts.hostname or ''}{shown}{parts.path}"
    return shown_url[:SHOWN_CHARACTERS].encode("ascii", "replace").decode("ascii")


def _target(url: str, location: str) -> str:
    try:
        return urljoin(url, location)
    except ValueError:
        return ""


def _split(url: str) -> SplitResult:
    try:
        return urlsplit(url)
    except ValueError:
        return SplitResult("", "", "", "", "")


def _port_of(parts: SplitResult) -> int | None:
    try:
        return parts.port or PORTS.get(parts.scheme)
    except ValueError:
        return None


def _content_type(headers: CaseInsensitiveDict[str]) -> str:
    written = headers.get("Content-Type", "").split(";")[0].strip().lower()
    return written[:60].encode("ascii", "replace").decode("ascii")


def _is_foreign(headers: CaseInsensitiveDict[str]) -> bool:
    return _content_type(headers) not in ("", "application/json", "text/plain")
