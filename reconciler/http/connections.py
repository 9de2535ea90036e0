"""Connections that end when their time is over: a time-out of the library alone begins anew with every byte."""

import socket
import threading
from collections.abc import Mapping
from contextlib import suppress
from contextvars import ContextVar
from http.cookiejar import DefaultCookiePolicy
from typing import Any, Self
from urllib.parse import urlsplit

import requests
from requests.adapters import HTTPAdapter
from urllib3 import HTTPConnectionPool, HTTPSConnectionPool, PoolManager
from urllib3.connection import HTTPConnection, HTTPSConnection


class Watchdog:
    """Shuts down every connection that its block uses once `limit_s` have passed: greeting, headers and body alike."""

    def __init__(self, limit_s: float) -> None:
        self.has_expired = False
        self._socket: socket.socket | None = None
        self._lock = threading.Lock()
        self._timer = threading.Timer(limit_s, self._expire)
        self._timer.daemon = True

    def __enter__(self) -> Self:
        self._token = _WATCHDOG.set(self)
        self._timer.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()
        _WATCHDOG.reset(self._token)
        with self._lock:
            self._let_go()

    def watch(self, connected: socket.socket) -> None:
        """Hold a connection by a second handle, which TLS does not take over and nobody else closes."""
        with self._lock:
            self._let_go()
            self._socket = socket.fromfd(connected.fileno(), connected.family, connected.type)
            if self.has_expired:
                self._shut_down()

    def _expire(self) -> None:
        with self._lock:
            self.has_expired = True
            self._shut_down()

    def _shut_down(self) -> None:
        if self._socket is not None:
            with suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)

    def _let_go(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None


_WATCHDOG: ContextVar[Watchdog | None] = ContextVar("watchdog", default=None)
"""That of the exchange which this thread is in: the libraries hand nothing of ours down to their connections."""


def _watch(connected: socket.socket | None) -> None:
    watchdog = _WATCHDOG.get()
    if watchdog is not None and connected is not None:
        watchdog.watch(connected)


class WatchedConnection(HTTPConnection):
    """Shows its socket to the watchdog: as soon as there is one, and whenever it is used again."""

    # the signatures are those of urllib3
    def _new_conn(self) -> socket.socket:
        connected = super()._new_conn()
        _watch(connected)
        return connected

    def request(self, *arguments: Any, **options: Any) -> None:
        """Send a request."""
        _watch(self.sock)
        super().request(*arguments, **options)


class WatchedTlsConnection(WatchedConnection, HTTPSConnection):
    """The same over TLS."""


class WatchedPool(HTTPConnectionPool):
    """Connections to one host."""

    ConnectionCls = WatchedConnection


class WatchedTlsPool(HTTPSConnectionPool):
    """Connections to one host over TLS."""

    ConnectionCls = WatchedTlsConnection


POOLS = {"http": WatchedPool, "https": WatchedTlsPool}


class WatchedAdapter(HTTPAdapter):
    """Gives requests our connections."""

    # the signatures are those of requests, which passes on whatever urllib3 understands
    def init_poolmanager(self, connections: int, maxsize: int, block: bool = False, **pool_kwargs: Any) -> None:
        """Make the pools for direct connections."""
        super().init_poolmanager(connections, maxsize, block, **pool_kwargs)
        self.poolmanager.pool_classes_by_scheme = POOLS

    def proxy_manager_for(self, proxy: str, **proxy_kwargs: Any) -> PoolManager:
        """Make the pools for connections through `proxy`."""
        manager: PoolManager = super().proxy_manager_for(proxy, **proxy_kwargs)
        manager.pool_classes_by_scheme = POOLS
        return manager


class _Session(requests.Session):
    """A session that leaves redirects to us: requests would parse them and read their whole body, without limits.

    It asks the environment about proxies and authorities once for each origin: that takes as long as a small answer.
    """

    def __init__(self) -> None:
        super().__init__()
        self._merged: dict[tuple[object, ...], Mapping[str, Any]] = {}

    # the signature is that of requests
    def merge_environment_settings(
        self, url: str | bytes | None, proxies: Any, stream: bool | None, verify: Any, cert: Any
    ) -> Any:
        """What the environment makes of the settings of a request."""
        key = (*urlsplit(str(url))[:2], stream, verify, cert)
        if key not in self._merged:
            self._merged[key] = super().merge_environment_settings(url, proxies, stream, verify, cert)
        return dict(self._merged[key])

    def get_redirect_target(self, resp: requests.Response) -> None:
        """Say that there is none."""


class NoAuth(requests.auth.AuthBase):
    """An authentication that adds nothing: with none at all, requests would look into .netrc and the URL."""

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        """`request` as it is."""
        return request


def open_session(connections: int) -> requests.Session:
    """A session with up to so many open connections, which keeps nothing of what a server says."""
    session = _Session()
    session.auth = NoAuth()
    session.cookies.set_policy(DefaultCookiePolicy(allowed_domains=[]))
    adapter = WatchedAdapter(pool_maxsize=connections)
    session.mount("http://", adapter)
    session.mount("https://", adapter)
    return session
