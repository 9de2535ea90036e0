"""A Prometheus between us and the real one that changes, delays or replaces its answers."""

import contextlib
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.request import ProxyHandler, build_opener  # noqa: TID251  # a server of the tests, not the product

Change = Callable[[bytes], bytes]


@dataclass(kw_only=True)
class Tampering:
    """A running server; `change` gets each true answer, `hangs` and `streams_bytes` give none or a giant one."""

    url: str
    change: Change = bytes
    hangs: bool = False
    streams_bytes: int = 0
    sent_bytes: int = 0
    authorizations: list[str | None] = field(default_factory=list)
    closing: threading.Event = field(default_factory=threading.Event)


@contextmanager
def tamper_with(prometheus: str) -> Iterator[Tampering]:
    """Stand before the Prometheus at a base URL."""
    tampering = Tampering(url="")

    class Connection(_Connection):
        state = tampering
        source = prometheus

    with _Quiet(("127.0.0.1", 0), Connection) as server:
        server.daemon_threads = True
        server.block_on_close = False
        tampering.url = f"http://127.0.0.1:{server.server_address[1]}"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        try:
            yield tampering
        finally:
            tampering.closing.set()
            server.shutdown()
            thread.join()


class _Quiet(ThreadingHTTPServer):
    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing of clients that leave early: they are what is tested."""


class _Connection(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # header and body are two writes: the second would wait 40 ms
    state: Tampering
    source: str

    def do_POST(self) -> None:
        form = self.rfile.read(int(self.headers.get("Content-Length", "0")))
        self.state.authorizations.append(self.headers.get("Authorization"))
        if self.state.hangs:
            self.close_connection = True
            self.state.closing.wait()
        elif self.state.streams_bytes:
            self._stream()
        else:
            self._send(self.state.change(self._truth(form)))

    def do_GET(self) -> None:
        self._send(self.state.change(self._truth(None)))

    def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002  # the name is http.server's
        """Keep quiet."""

    def _truth(self, form: bytes | None) -> bytes:
        opener = build_opener(ProxyHandler({}))
        with opener.open(f"{self.source}{self.path}", data=form, timeout=30) as answer:
            return bytes(answer.read())

    def _send(self, body: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _stream(self) -> None:
        self.close_connection = True
        self.send_response(200)
        self.send_header("Content-Length", str(self.state.streams_bytes))
        self.end_headers()
        piece = b'{"status":"success","padding":"' + b"x" * 65536
        with contextlib.suppress(OSError):
            for _ in range(self.state.streams_bytes // len(piece)):
                self.wfile.write(piece)
                self.state.sent_bytes += len(piece)
