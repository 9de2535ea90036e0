"""A run that is stopped: a word, the documented code, and nothing left behind."""

import os
import signal
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from tests.servers.desk import Desk
from tests.servers.scripted import ScriptedServer, serve_script


@pytest.mark.parametrize(("sent", "code", "word"), [(signal.SIGTERM, 143, "SIGTERM"), (signal.SIGINT, 130, "SIGINT")])
def test_a_stopped_run_says_so_and_cleans_up_at_once(
    sent: signal.Signals, code: int, word: str, desk: Desk, tmp_path: Path
) -> None:
    released = threading.Event()

    def say_nothing(_request: BaseHTTPRequestHandler) -> None:
        released.wait(60)

    with serve_script(say_nothing) as prometheus:
        try:
            _stop(prometheus, sent, code, word, desk, tmp_path)
        finally:
            released.set()


def _stop(prometheus: ScriptedServer, sent: signal.Signals, code: int, word: str, desk: Desk, tmp_path: Path) -> None:
    left = tmp_path / "left"
    left.mkdir()
    process = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "reconciler",
            "run",
            "--repo",
            str(desk.workshop.remote),
            "--prometheus",
            prometheus.url,
        ],
        env={**os.environ, "TMPDIR": str(left)},
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
    )
    deadline = time.monotonic() + 60
    while not prometheus.seen and time.monotonic() < deadline and process.poll() is None:
        time.sleep(0.05)
    assert list(left.iterdir()), "the private clone lies there while Prometheus is asked"
    process.send_signal(sent)
    _, said = process.communicate(timeout=50)
    assert process.returncode == code
    assert f"error: {word}: " in said
    assert "Traceback" not in said
    assert list(left.iterdir()) == []
