"""The door against servers that are slow, broken or hostile: every request ends within its limits."""

import gzip
import logging
import socket
import threading
import tracemalloc
import zlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from http.server import BaseHTTPRequestHandler
from typing import Any

import pytest

from reconciler.errors import ConfigurationError, TransientError
from reconciler.http.door import Watchdog
from reconciler.http.messages import (
    MIB,
    Clock,
    Credentials,
    Failure,
    FailureKind,
    Limits,
    Request,
    Response,
    check_sendable,
)
from tests.servers.scripted import Respond, in_turn, reply, send, send_raw
from tests.unit.http.conftest import CANARY, credentials

OK = b"HTTP/1.1 200 OK\r\n"
CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"
SMALL = Limits(body_bytes=MIB, attempts=2)


def failed(answer: Response | Failure) -> Failure:
    assert isinstance(answer, Failure), answer
    assert type(answer.error) in (ConfigurationError, TransientError)
    assert CANARY not in str(answer.error)
    return answer


def succeeded(answer: Response | Failure) -> bytes:
    assert isinstance(answer, Response), answer
    return answer.content


def compressed(content: bytes, encoding: str = "gzip") -> Respond:
    body = gzip.compress(content) if encoding.endswith("gzip") else zlib.compress(content)
    return reply(body, Content_Encoding=encoding)


# What arrives


def test_an_answer_is_its_status_headers_and_bytes(serve: Any, ask: Any) -> None:
    answer = ask(serve(reply(b'{"a":1}', X_Any="b")).url)
    assert (answer.status, answer.headers["x-any"], answer.content) == (200, "b", b'{"a":1}')
    assert answer.content_type == "application/json"


@pytest.mark.parametrize("encoding", ["gzip", "x-gzip", "deflate"])
def test_a_compressed_answer_is_read(serve: Any, ask: Any, encoding: str) -> None:
    server = serve(compressed(b"x" * 100_000, encoding))
    assert succeeded(ask(server.url)) == b"x" * 100_000
    assert server.seen[0].headers["Accept-Encoding"] == "gzip"


def test_chunks_are_read_however_they_are_cut(serve: Any, ask: Any) -> None:
    chunks = b"".join(b"%x;name=value\r\n%s\r\n" % (len(part), part) for part in (b"ab", b"c" * 70_000, b"d"))
    assert (
        succeeded(ask(serve(send_raw(CHUNKED + chunks + b"0\r\nX-Trailer: 1\r\n\r\n")).url))
        == b"ab" + b"c" * 70_000 + b"d"
    )


@pytest.mark.parametrize("status", [200, 201, 202, 204, 206])
@pytest.mark.parametrize("encoding", ["", "gzip"])
def test_a_success_may_be_empty(serve: Any, ask: Any, status: int, encoding: str) -> None:
    assert succeeded(ask(serve(reply(b"", status, Content_Encoding=encoding)).url)) == b""


def test_the_body_of_an_error_is_cut_and_not_refused(serve: Any, open_door: Any) -> None:
    seen: list[Response] = []
    door = open_door(Limits(error_bytes=10))
    door._judge = lambda response, _place: seen.append(response)
    door.ask(Request(method="GET", url=serve(reply(b"y" * 99_999, 404)).url), credentials)
    assert seen[0].content == b"y" * 10


# What is broken, too much or too slow: kind of failure, and what a person reads of it

