"""A Prometheus of a few lines that misbehaves on demand, on a real port."""

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Protocol
from urllib.parse import parse_qs

import pytest

from reconciler.domain.answers import Query
from reconciler.domain.settings import PrometheusSettings, SecretRef
from reconciler.errors import ConfigurationError
from reconciler.prometheus import Limits, PrometheusClient

EMPTY = b'{"status":"success","data":{"resultType":"vector","result":[]}}'
Respond = Callable[[BaseHTTPRequestHandler], None]


@dataclass(frozen=True, slots=True)
class Seen:
    """A request as it arrived."""

    path: str
    headers: dict[str, str]
    form: dict[str, list[str]]


@dataclass(slots=True)
class Server:
    """Answers every POST with `respond` and remembers what was asked."""

    url: str
    respond: Respond
    seen: list[Seen] = field(default_factory=list)


def reply(body: bytes = EMPTY, status: int = 200, content_type: str = "application/json", **headers: str) -> Respond:
    """An answer that is complete at once; `Retry_After` stands for the header Retry-After."""

    def respond(request: BaseHTTPRequestHandler) -> None:
        request.send_response(status)
        request.send_header("Content-Type", content_type)
        request.send_header("Content-Length", str(len(body)))
        for name, value in headers.items():
            request.send_header(name.replace("_", "-"), value)
        request.end_headers()
        request.wfile.write(body)

    return respond


class Quiet(ThreadingHTTPServer):
    """Says nothing of clients that leave early: they are what is tested."""

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing."""


class Serve(Protocol):
    """Starts a server."""

    def __call__(self, respond: Respond = ...) -> Server: ...


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of this machine's network settings reaches a test."""
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1,localhost")


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Start as many servers as the test needs; all end with it."""
    running: list[ThreadingHTTPServer] = []

    def start(respond: Respond = reply()) -> Server:  # noqa: B008  # an immutable function
        server = Server(url="", respond=respond)

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", "0"))).decode()
                server.seen.append(Seen(self.path, dict(self.headers.items()), parse_qs(body)))
                try:
                    server.respond(self)
                except OSError:
                    self.close_connection = True

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # the name is the library's
                """Say nothing."""

        listening = Quiet(("127.0.0.1", 0), Handler)
        listening.daemon_threads = True
        listening.block_on_close = False
        running.append(listening)
        threading.Thread(target=listening.serve_forever, args=(0.01,), daemon=True).start()
        server.url = f"http://127.0.0.1:{listening.server_address[1]}"
        return server

    yield start
    for listening in running:
        listening.shutdown()
        listening.server_close()


@dataclass(slots=True)
class Clock:
    """Time that passes only when somebody sleeps."""

    now_s: float = 0.0
    slept: list[float] = field(default_factory=list)

    def sleep(self, seconds: float) -> None:
        """Let `seconds` pass."""
        self.slept.append(seconds)
        self.now_s += seconds

    def monotonic(self) -> float:
        """The time."""
        return self.now_s


@pytest.fixture
def clock() -> Clock:
    """A clock at zero."""
    return Clock()


class Connect(Protocol):
    """Makes a client."""

    def __call__(
        self, settings: PrometheusSettings | str, *, limits: Limits | None = ..., secrets: dict[str, str] | None = ...
    ) -> PrometheusClient: ...


@pytest.fixture
def connect(clock: Clock) -> Connect:
    """A client on the test's clock; `secrets` maps environment names to what they hold."""

    def make(
        settings: PrometheusSettings | str, *, limits: Limits | None = None, secrets: dict[str, str] | None = None
    ) -> PrometheusClient:
        def read_secret(ref: SecretRef) -> str:
            held = secrets or {}
            if ref.env not in held and not ref.file:
                raise ConfigurationError(f"{ref} is not set")
            return held.get(ref.env, "PEM")

        if isinstance(settings, str):
            settings = PrometheusSettings(url=settings)
        return PrometheusClient(settings, read_secret, limits=limits, sleep=clock.sleep, monotonic=clock.monotonic)

    return make


@pytest.fixture
def query() -> Query:
    """An instant query."""
    return Query(cluster="prod", quantity="running", text='up{a="b"}', start_s=1000.0, end_s=1000.0)


@pytest.fixture
def replying() -> Callable[..., Respond]:
    """`reply`, for tests that script several answers."""
    return reply
