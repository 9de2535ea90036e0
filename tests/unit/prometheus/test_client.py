"""What the client asks, and what it makes of every way of not being answered."""

import base64
import gzip
import itertools
import logging
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

from reconciler.domain.answers import Answer, AnswerStatus, Query
from reconciler.domain.settings import BasicAuth, PrometheusSettings, SecretRef, Tls
from reconciler.errors import ConfigurationError
from reconciler.http.messages import Limits
from reconciler.prometheus.client import PrometheusClient
from tests.servers.scripted import Respond, in_turn, reply

QUERY = Query(cluster="prod", quantity="running", text='up{a="b"}', start_s=1000.0, end_s=1000.0)

CANARY = "canary-7f3a9c"
TOKEN = SecretRef(env="RECONCILER_TOKEN")
SECRETS = {"RECONCILER_TOKEN": CANARY}
EMPTY = b'{"status":"success","data":{"resultType":"vector","result":[]}}'


def replying(body: bytes = EMPTY, *others: Any, **headers: Any) -> Respond:
    return reply(body, *others, **headers)


def failed(answer: Answer) -> str:
    assert answer.status is not AnswerStatus.OK
    assert answer.body.read() == b""
    return answer.reason


def test_an_instant_query_is_a_form_with_its_time(serve: Any, connect: Any) -> None:
    server = serve()
    answer = connect(f"{server.url}/prefix/").ask(QUERY)
    assert (answer.status, answer.body.read()) == (AnswerStatus.OK, EMPTY)
    assert server.seen[0].path == "/prefix/api/v1/query"
    assert server.seen[0].form == {"query": ['up{a="b"}'], "time": ["1000.000"]}


def test_what_time_it_is_there_is_asked_without_a_time(serve: Any, connect: Any) -> None:
    server = serve()
    answer = connect(server.url).ask_time("prod")
    assert (answer.status, answer.query.cluster) == (AnswerStatus.OK, "prod")
    assert server.seen[0].form == {"query": ["time()"]}


def test_a_range_query_has_start_end_and_step(serve: Any, connect: Any) -> None:
    server = serve()
    connect(server.url).ask(replace(QUERY, end_s=4600.0, step_s=60.0))
    assert server.seen[0].path == "/api/v1/query_range"
    form = server.seen[0].form
    assert (form["start"], form["end"], form["step"]) == (["1000.000"], ["4600.000"], ["60.000"])


def test_credentials_and_headers_arrive_and_are_read_anew(serve: Any, connect: Any) -> None:
    server = serve()
    secrets = {"RECONCILER_TOKEN": "first\n", "RECONCILER_TENANT": "llm"}
    headers: dict[str, str | SecretRef] = {"X-Scope-OrgID": SecretRef(env="RECONCILER_TENANT"), "X-Team": "a"}
    client = connect(PrometheusSettings(url=server.url, bearer_token=TOKEN, headers=headers), secrets=secrets)
    client.ask(QUERY)
    secrets["RECONCILER_TOKEN"] = "second"
    client.ask(QUERY)
    sent = [seen.headers for seen in server.seen]
    assert [headers["Authorization"] for headers in sent] == ["Bearer first", "Bearer second"]
    assert (sent[0]["X-Scope-OrgID"], sent[0]["X-Team"]) == ("llm", "a")


def test_basic_auth_is_sent(serve: Any, connect: Any) -> None:
    server = serve()
    auth = BasicAuth(username="me", password=TOKEN)
    connect(PrometheusSettings(url=server.url, basic_auth=auth), secrets=SECRETS).ask(QUERY)
    expected = base64.b64encode(f"me:{CANARY}".encode()).decode()
    assert server.seen[0].headers["Authorization"] == f"Basic {expected}"