ANSWERS: dict[str, tuple[Respond, FailureKind, str]] = {
    "a larger answer": (reply(b"x" * (MIB + 1)), FailureKind.TOO_LARGE, "larger than 1048576 bytes: ask for less"),
    "a gzip bomb": (compressed(bytes(50 * MIB)), FailureKind.TOO_LARGE, "larger than 1048576 bytes"),
    "a deflate bomb": (compressed(bytes(50 * MIB), "deflate"), FailureKind.TOO_LARGE, "larger than 1048576 bytes"),
    "a bomb in a bomb": (
        reply(gzip.compress(gzip.compress(bytes(5 * MIB))), Content_Encoding="gzip, gzip"),
        FailureKind.BROKEN,
        "compression",
    ),
    "empty blocks without end": (
        reply(gzip.compress(b"")[:10] + b"\x00\x00\x00\xff\xff" * MIB, Content_Encoding="gzip"),
        FailureKind.TOO_LARGE,
        "larger than",
    ),
    "more after the end": (
        reply(gzip.compress(b"{}") + bytes(3 * MIB), Content_Encoding="gzip"),
        FailureKind.BROKEN,
        "compression",
    ),
    "a truncated gzip": (
        reply(gzip.compress(b"x" * 999)[:-9], Content_Encoding="gzip"),
        FailureKind.BROKEN,
        "broke off",
    ),
    "no gzip": (reply(b"plain", Content_Encoding="gzip"), FailureKind.BROKEN, "compression is broken"),
    "an unknown encoding": (reply(b"{}", Content_Encoding="br"), FailureKind.BROKEN, "compression is broken"),
    "a body cut short": (send(200, {"Content-Length": "999"}, b"{"), FailureKind.BROKEN, "broke off"),
    "two lengths": (send_raw(OK + b"Content-Length: 1, 2\r\n\r\n{}"), FailureKind.BROKEN, "broke off"),
    "a chunk cut short": (send_raw(CHUNKED + b"ff\r\n{"), FailureKind.BROKEN, "broke off"),
    "a chunk of no length": (send_raw(CHUNKED + b"zz\r\n{}"), FailureKind.BROKEN, "broke off"),
    "a chunk's endless length": (send_raw(CHUNKED + b"1;" + b"x" * MIB), FailureKind.BROKEN, "broke off"),
    "no answer": (send_raw(b""), FailureKind.BROKEN, "broke off"),
    "no HTTP": (send_raw(b"\x15\x03\x01 nonsense\r\n\r\n"), FailureKind.BROKEN, "broke off"),
    "endless headers": (send_raw(OK + b"X-A: 1\r\n" * 200_000), FailureKind.BROKEN, "broke off"),
    "one endless header": (send_raw(OK + b"X-A: " + b"x" * (8 * MIB)), FailureKind.BROKEN, "broke off"),
    "a huge header": (reply(b"{}", X_A="x" * 70_000), FailureKind.BROKEN, "broke off"),
    "an endless status": (send_raw(b"HTTP/1.1 200 " + b"x" * (8 * MIB)), FailureKind.BROKEN, "broke off"),
    "a status without a number": (send_raw(b"HTTP/1.1 abc OK\r\n\r\n"), FailureKind.BROKEN, "broke off"),
}


@pytest.mark.parametrize("name", ANSWERS)
def test_what_is_no_answer_is_a_failure_in_words(serve: Any, ask: Any, name: str) -> None:
    respond, kind, words = ANSWERS[name]
    server = serve(respond)
    failure = failed(ask(f"{server.url}/path?a=b", limits=SMALL))
    assert failure.kind is kind
    assert str(failure.error).startswith(f"look: {server.url}/path: ")
    assert words in str(failure.error)
    is_permanent = kind is FailureKind.TOO_LARGE
    assert isinstance(failure.error, ConfigurationError) is is_permanent
    assert len(server.seen) == (1 if is_permanent else 2)


@pytest.mark.parametrize("length", ["-5", "two", "٣", "99999999999999999999999999"])
def test_a_body_of_an_invalid_length_ends_with_the_connection(serve: Any, ask: Any, length: str) -> None:
    content = OK + b"Content-Length: " + length.encode() + b"\r\n\r\n{}"
    answer = ask(serve(send_raw(content)).url)
    assert isinstance(answer, Failure) or answer.content == b"{}"


def test_a_length_that_is_too_short_takes_what_it_says(serve: Any, ask: Any) -> None:
    assert succeeded(ask(serve(send(200, {"Content-Length": "2"}, b"{}and more")).url)) == b"{}"


def test_a_body_is_not_read_past_its_cap(serve: Any, ask: Any) -> None:
    sent: list[int] = []

    def respond(request: BaseHTTPRequestHandler) -> None:
        request.wfile.write(OK + b"Connection: close\r\n\r\n")
        for _ in range(200):
            request.wfile.write(bytes(MIB))
            sent.append(MIB)

    assert failed(ask(serve(respond).url, limits=SMALL)).kind is FailureKind.TOO_LARGE
    assert sum(sent) < 100 * MIB


