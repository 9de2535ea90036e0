"""A git server over HTTP: `git http-backend` behind Python's http.server, with faults to switch on.

with serve_git(bare_repository, token="t0p") as server:
    clone_base(server.url, ...)
    server.fault = Fault.SERVER_ERROR
"""

import base64
import os
import shutil
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum, auto
from functools import cache
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit


class Fault(Enum):
    """What goes wrong; see `GitServer.fault`."""

    UNAUTHORIZED = auto()  # 401 also for the right token
    FORBIDDEN = auto()  # 403
    NOT_FOUND = auto()  # 404
    SERVER_ERROR = auto()  # 500
    HANG = auto()  # no answer until the server closes
    CUT = auto()  # the connection ends inside the answer
    LOST = auto()  # what was asked is done, and the connection ends without an answer


STATUS_OF = {
    Fault.UNAUTHORIZED: HTTPStatus.UNAUTHORIZED,
    Fault.FORBIDDEN: HTTPStatus.FORBIDDEN,
    Fault.NOT_FOUND: HTTPStatus.NOT_FOUND,
    Fault.SERVER_ERROR: HTTPStatus.INTERNAL_SERVER_ERROR,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class GitRequest:
    """What one request looked like."""

    method: str
    path: str
    authorization: str | None


@dataclass(kw_only=True)
class GitServer:
    """A running server; change `fault` and `redirect_to` at any time.

    `fault_on` limits both to requests whose path holds it: `git-receive-pack` is a push, `git-upload-pack` a fetch.
    `redirect_to` is another server's URL, answered with 302. `requests` grows with each request.
    """

    repository: Path
    root: Path
    url: str
    username: str
    token: str
    fault: Fault | None = None
    fault_on: str = ""
    redirect_to: str = ""
    requests: list[GitRequest] = field(default_factory=list)
    closing: threading.Event = field(default_factory=threading.Event)


@cache
def backend() -> str:
    """Where git has its HTTP backend: `git http-backend` is a process more for each request."""
    exec_path = subprocess.run(["git", "--exec-path"], capture_output=True, text=True, check=True).stdout.strip()
    return str(Path(exec_path, "git-http-backend"))


def is_available() -> bool:
    """Whether git brought its HTTP backend along."""
    return shutil.which("git") is not None and Path(backend()).exists()


@contextmanager
def serve_git(
    repository: Path, *, root: Path | None = None, username: str = "x-access-token", token: str = ""
) -> Iterator[GitServer]:
    """Serve one bare repository; with `token` only to who sends it, else to everybody, for reading and pushing.

    Its URL's path is its path below `root` (its own folder).
    """
    root = root or repository.parent
    with ThreadingHTTPServer(("127.0.0.1", 0), _GitHandler) as listener:
        listener.daemon_threads = False  # closing waits for them, so no socket is left behind
        url = f"http://127.0.0.1:{listener.server_port}/{repository.relative_to(root)}"
        server = GitServer(repository=repository, root=root, url=url, username=username, token=token)
        listener.git = server  # type: ignore[attr-defined]  # how http.server hands values to its handlers
        thread = threading.Thread(target=listener.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server
        finally:
            server.closing.set()
            listener.shutdown()
            thread.join()


class _GitHandler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # header and body are two writes: the second would wait 40 ms

    @property
    def git(self) -> GitServer:
        server: GitServer = self.server.git  # type: ignore[attr-defined]  # set by `serve_git`
        return server

    def do_GET(self) -> None:
        self._answer()

    def do_POST(self) -> None:
        self._answer()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # the name is http.server's
        """Keep quiet."""

    def _answer(self) -> None:
        authorization = self.headers.get("Authorization")
        self.git.requests.append(GitRequest(method=self.command, path=self.path, authorization=authorization))
        body = self._read_body()
        selected = self.git.fault_on in self.path
        if selected and self.git.redirect_to:
            target = self.git.redirect_to + self.path.removeprefix(f"/{self.git.repository.relative_to(self.git.root)}")
            self._send(HTTPStatus.FOUND, [("Location", target)], b"")
        elif selected and self.git.fault is Fault.LOST:
            self._run_backend(body)
            self.close_connection = True
        elif selected and self.git.fault is not None:
            self._fail(self.git.fault)
        elif self.git.token and authorization != self._expected():
            self._send(HTTPStatus.UNAUTHORIZED, [("WWW-Authenticate", 'Basic realm="git"')], b"")
        else:
            self._send(*self._run_backend(body))

    def _fail(self, fault: Fault) -> None:
        if fault in STATUS_OF:
            self._send(STATUS_OF[fault], [], b"")
            return
        self.close_connection = True
        if fault is Fault.HANG:
            self.git.closing.wait()
            return
        self.send_response(HTTPStatus.OK)
        self.send_header("Content-Type", "application/x-git-upload-pack-advertisement")
        self.send_header("Content-Length", "1000")
        self.end_headers()
        self.wfile.write(b"001e# service=git-upl")

    def _expected(self) -> str:
        pair = f"{self.git.username}:{self.git.token}"
        return f"Basic {base64.b64encode(pair.encode()).decode()}"

    def _read_body(self) -> bytes:
        if self.headers.get("Transfer-Encoding", "").lower() != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length", 0)))
        pieces = []
        while size := int(self.rfile.readline().split(b";")[0], 16):
            pieces.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(pieces)

    def _run_backend(self, body: bytes) -> tuple[int, list[tuple[str, str]], bytes]:
        answer = subprocess.run([backend()], input=body, capture_output=True, env=self._backend_environment(len(body)))
        head, _, content = answer.stdout.partition(b"\r\n\r\n")
        pairs = [line.partition(": ") for line in head.decode("latin-1").split("\r\n") if line]
        headers = [(name, value) for name, _, value in pairs if name != "Status"]
        status = next((int(value.split()[0]) for name, _, value in pairs if name == "Status"), 200)
        return status, headers, content

    def _backend_environment(self, length: int) -> dict[str, str]:
        address = urlsplit(self.path)
        return {
            "PATH": os.environ["PATH"],
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_CONFIG_COUNT": "2",
            "GIT_CONFIG_KEY_0": "http.receivepack",
            "GIT_CONFIG_VALUE_0": "true",
            "GIT_CONFIG_KEY_1": "safe.directory",
            "GIT_CONFIG_VALUE_1": "*",
            "GIT_PROJECT_ROOT": str(self.git.root),
            "GIT_HTTP_EXPORT_ALL": "1",
            "GIT_PROTOCOL": self.headers.get("Git-Protocol", ""),
            "REQUEST_METHOD": self.command,
            "PATH_INFO": address.path,
            "QUERY_STRING": address.query,
            "CONTENT_TYPE": self.headers.get("Content-Type", ""),
            "CONTENT_LENGTH": str(length),
            "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
            "REMOTE_ADDR": "127.0.0.1",
        }

    def _send(self, status: int, headers: list[tuple[str, str]], body: bytes) -> None:
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
