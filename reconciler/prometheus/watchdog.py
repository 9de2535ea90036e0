"""Connections that give up on headers which drip in: a read time-out alone begins anew with every byte."""

import socket
import threading
from contextlib import suppress
from typing import Any

from requests.adapters import HTTPAdapter
from urllib3 import HTTPConnectionPool, HTTPSConnectionPool, PoolManager
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.response import HTTPResponse


class WatchedAdapter(HTTPAdapter):
    """Ends any answer whose headers are not complete within `headers_s`; keeps up to `connections` open."""

    def __init__(self, headers_s: float, connections: int) -> None:
        self._pools = _watched_pools(headers_s)
        super().__init__(pool_maxsize=connections)

    # the signatures are those of requests, which passes on whatever urllib3 understands
    def init_poolmanager(self, connections: int, maxsize: int, block: bool = False, **pool_kwargs: Any) -> None:
        """Make the pools for direct connections."""
        super().init_poolmanager(connections, maxsize, block, **pool_kwargs)
        self.poolmanager.pool_classes_by_scheme = self._pools

    def proxy_manager_for(self, proxy: str, **proxy_kwargs: Any) -> PoolManager:
        """Make the pools for connections through `proxy`."""
        manager: PoolManager = super().proxy_manager_for(proxy, **proxy_kwargs)
        manager.pool_classes_by_scheme = self._pools
        return manager


def _watched_pools(headers_s: float) -> dict[str, type[HTTPConnectionPool]]:
    class WatchedConnection(HTTPConnection):
        def getresponse(self) -> HTTPResponse:  # type: ignore[override]  # as in urllib3 itself
            with _Watchdog(self.sock, headers_s):
                return super().getresponse()

    class WatchedTlsConnection(HTTPSConnection):
        def getresponse(self) -> HTTPResponse:  # type: ignore[override]  # as in urllib3 itself
            with _Watchdog(self.sock, headers_s):
                return super().getresponse()

    class WatchedPool(HTTPConnectionPool):
        ConnectionCls = WatchedConnection

    class WatchedTlsPool(HTTPSConnectionPool):
        ConnectionCls = WatchedTlsConnection

    return {"http": WatchedPool, "https": WatchedTlsPool}


class _Watchdog:
    """Shuts a socket down when its block takes longer than `limit_s`."""

    def __init__(self, sock: socket.socket | None, limit_s: float) -> None:
        self._sock = sock
        self._timer = threading.Timer(limit_s, self._shut_down)
        self._timer.daemon = True

    def __enter__(self) -> None:
        self._timer.start()

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()

    def _shut_down(self) -> None:
        if isinstance(self._sock, socket.socket):
            with suppress(OSError):
                # below TLS: the TLS object is in use by the thread that waits
                socket.socket.shutdown(self._sock, socket.SHUT_RDWR)
