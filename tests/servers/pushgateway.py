"""A real Pushgateway, and what it shows."""

import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.request import ProxyHandler, build_opener  # noqa: TID251  # a server of the tests, not the product

PUSHGATEWAY = shutil.which("prometheus-pushgateway") or shutil.which("pushgateway") or ""
ABSENT = "" if PUSHGATEWAY else "needs Debian's prometheus-pushgateway"


@contextmanager
def serve_pushgateway() -> Iterator[str]:
    """The base URL of an empty one."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{probe.getsockname()[1]}"
    process = subprocess.Popen(
        [PUSHGATEWAY, f"--web.listen-address={address}", "--persistence.file="],  # Debian's remembers
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        for _ in range(200):
            try:
                shown_by(f"http://{address}")
                break
            except OSError:
                time.sleep(0.05)
        yield f"http://{address}"
    finally:
        process.terminate()
        process.wait(timeout=30)


def shown_by(url: str) -> str:
    """What Prometheus would scrape."""
    with build_opener(ProxyHandler({})).open(f"{url}/metrics", timeout=5) as answer:
        return str(answer.read().decode())
