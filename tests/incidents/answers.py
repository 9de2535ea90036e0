"""Prometheus behind somebody who spoils its answers: it is asked, and what a row makes of the answer is handed on."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from urllib.request import ProxyHandler, Request, build_opener  # noqa: TID251  # a server of the tests, not the product

from tests.servers.scripted import Respond, reply, send_raw, serve_script

Spoil = Callable[[str, bytes], Respond]
"""What is answered to a request for a path, of the body that Prometheus itself answers with."""
RANGE = "/query_range"
NOTHING = b'{"status":"success","data":{"resultType":"matrix","result":[]}}'


def ranges(spoiled: Respond) -> Spoil:
    """Answers about the present as they are, those over time so."""
    return lambda path, body: spoiled if RANGE in path else reply(body)


def warned(path: str, body: bytes) -> Respond:
    """A store was not reached: what is over time is empty, and everything carries the warning."""
    told = NOTHING if RANGE in path else body
    return reply(told.rstrip()[:-1] + b',"warnings":["No StoreAPIs matched for this query"]}')


def in_part(path: str, body: bytes) -> Respond:
    """A storage of VictoriaMetrics was not reached; what it holds is missing, the rest looks whole."""
    del path
    return reply(body.rstrip()[:-1] + b',"isPartial":true}')


REFUSED = ranges(reply(b'{"status":"error","errorType":"execution","error":"too many samples"}', status=422))
UNAVAILABLE = ranges(reply(b"no healthy upstream", status=503, content_type="text/plain"))
EMPTY = ranges(reply(NOTHING))
CUT = ranges(send_raw(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 9999\r\n\r\n{"))


@contextmanager
def spoiled(prometheus: str, spoil: Spoil) -> Iterator[str]:
    """The base URL of a server that answers like `prometheus`, spoiled."""
    opener = build_opener(ProxyHandler({}))

    def respond(request: BaseHTTPRequestHandler) -> None:
        asked = Request(
            prometheus + request.path,
            data=server.seen[-1].body or None,
            headers={"Content-Type": request.headers.get("Content-Type", "")},
            method=request.command,
        )
        with opener.open(asked, timeout=60) as answer:
            body = answer.read()
        spoil(request.path, body)(request)

    with serve_script(respond) as server:
        yield server.url