@pytest.mark.parametrize("sent_bytes", [32 * MIB, 33 * MIB])
def test_a_large_answer_is_held_once(serve: Any, ask: Any, sent_bytes: int) -> None:
    server = serve(compressed(bytes(sent_bytes)))
    tracemalloc.start()
    try:
        ask(server.url, limits=Limits(body_bytes=32 * MIB))
        assert tracemalloc.get_traced_memory()[1] < 64 * MIB
    finally:
        tracemalloc.stop()


@pytest.fixture
def release() -> Iterator[threading.Event]:
    """Lets servers that drip or hang go when the test is over."""
    event = threading.Event()
    yield event
    event.set()


DRIPS = {
    "status": (b"HTTP/1.1 2", b"0"),
    "headers": (OK + b"X-A: ", b"x"),
    "many headers": (OK, b"X-A: 1\r\n"),
    "body": (OK + b"\r\n{", b" "),
    "body of a length": (OK + b"Content-Length: 999999\r\n\r\n", b" "),
    "gzip": (OK + b"Content-Encoding: gzip\r\n\r\n" + gzip.compress(b"")[:10], b"\x00\x00\x00\xff\xff"),
    "chunks": (CHUNKED, b"1\r\n \r\n"),
    "a chunk's length": (CHUNKED + b"1;", b"x"),
    "trailers": (CHUNKED + b"0\r\n", b"X-A: 1\r\n"),
    "promises": (b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
    "nothing": (b"", b""),
}


def drip(start: bytes, drop: bytes, release: threading.Event) -> Respond:
    def respond(request: BaseHTTPRequestHandler) -> None:
        request.wfile.write(start)
        while not release.wait(0.02):
            request.wfile.write(drop)

    return respond


IMPATIENT = Limits(read_s=20.0, total_s=0.2)


@pytest.mark.parametrize("part", DRIPS)
def test_a_server_that_drips_is_left_at_the_deadline(serve: Any, open_door: Any, release: Any, part: str) -> None:
    server = serve(drip(*DRIPS[part], release))
    failure = failed(open_door(IMPATIENT, Clock()).ask(Request(method="GET", url=server.url), credentials))
    assert failure.kind is FailureKind.SILENT
    assert str(failure.error) == f"{server.url}: no complete answer in time: is the server overloaded?"


def test_a_run_whose_time_is_over_asks_nothing_and_waits_for_nothing(
    serve: Any, open_door: Any, release: threading.Event
) -> None:
    server, clock = serve(drip(*DRIPS["body"], release)), Clock()
    request = Request(method="GET", url=server.url)
    for left_s in (0.2, 0.0):
        limits = Limits(read_s=20.0, run_ends_s=clock.monotonic() + left_s)
        assert failed(open_door(limits, clock).ask(request, credentials)).kind is FailureKind.SILENT
    assert len(server.seen) == 1


def test_a_connection_that_was_kept_open_has_a_deadline_too(serve: Any, open_door: Any, release: Any) -> None:
    server = serve(in_turn(reply(), drip(*DRIPS["headers"], release)))
    door = open_door(clock=Clock())
    request = Request(method="GET", url=server.url)
    succeeded(door.ask(request, credentials))
    door._limits = IMPATIENT
    assert failed(door.ask(request, credentials)).kind is FailureKind.SILENT


def test_a_greeting_that_drips_has_a_deadline_too(open_door: Any, release: threading.Event) -> None:
    def greet(listening: socket.socket) -> None:
        connected, _ = listening.accept()
        with connected, suppress(OSError):
            connected.sendall(b"\x16\x03\x03\x40\x00")  # a record of TLS that will be long
            while not release.wait(0.02):
                connected.sendall(b"x")

    with socket.create_server(("127.0.0.1", 0)) as listening:
        threading.Thread(target=greet, args=(listening,), daemon=True).start()
        request = Request(method="GET", url=f"https://127.0.0.1:{listening.getsockname()[1]}")
        assert failed(open_door(IMPATIENT, Clock()).ask(request, credentials)).kind is FailureKind.SILENT


def test_a_server_that_hangs_is_left_after_its_time_for_a_byte(serve: Any, ask: Any, release: Any) -> None:
    server = serve(lambda _: release.wait(20))
    assert failed(ask(server.url, limits=Limits(read_s=0.1))).kind is FailureKind.SILENT
    assert len(server.seen) == 1


def test_a_connection_that_is_made_too_late_is_shut_down_at_once() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs, Watchdog(0.0) as watchdog:
        watchdog._timer.join(5)
        assert watchdog.has_expired
        watchdog.watch(ours)
        assert theirs.recv(1) == b""


# Attempts and pauses


@pytest.mark.parametrize("status", [429, 500, 502, 503])
def test_what_may_recover_is_tried_again_with_pauses_that_double(serve: Any, ask: Any, clock: Any, status: int) -> None:
    server = serve(reply(status=status))
    assert str(status) in str(failed(ask(server.url)).error)
    assert clock.slept == [0.5, 1.0, 2.0]
    assert len(server.seen) == 4


def test_a_server_that_recovers_is_an_answer(serve: Any, ask: Any) -> None:
    cut = send(200, {"Content-Length": "9"}, b"{")
    assert succeeded(ask(serve(in_turn(reply(status=503), cut, reply(b"{}"))).url)) == b"{}"


NOON = "Sun, 06 Nov 1994 12:00:00 GMT"
PAUSES = {
    "7": 7.0,
    "0": 0.5,
    "20": 20.0,
    "86400": 20.0,
    "999999999": 20.0,
    "Sun, 06 Nov 1994 12:00:11 GMT": 11.0,
    "Sun, 06 Nov 1994 11:59:00 GMT": 0.5,
    "Sun, 06 Nov 1994 13:00:00 GMT": 20.0,
    "Fri, 31 Dec 9999 23:59:59 GMT": 20.0,
    "Sun, 06 Nov 1994 12:00:11": 0.5,
    "-5": 0.5,
    "1e9": 0.5,
    "soon": 0.5,
    "": 0.5,
    "9" * 5000: 0.5,
}


@pytest.mark.parametrize("written", PAUSES)
@pytest.mark.parametrize("status", [429, 503])
def test_a_server_is_left_alone_for_as_long_as_it_asks_within_reason(
    serve: Any, ask: Any, clock: Any, status: int, written: str
) -> None:
    busy = send_raw(
        f"HTTP/1.1 {status} Busy\r\nRetry-After: {written}\r\nDate: {NOON}\r\nConnection: close\r\n\r\n".encode()
    )
    succeeded(ask(serve(in_turn(busy, reply())).url))
    assert clock.slept == [PAUSES[written]]


def test_a_date_without_the_servers_clock_is_one_on_ours(serve: Any, ask: Any, clock: Any) -> None:
    clock.start_s = 784_123_200.0  # noon
    busy = send_raw(b"HTTP/1.1 503 Busy\r\nRetry-After: Sun, 06 Nov 1994 12:00:11 GMT\r\nConnection: close\r\n\r\n")
    succeeded(ask(serve(in_turn(busy, reply())).url))
    assert clock.slept == [11.0]


def test_no_pause_passes_the_deadline(serve: Any, ask: Any, clock: Any) -> None:
    server = serve(reply(status=503))
    failed(ask(server.url, limits=Limits(total_s=2.0, attempts=99)))
    assert clock.slept == [0.5, 1.0]
    assert len(server.seen) == 3


def test_a_caller_that_gave_up_makes_no_further_attempt(serve: Any, open_door: Any) -> None:
    server = serve(reply(status=503))
    door = open_door()
    reason = Failure(kind=FailureKind.REFUSED, error=TransientError("enough"))
    asked: list[int] = []

    def given_up() -> Failure | None:
        asked.append(1)
        return reason if len(asked) > 2 else None

    assert door.ask(Request(method="GET", url=server.url), credentials, given_up=given_up) is reason
    assert len(server.seen) == door.requests_sent == 2


def test_a_server_that_is_down_is_reported_in_the_systems_own_words(ask: Any, clock: Any) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{probe.getsockname()[1]}"
    failure = failed(ask(url))
    assert failure.kind is FailureKind.UNREACHABLE
    said = f"look: {url}: no connection (Connection refused): is the address right, and is the server up?"
    assert str(failure.error) == said
    assert clock.slept == [0.5, 1.0, 2.0]


def test_a_host_without_trust_names_what_to_set(serve: Any, ask: Any) -> None:
    failure = failed(ask(serve(reply()).url.replace("http:", "https:")))
    assert (failure.kind, failure.wait_s) == (FailureKind.UNTRUSTED, None)
    assert "set REQUESTS_CA_BUNDLE" in str(failure.error)


@pytest.mark.parametrize(
    "url", ["http://", "http://" + "a" * 70 + ".invalid", "http://.invalid", "ftp://127.0.0.1", "no"]
)
def test_an_address_that_nothing_can_be_sent_to_is_a_failure_too(ask: Any, url: str) -> None:
    failed(ask(url, limits=SMALL))


# Redirects


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_on_the_same_origin_is_followed(serve: Any, ask: Any, status: int) -> None:
    server = serve(in_turn(reply(status=status, Location="/there?x=1#y"), reply(b"{}")))
    assert succeeded(ask(f"{server.url}/here?a=b")) == b"{}"
    assert [seen.path for seen in server.seen] == ["/here?a=b", "/there?x=1"]
    assert server.seen[1].headers["Authorization"] == f"Bearer {CANARY}"


def test_a_form_is_sent_again(serve: Any, open_door: Any) -> None:
    server = serve(in_turn(reply(status=302, Location="/there"), reply()))
    succeeded(open_door().ask(Request(method="POST", url=server.url, form={"a": "b"}), credentials))
    assert [(seen.method, seen.form) for seen in server.seen] == [("POST", {"a": ["b"]})] * 2


@pytest.mark.parametrize(
    "location",
    [
        "{other}/path",
        "//{other_host}/path",
        "https://{host}/path",
        "http://{host}@{other_host}/",
        "http://user:pass@{host}/",
        "{other}\\@{host}/",
        "http://127.0.0.1/",
        "http://[",
        "http://{host}1/",
        "ftp://{host}/",
        "javascript:alert(1)",
        "",
    ],
)
def test_a_redirect_to_another_origin_is_not_followed_and_gets_no_token(serve: Any, ask: Any, location: str) -> None:
    other = serve(reply())
    server = serve(reply(status=307))
    hosts = {"other": other.url, "other_host": other.url[7:], "host": server.url[7:]}
    server.respond = reply(status=307, Location=location.format(**hosts) + f"?token={CANARY}" * bool(location))
    failure = failed(ask(server.url))
    assert failure.kind is FailureKind.REDIRECTED
    assert f"redirects to {'another origin, ' if location else 'nowhere'}" in str(failure.error)
    assert isinstance(failure.error, ConfigurationError)
    assert other.seen == []
    assert len(server.seen) == 1


@pytest.mark.parametrize(
    "location", ["/\\{other}/x", "/@{other}/x", "http://{host}/%2f%2f{other}", "//{host}//{other}/", "?{other}"]
)
def test_a_redirect_that_plays_with_two_hosts_stays_here(serve: Any, ask: Any, location: str) -> None:
    other = serve(reply())
    server = serve(reply())
    target = location.format(other=other.url[7:], host=server.url[7:])
    server.respond = in_turn(reply(status=302, Location=target), reply(b"{}"))
    assert succeeded(ask(server.url)) == b"{}"
    assert (len(server.seen), other.seen) == (2, [])


def test_redirects_in_a_circle_end(serve: Any, ask: Any) -> None:
    server = serve(reply(status=302, Location="/again"))
    assert "more than 5 redirects" in str(failed(ask(server.url)).error)
    assert len(server.seen) == 6


def test_a_write_is_never_repeated_elsewhere(serve: Any, ask: Any) -> None:
    server = serve(reply(status=307, Location="/there"))
    assert failed(ask(server.url, is_write=True)).kind is FailureKind.REJECTED
    assert len(server.seen) == 1


def test_an_address_that_a_link_header_names_gets_no_request(serve: Any, ask: Any) -> None:
    other = serve(reply())
    succeeded(ask(serve(reply(Link=f'<{other.url}/2>; rel="next"', Refresh=f"0; url={other.url}")).url))
    assert other.seen == []


# Secrets


def test_no_token_that_a_server_repeats_is_logged(serve: Any, open_door: Any, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    echo = in_turn(
        send_raw(OK + f"X-A: 1\r\nno header {CANARY} Bearer {CANARY}\r\nConnection: close\r\n\r\n".encode()),
        reply(status=302, Location=f"/{CANARY}/x?y={CANARY}"),
        reply(status=302, Location=f"http://{CANARY}.invalid/{CANARY}"),
    )
    server = serve(echo)
    door = open_door()
    request = Request(method="POST", url=server.url, action="look", form={"query": f"a {CANARY}"})
    succeeded(door.ask(request, credentials))
    failed(door.ask(request, credentials))
    assert any("urllib3.connectionpool: " in record.getMessage() for record in caplog.records)
    assert any("Failed to parse headers" in record.getMessage() for record in caplog.records)
    assert all(record.name.startswith("reconciler.") for record in caplog.records)
    assert CANARY not in caplog.text


def test_what_the_libraries_log_outside_of_an_exchange_has_no_secrets_by_shape(
    open_door: Any, caplog: pytest.LogCaptureFixture
) -> None:
    open_door()
    logging.getLogger("urllib3.util.retry").warning("Redirecting to %s", "https://me:canary@host/?token=canary")
    logging.getLogger("requests.anything").warning("{'Authorization': 'Bearer canary'}")
    assert "canary" not in caplog.text
    assert "urllib3.util.retry: Redirecting to https://***@host/" in caplog.text
    assert {record.levelno for record in caplog.records} == {logging.WARNING}


def test_no_cookie_is_kept_and_no_netrc_is_read(serve: Any, open_door: Any, tmp_path: Any, monkeypatch: Any) -> None:
    netrc = tmp_path / "netrc"
    netrc.write_text(f"machine 127.0.0.1 login me password {CANARY}\n")
    netrc.chmod(0o600)
    monkeypatch.setenv("NETRC", str(netrc))
    server = serve(reply(Set_Cookie="session=1"))
    door = open_door()
    for _ in range(2):
        succeeded(door.ask(Request(method="GET", url=server.url), Credentials))
    assert not any({"Cookie", "Authorization"} & seen.headers.keys() for seen in server.seen)


def test_credentials_and_answers_show_no_secret() -> None:
    assert CANARY not in repr(credentials())
    assert CANARY not in repr(Response(status=200, headers={}, content=CANARY.encode()))


@pytest.mark.parametrize("value", ["two\r\nX-Evil: 1", "nul\x00", "ключ", " canary", "canary "])
def test_what_no_header_can_carry_is_refused_without_its_text(value: str) -> None:
    with pytest.raises(ConfigurationError, match="the token: expected one line") as refused:
        check_sendable(value, "the token")
    assert value.strip() not in str(refused.value)


def test_many_threads_share_a_door(serve: Any, open_door: Any) -> None:
    server = serve(reply(b"{}"))
    door = open_door()
    request = Request(method="GET", url=server.url)
    with ThreadPoolExecutor(8) as executor:
        answers = list(executor.map(lambda _: door.ask(request, credentials), range(64)))
    assert {succeeded(answer) for answer in answers} == {b"{}"}
    assert door.requests_sent == len(server.seen) == 64


def test_the_environment_is_read_once_for_each_origin(
    serve: Any, open_door: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def without_proxies(url: str, **_: object) -> dict[str, str]:
        asked.append(url)
        return {}

    monkeypatch.setattr("requests.sessions.get_environ_proxies", without_proxies)
    door, servers = open_door(), (serve(reply()), serve(reply()))
    for server in (*servers, *servers):
        for path in ("/a", "/b"):
            succeeded(door.ask(Request(method="GET", url=f"{server.url}{path}", action="look"), credentials))
    assert asked == [f"{server.url}/a" for server in servers]


def test_a_proxy_that_the_environment_names_is_used_for_every_request(
    serve: Any, open_door: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    proxy = serve(reply())
    monkeypatch.setenv("HTTP_PROXY", proxy.url)
    door = open_door()
    for path in ("/a", "/b"):
        succeeded(door.ask(Request(method="GET", url=f"http://far.example{path}", action="look"), credentials))
    assert [each.path for each in proxy.seen] == ["http://far.example/a", "http://far.example/b"]
