"""A Prometheus of a few lines that misbehaves on demand, on a real port."""

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Protocol

import pytest

from reconciler.domain.settings import PrometheusSettings, SecretRef
from reconciler.errors import ConfigurationError
from reconciler.http.messages import Limits
from reconciler.prometheus.client import PrometheusClient
from tests.servers.scripted import Respond, ScriptedServer, SteppedClock, reply, serve_script

EMPTY = b'{"status":"success","data":{"resultType":"vector","result":[]}}'


EMPTY_REPLY = reply(EMPTY)


class Serve(Protocol):
    """Starts a server."""

    def __call__(self, respond: Respond = ...) -> ScriptedServer: ...


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
        yield lambda respond=EMPTY_REPLY: stack.enter_context(serve_script(respond))


@pytest.fixture
def clock() -> SteppedClock:
    """A clock at zero."""
    return SteppedClock()


class Connect(Protocol):
    """Makes a client."""

    def __call__(
        self, settings: PrometheusSettings | str, *, limits: Limits | None = ..., secrets: dict[str, str] | None = ...
    ) -> PrometheusClient: ...


@pytest.fixture
def connect(clock: SteppedClock) -> Connect:
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
        return PrometheusClient(settings, read_secret, limits=limits, clock=clock)

    return make
