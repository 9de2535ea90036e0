"""Servers that misbehave on demand, and a door to them."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from reconciler.http.door import Door
from reconciler.http.messages import (
    Clock,
    Credentials,
    Failure,
    FailureKind,
    FailurePlace,
    Limits,
    Request,
    Response,
    bearer,
)
from reconciler.http.redaction import Redactor
from tests.servers.scripted import Respond, ScriptedServer, SteppedClock, serve_script

CANARY = "canary-7f3a9c"
Ask = Callable[..., Response | Failure]
Serve = Callable[[Respond], ScriptedServer]


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
    with ExitStack() as stack:
        yield lambda respond: stack.enter_context(serve_script(respond))


def judge(response: Response, place: FailurePlace) -> Failure | None:
    """What a plain client makes of a status."""
    if response.is_success:
        return None
    is_recoverable = response.status in (429, 500, 502, 503)
    wait_s = (response.retry_after_s or 0.0) if is_recoverable else None
    return place.failure(FailureKind.REJECTED, f"status {response.status}", wait_s=wait_s)


@pytest.fixture
def clock() -> SteppedClock:
    """A clock at zero."""
    return SteppedClock()


@pytest.fixture
def open_door(clock: SteppedClock) -> Iterator[Callable[..., Door]]:
    """A door whose pauses take no time."""
    with ExitStack() as stack:

        def open_one(limits: Limits | None = None, clock: Clock = clock) -> Door:
            door = Door(limits or Limits(), judge, advice={FailureKind.TOO_LARGE: "ask for less"}, clock=clock)
            stack.callback(door.close)
            return door

        yield open_one


@pytest.fixture
def ask(open_door: Callable[..., Door]) -> Ask:
    """One question through a new door, with a token that no server may keep."""

    def make(url: str, *, limits: Limits | None = None, is_write: bool = False) -> Response | Failure:
        request = Request(method="GET", url=url, action="look", is_write=is_write)
        return open_door(limits).ask(request, credentials)

    return make


def credentials() -> Credentials:
    """A token that must be seen nowhere."""
    return Credentials(headers={"Authorization": bearer(CANARY)}, redactor=Redactor((CANARY,)))
