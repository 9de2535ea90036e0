"""Trust: our CA bundle, the environment's, and a client certificate, on a real TLS port."""

import shutil
import ssl
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from reconciler.domain.answers import AnswerStatus, Query
from reconciler.domain.settings import PrometheusSettings, SecretRef, Tls
from reconciler.http.messages import Limits
from reconciler.prometheus.client import PrometheusClient

OPENSSL = shutil.which("openssl") or ""
EMPTY = b'{"status":"success","data":{"resultType":"vector","result":[]}}'

pytestmark = pytest.mark.skipif(not OPENSSL, reason="needs openssl to make a certificate")


@dataclass(frozen=True, slots=True)
class TlsServer:
    """Where it listens, and the PEM files of its own authority."""

    url: str
    certificate: str
    key: str


@pytest.fixture(scope="module")
def pem(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """A certificate for 127.0.0.1 that is its own authority, and its key."""
    directory = tmp_path_factory.mktemp("tls")
    certificate, key = str(directory / "cert.pem"), str(directory / "key.pem")
    made = ["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "36500"]
    names = ["-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"]
    subprocess.run([OPENSSL, *made, *names, "-keyout", key, "-out", certificate], check=True, capture_output=True)
    return certificate, key


@pytest.fixture
def server(pem: tuple[str, str], request: pytest.FixtureRequest) -> Iterator[TlsServer]:
    """A TLS server; with the parameter `mutual` it wants a client certificate."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(200)
            self.end_headers()
            self.wfile.write(EMPTY)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # the name is the library's
            """Say nothing."""

    class Quiet(ThreadingHTTPServer):
        def handle_error(self, request: object, client_address: object) -> None:
            """Say nothing of clients without trust."""

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*pem)
    if getattr(request, "param", "") == "mutual":
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(pem[0])
    listening = Quiet(("127.0.0.1", 0), Handler)
    listening.socket = context.wrap_socket(listening.socket, server_side=True)
    threading.Thread(target=listening.serve_forever, args=(0.01,), daemon=True).start()
    yield TlsServer(f"https://127.0.0.1:{listening.server_address[1]}", *pem)
    listening.shutdown()
    listening.server_close()


def ask(url: str, tls: Tls) -> tuple[AnswerStatus, str]:
    query = Query(cluster="prod", quantity="running", text="up", start_s=0.0, end_s=0.0)
    client = PrometheusClient(
        PrometheusSettings(url=url, tls=tls),
        lambda ref: Path(ref.file).read_text(encoding="utf-8"),
        limits=Limits(attempts=1),
    )
    answer = client.ask(query)
    return answer.status, answer.reason


def test_an_authority_that_nobody_named_is_not_trusted(server: TlsServer) -> None:
    status, reason = ask(server.url, Tls())
    assert status is AnswerStatus.REFUSED
    assert "prometheus.tls.ca" in reason


def test_the_configured_bundle_is_trusted_whatever_the_environment_says(
    server: TlsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", "/nonexistent")
    assert ask(server.url, Tls(ca=SecretRef(file=server.certificate)))[0] is AnswerStatus.OK


def test_the_bundle_of_the_environment_is_trusted(server: TlsServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", server.certificate)
    assert ask(server.url, Tls())[0] is AnswerStatus.OK


def test_a_bundle_that_is_none_is_a_fault_with_its_cause(server: TlsServer, tmp_path: Path) -> None:
    bundle = tmp_path / "ca.pem"
    bundle.write_text("nothing of that kind")
    status, reason = ask(server.url, Tls(ca=SecretRef(file=str(bundle))))
    assert status is AnswerStatus.REFUSED
    assert "prometheus.tls.ca" in reason


def test_a_bundle_that_is_not_there_is_a_fault(server: TlsServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", "/nonexistent")
    assert "REQUESTS_CA_BUNDLE" in ask(server.url, Tls())[1]


@pytest.mark.parametrize("server", ["mutual"], indirect=True)
def test_a_client_certificate_is_shown(server: TlsServer) -> None:
    ca, key = SecretRef(file=server.certificate), SecretRef(file=server.key)
    assert (
        ask(server.url, Tls(ca=ca))[0] is not AnswerStatus.OK
    )  # an alert or a broken connection, whichever comes first
    assert ask(server.url, Tls(ca=ca, cert=ca, key=key))[0] is AnswerStatus.OK