def test_netrc_is_never_used(serve: Any, connect: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    netrc = tmp_path / "netrc"
    netrc.write_text(f"machine 127.0.0.1 login me password {CANARY}\n")
    netrc.chmod(0o600)
    monkeypatch.setenv("NETRC", str(netrc))
    server = serve()
    connect(server.url).ask(QUERY)
    assert "Authorization" not in server.seen[0].headers


def test_a_proxy_from_the_environment_is_used_unless_excepted(
    serve: Any, connect: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    proxy, server = serve(), serve()
    monkeypatch.setenv("HTTP_PROXY", proxy.url)
    connect(server.url).ask(QUERY)
    assert (len(proxy.seen), len(server.seen)) == (0, 1)
    monkeypatch.setenv("NO_PROXY", "elsewhere")
    connect(server.url).ask(QUERY)
    assert proxy.seen[0].path == f"{server.url}/api/v1/query"


def test_a_missing_secret_is_a_wrong_configuration(serve: Any, connect: Any) -> None:
    client = connect(PrometheusSettings(url=serve().url, bearer_token=TOKEN))
    with pytest.raises(ConfigurationError, match="environment variable RECONCILER_TOKEN"):
        client.ask(QUERY)
    with pytest.raises(ConfigurationError, match="environment variable RECONCILER_TOKEN"):
        client.ask_all([QUERY, QUERY])


@pytest.mark.parametrize("text", ["", "  \n", "two\r\nX-Evil: 1", f"{CANARY}\x00", "ключ"])
def test_a_secret_that_cannot_be_sent_is_refused_without_its_text(serve: Any, connect: Any, text: str) -> None:
    settings = PrometheusSettings(url=serve().url, bearer_token=TOKEN)
    with pytest.raises(ConfigurationError) as refused:
        connect(settings, secrets={"RECONCILER_TOKEN": text}).ask(QUERY)
    assert "bearerToken" in str(refused.value)
    assert CANARY not in str(refused.value)


@pytest.mark.parametrize(
    ("url", "said"),
    [
        (f"http://me:{CANARY}@prom:9090", "holds a user name or password"),
        ("prom:9090", "begins with http"),
        ("file:///etc/passwd", "begins with http"),
        ("http://prom/?x=1", "expected a URL with"),
        ("http://prom:port", "expected a URL like"),
        ("http://[", "expected a URL like"),
    ],
)
def test_a_url_that_no_request_can_go_to_is_refused(connect: Any, url: str, said: str) -> None:
    with pytest.raises(ConfigurationError, match=said) as refused:
        connect(url)
    assert CANARY not in str(refused.value)


def test_an_encrypted_key_is_refused_before_a_password_is_asked_for() -> None:
    key = SecretRef(env="", file="key.pem")
    settings = PrometheusSettings(url="https://127.0.0.1:1", tls=Tls(cert=key, key=key))
    client = PrometheusClient(settings, lambda _: "-----BEGIN ENCRYPTED PRIVATE KEY-----")
    with pytest.raises(ConfigurationError, match="without a password"):
        client.ask(QUERY)


@pytest.mark.parametrize("field", ["ca", "cert", "key"])
def test_a_certificate_must_be_a_file(connect: Any, field: str) -> None:
    settings = PrometheusSettings(url="https://127.0.0.1:1", tls=Tls(**{field: TOKEN}))
    with pytest.raises(ConfigurationError, match=rf"tls\.{field}"):
        connect(settings, secrets=SECRETS).ask(QUERY)


@pytest.mark.parametrize("status", [429, 500, 502, 503, 504])
def test_what_may_recover_is_asked_again_with_growing_pauses(serve: Any, connect: Any, clock: Any, status: int) -> None:
    server = serve(replying(b"{}", status))
    client = connect(server.url)
    assert str(status) in failed(client.ask(QUERY))
    assert clock.slept == [0.5, 1.0, 2.0]
    assert client.requests_sent == len(server.seen) == 4


def test_an_answer_after_a_fault_is_an_answer(serve: Any, connect: Any, clock: Any) -> None:
    script = [replying(b"", 503, Retry_After="7"), replying(b"", 429, Retry_After="86400"), replying()]
    server = serve(lambda request: script.pop(0)(request))
    assert connect(server.url).ask(QUERY).status is AnswerStatus.OK
    assert clock.slept == [7.0, 20.0]


@pytest.mark.parametrize("status", [400, 401, 403, 404, 405, 418, 422])
def test_what_will_not_recover_is_asked_once(serve: Any, connect: Any, clock: Any, status: int) -> None:
    server = serve(replying(b'{"status":"error","error":"parse error at char 7"}', status))
    reason = failed(connect(server.url).ask(QUERY))
    assert f"{server.url}/api/v1/query: {status}" in reason
    assert len(server.seen) == 1
    assert clock.slept == []
    assert status == 404 or "parse error at char 7" in reason


def test_a_refusal_names_the_credential_and_spares_the_other_questions(serve: Any, connect: Any) -> None:
    server = serve(replying(b"", 401))
    settings = PrometheusSettings(url=server.url, bearer_token=TOKEN)
    answers = connect(settings, limits=Limits(parallel=1), secrets=SECRETS).ask_all([QUERY] * 5)
    assert {answer.status for answer in answers} == {AnswerStatus.REFUSED}
    assert {failed(answer) for answer in answers} == {
        f"{server.url}/api/v1/query: 401, the token in environment variable RECONCILER_TOKEN was refused"
    }
    assert len(server.seen) == 1


def test_a_secret_is_in_no_reason_and_no_log_even_when_the_server_repeats_it(
    serve: Any, connect: Any, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    said = ("x" * 290 + f"Bearer {CANARY}").encode()
    server = serve(replying(b'{"error":"' + said + b'"}', 403, Location=CANARY))
    settings = PrometheusSettings(url=server.url, bearer_token=TOKEN, headers={"X-A": TOKEN})
    reason = failed(connect(settings, secrets=SECRETS).ask(QUERY))
    assert "403" in reason
    assert CANARY[:8] not in reason
    assert "/api/v1/query {" in caplog.text
    assert "prod running failed" in caplog.text
    assert CANARY not in caplog.text


def test_a_redirect_on_the_same_origin_is_followed(serve: Any, connect: Any) -> None:
    script = [replying(b"", 308, Location="/prometheus/api/v1/query"), replying()]
    server = serve(lambda request: script.pop(0)(request))
    settings = PrometheusSettings(url=server.url, bearer_token=TOKEN)
    assert connect(settings, secrets=SECRETS).ask(QUERY).status is AnswerStatus.OK
    assert server.seen[1].path == "/prometheus/api/v1/query"
    assert server.seen[1].form == server.seen[0].form
    assert server.seen[1].headers["Authorization"] == f"Bearer {CANARY}"


def test_a_redirect_to_another_origin_gets_nothing(serve: Any, connect: Any) -> None:
    other = serve()
    for location in (
        f"{other.url}/api/v1/query",
        other.url.replace("http:", ""),
        "https://127.0.0.1/login?a=b",
        "http://[",
    ):
        server = serve(replying(b"", 307, Location=location))
        settings = PrometheusSettings(url=server.url, bearer_token=TOKEN)
        reason = failed(connect(settings, secrets=SECRETS).ask(QUERY))
        assert "redirects to another origin" in reason
        assert "a=b" not in reason
    assert other.seen == []


def test_redirects_in_a_circle_end(serve: Any, connect: Any) -> None:
    server = serve(replying(b"", 302, Location="/again"))
    assert "redirects" in failed(connect(server.url).ask(QUERY))
    assert len(server.seen) == 6


def test_a_page_is_no_answer(serve: Any, connect: Any) -> None:
    server = serve(replying(b"<html>Sign in</html>", 200, "text/html; charset=utf-8"))
    reason = failed(connect(server.url).ask(QUERY))
    assert "answered text/html, not a Prometheus API: is the URL's path prefix right?" in reason


@pytest.mark.parametrize("body", [b"", b"[]", b"null", b"OK", b"\x00\xff"])
def test_what_is_no_object_is_no_answer(serve: Any, connect: Any, body: bytes) -> None:
    assert "no JSON object" in failed(connect(serve(replying(body)).url).ask(QUERY))


def stream_zeros(total_bytes: int, sent: list[int], status: int = 200) -> Callable[[BaseHTTPRequestHandler], None]:
    def respond(request: BaseHTTPRequestHandler) -> None:
        request.send_response(status)
        request.send_header("Content-Type", "application/json")
        request.send_header("Location", "/again")
        request.send_header("Connection", "close")
        request.end_headers()
        block = bytes(1024 * 1024)
        for _ in range(total_bytes // len(block)):
            request.wfile.write(block)
            sent.append(len(block))

    return respond


@pytest.mark.parametrize("status", [302, 400])
def test_a_fault_of_200_mb_is_stopped_early(serve: Any, connect: Any, status: int) -> None:
    sent: list[int] = []
    failed(connect(serve(stream_zeros(200 * 1024 * 1024, sent, status)).url).ask(QUERY))
    assert sum(sent) < 150 * 1024 * 1024


def test_an_answer_of_200_mb_is_stopped_early(serve: Any, connect: Any) -> None:
    sent: list[int] = []
    server = serve(stream_zeros(200 * 1024 * 1024, sent))
    reason = failed(connect(server.url, limits=Limits(body_bytes=2 * 1024 * 1024)).ask(QUERY))
    assert "larger than 2097152 bytes" in reason
    assert sum(sent) < 100 * 1024 * 1024


def test_a_compression_bomb_is_counted_after_decompression(serve: Any, connect: Any) -> None:
    bomb = gzip.compress(b"{" + bytes(50_000_000))
    assert len(bomb) < 100_000
    server = serve(replying(bomb, Content_Encoding="gzip"))
    assert "larger than" in failed(connect(server.url, limits=Limits(body_bytes=1_000_000)).ask(QUERY))


def test_answers_that_are_too_large_together_fail_from_there_on(serve: Any, connect: Any) -> None:
    server = serve(replying(EMPTY))
    answers = connect(server.url, limits=Limits(kept_bytes=2 * len(EMPTY))).ask_all([QUERY] * 5)
    assert [answer.status for answer in answers].count(AnswerStatus.OK) == 2
    reasons = {answer.reason for answer in answers if answer.status is AnswerStatus.FAILED}
    assert reasons == {f"{server.url}: the answers together are larger than {2 * len(EMPTY)} bytes"}


def test_a_compressed_answer_is_read(serve: Any, connect: Any) -> None:
    server = serve(replying(gzip.compress(EMPTY), Content_Encoding="gzip"))
    assert connect(server.url).ask(QUERY).body.read() == EMPTY
    assert server.seen[0].headers["Accept-Encoding"] == "gzip"


@pytest.mark.parametrize("body", [b"no gzip at all", gzip.compress(EMPTY)[:20]], ids=["text", "cut"])
def test_broken_compression_is_no_answer(serve: Any, connect: Any, body: bytes) -> None:
    failed(connect(serve(replying(body, Content_Encoding="gzip")).url).ask(QUERY))


def test_an_answer_cut_short_is_no_answer(serve: Any, connect: Any) -> None:
    def respond(request: BaseHTTPRequestHandler) -> None:
        request.send_response(200)
        request.send_header("Content-Type", "application/json")
        request.send_header("Content-Length", "1000")
        request.end_headers()
        request.wfile.write(EMPTY)
        request.close_connection = True

    server = serve(respond)
    assert "broke off" in failed(connect(server.url).ask(QUERY))
    assert len(server.seen) == 4


@pytest.fixture
def release() -> Any:
    """Lets hanging servers go when the test is over."""
    event = threading.Event()
    yield event
    event.set()


def test_a_server_that_hangs_is_left(serve: Any, connect: Any, release: Any) -> None:
    server = serve(lambda _: release.wait(20))
    answers = connect(server.url, limits=Limits(read_s=0.1, parallel=2)).ask_all([QUERY] * 6)
    assert all("no complete answer in time" in failed(answer) for answer in answers)
    assert len(server.seen) == 2


@pytest.mark.parametrize("part", ["headers", "body", "gzip"])
def test_a_server_that_drips_is_left_at_the_deadline(serve: Any, release: Any, part: str) -> None:
    def respond(request: BaseHTTPRequestHandler) -> None:
        if part == "headers":
            request.wfile.write(b"HTTP/1.1 200 OK\r\nX-A: ")
        else:
            request.send_response(200)
            request.send_header("Content-Type", "application/json")
            if part == "gzip":
                request.send_header("Content-Encoding", "gzip")
            request.end_headers()
            request.wfile.write(gzip.compress(b"")[:10] if part == "gzip" else b"{")
        while not release.wait(0.02):
            request.wfile.write(b"\x00\x00\x00\xff\xff" if part == "gzip" else b"x")

    settings = PrometheusSettings(url=serve(respond).url)
    client = PrometheusClient(settings, str, limits=Limits(read_s=20.0, total_s=0.3))
    assert "no complete answer in time" in failed(client.ask(QUERY))


def test_an_unreachable_server_fails_the_rest_at_once(connect: Any) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{probe.getsockname()[1]}"
    client = connect(url, limits=Limits(parallel=1))
    answers = client.ask_all([QUERY] * 20)
    assert {failed(answer) for answer in answers} == {
        f"{url}/api/v1/query: no connection (Connection refused): is the address right, and is the server up?"
    }
    assert client.requests_sent == 4


def test_a_certificate_of_nobody_we_trust_is_named(connect: Any, serve: Any) -> None:
    reason = failed(connect(serve().url.replace("http:", "https:")).ask(QUERY))
    assert "tls.ca" in reason


def test_what_is_no_http_is_no_answer(connect: Any, serve: Any) -> None:
    server = serve(lambda request: request.wfile.write(b"\x15\x03\x01 nonsense\r\n\r\n"))
    failed(connect(server.url).ask(QUERY))


def test_answers_keep_the_order_of_their_questions_and_progress_is_told(serve: Any, connect: Any) -> None:
    def respond(request: BaseHTTPRequestHandler) -> None:
        time.sleep(0.01 * (next(turns) % 3))
        request.send_response(200)
        request.send_header("Content-Length", str(len(EMPTY)))
        request.end_headers()
        request.wfile.write(EMPTY)

    turns = itertools.count()
    queries = [replace(QUERY, quantity=f"q{index}") for index in range(12)]
    told: list[tuple[int, int]] = []
    answers = connect(serve(respond).url).ask_all(queries, lambda done, of: told.append((done, of)))
    assert [answer.query for answer in answers] == queries
    assert told == [(done, 12) for done in range(1, 13)]


def test_one_bad_question_leaves_the_others_alone(serve: Any, connect: Any) -> None:
    script = [replying(b'{"error":"bad"}', 400), *[replying()] * 4]
    server = serve(lambda request: script.pop(0)(request))
    answers = connect(server.url, limits=Limits(parallel=1)).ask_all([QUERY] * 5)
    assert [answer.status for answer in answers].count(AnswerStatus.OK) == 4


def test_no_cookie_is_kept(serve: Any, connect: Any) -> None:
    server = serve(replying(Set_Cookie="session=1"))
    client = connect(server.url)
    client.ask(QUERY)
    client.ask(QUERY)
    assert "Cookie" not in server.seen[1].headers


def test_an_echoed_secret_is_cut_out_of_an_error_and_a_tenants_name_left_in_a_success(serve: Any, connect: Any) -> None:
    error = b'{"status":"error","error":"no team-llm here"}'
    success = b'{"status":"success","data":{"resultType":"vector","result":[{"metric":{"namespace":"team-llm"}}]}}'
    server = serve(in_turn(replying(error), replying(success)))
    settings = PrometheusSettings(url=server.url, headers={"X-Scope-OrgID": TOKEN})
    client = connect(settings, secrets={"RECONCILER_TOKEN": "team-llm"})
    assert client.ask(QUERY).body.read() == b'{"status":"error","error":"no *** here"}'
    assert client.ask(QUERY).body.read() == success


def test_a_closed_client_holds_no_connection(serve: Any, connect: Any) -> None:
    server = serve(replying(EMPTY))
    client = connect(server.url)
    client.ask(QUERY)
    client.close()
    assert len(client._door._session.adapters["http://"].poolmanager.pools) == 0
