"""Traffic: how many requests this process sent to each host, and how many of them brought nothing."""

import threading
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit


@dataclass(frozen=True, slots=True, kw_only=True)
class HostTraffic:
    """Attempts, retries among them, and those that failed."""

    requests: int
    failures: int


@dataclass(slots=True)
class Traffic:
    """Counts that only grow; may be used by several threads."""

    _requests: Counter[str] = field(default_factory=Counter)
    _failures: Counter[str] = field(default_factory=Counter)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def note(self, url: str, *, failed: bool) -> None:
        """Count one request to the host of a URL."""
        host = urlsplit(url).netloc.rpartition("@")[2]
        with self._lock:
            self._requests[host] += 1
            self._failures[host] += failed

    def by_host(self) -> Mapping[str, HostTraffic]:
        """What was counted so far."""
        with self._lock:
            return {
                host: HostTraffic(requests=number, failures=self._failures[host])
                for host, number in self._requests.items()
            }


TRAFFIC = Traffic()
"""Of every door of this process."""
