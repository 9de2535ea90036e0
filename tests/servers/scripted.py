"""An HTTP server of a few lines that does what a test tells it to, on a real port of 127.0.0.1."""

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs

from reconciler.http.messages import Clock

Respond = Callable[[BaseHTTPRequestHandler], None]


@dataclass(frozen=True, slots=True)
class Seen:
    """A request as it arrived."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def form(self) -> dict[str, list[str]]:
        """Its body as an HTML form."""
        return parse_qs(self.body.decode())


@dataclass(slots=True)
class ScriptedServer:
    """Answers every request with `respond` and remembers what was asked."""

    url: str
    respond: Respond
    seen: list[Seen] = field(default_factory=list)


def reply(
    body: bytes = b"{}", status: int = 200, content_type: str = "application/json", **headers: str | int
) -> Respond:
    """An answer that is complete at once; `Retry_After` stands for the header Retry-After."""
    given = {name.replace("_", "-"): str(value) for name, value in headers.items()}
    return send(status, {"Content-Type": content_type, "Content-Length": str(len(body)), **given}, body)


def send(status: int, headers: Mapping[str, str], body: bytes) -> Respond:
    """Exactly these headers and bytes; the connection ends with them."""

    def respond(request: BaseHTTPRequestHandler) -> None:
        request.send_response(status)
        for name, value in headers.items():
            request.send_header(name, value)
        request.end_headers()
        request.wfile.write(body)
        request.close_connection = headers.get("Content-Length") != str(len(body))

    return respond


def send_raw(content: bytes) -> Respond:
    """Bytes that may be no HTTP at all, and the end of the connection."""

    def respond(request: BaseHTTPRequestHandler) -> None:
        request.wfile.write(content)
        request.close_connection = True

    return respond


def in_turn(*responds: Respond) -> Respond:
    """One answer after the other; the last one stays."""
    left = list(responds)
    return lambda request: (left.pop(0) if len(left) > 1 else left[0])(request)


class SteppedClock(Clock):
    """Time that passes only when somebody sleeps; `start_s` is when it began, in Unix seconds."""

    def __init__(self, start_s: float = 0.0) -> None:
        self.start_s = start_s
        self.time_s = 0.0
        self.slept: list[float] = []

    def monotonic(self) -> float:
        """The time."""
        return self.time_s

    def now_s(self) -> float:
        """The same in Unix seconds."""
        return self.start_s + self.time_s

    def sleep(self, seconds: float) -> None:
        """Let `seconds` pass."""
        self.slept.append(seconds)
        self.time_s += seconds


class _Quiet(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing of clients that leave early: they are what is tested."""


@contextmanager
def serve_script(respond: Respond) -> Iterator[ScriptedServer]:
    """A running server."""
    server = ScriptedServer(url="", respond=respond)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True  # header and body are two writes: the second would wait 40 ms

        def do_GET(self) -> None:
            self._answer()

        def do_POST(self) -> None:
            self._answer()

        def do_PATCH(self) -> None:
            self._answer()

        def _answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
            server.seen.append(Seen(self.command, self.path, dict(self.headers.items()), body))
            try:
                server.respond(self)
            except OSError:
                self.close_connection = True

        def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002  # the name is the library's
            """Say nothing."""

    with _Quiet(("127.0.0.1", 0), Handler) as listening:
        threading.Thread(target=listening.serve_forever, args=(0.01,), daemon=True).start()
        server.url = f"http://127.0.0.1:{listening.server_address[1]}"
        try:
            yield server
        finally:
            listening.shutdown()
