"""A real Prometheus over history that a test wrote, and the OpenMetrics text it is made from."""

import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.request import ProxyHandler, build_opener  # noqa: TID251  # a server of the tests, not the product

PROMETHEUS = shutil.which("prometheus") or ""
PROMTOOL = shutil.which("promtool") or ""
ABSENT = "needs Debian's prometheus with promtool" if not (PROMETHEUS and PROMTOOL) else ""
DISK = "/var/tmp" if os.access("/var/tmp", os.W_OK) else None
"""Where promtool works: it reserves 512 MB for each block, free on a disk, and written with zeros in memory."""

Points = Sequence[tuple[float, float]]
"""Unix seconds and values."""


@dataclass(slots=True)
class History:
    """Series by metric; `counter` and `gauge` sample a straight line every `step_s` up to `end_s`."""

    end_s: float
    step_s: float = 15.0
    _families: dict[tuple[str, str], list[tuple[Mapping[str, str], Points]]] = field(default_factory=dict)

    def counter(self, metric: str, labels: Mapping[str, str], per_s: float, *, since_s: float = 1200.0) -> None:
        """A counter that grows by `per_s`; `metric` ends in `_total`."""
        self.series("counter", metric.removesuffix("_total"), labels, self._line(0.0, per_s, since_s, 0.0), "_total")

    def histogram(
        self, metric: str, labels: Mapping[str, str], mean: float, per_s: float, *, since_s: float = 1200.0
    ) -> None:
        """A histogram's `_sum` and `_count`, with `per_s` observations of `mean` a second."""
        self.series("histogram", metric, labels, self._line(0.0, per_s * mean, since_s, 0.0), "_sum")
        self.series("histogram", metric, labels, self._line(0.0, per_s, since_s, 0.0), "_count")

    def buckets(self, metric: str, labels: Mapping[str, str], per_s: Mapping[str, float]) -> None:
        """A histogram's `_bucket` series, by their bounds."""
        for bound, rate in per_s.items():
            self.series("histogram", metric, {**labels, "le": bound}, self._line(0.0, rate, 1200.0, 0.0), "_bucket")

    def gauge(
        self,
        metric: str,
        labels: Mapping[str, str],
        value: float,
        *,
        per_s: float = 0.0,
        since_s: float = 1200.0,
        until_s: float = 0.0,
    ) -> None:
        """A gauge that is `value` at `end_s` and changes by `per_s`, with samples up to `until_s` before the end."""
        self.series("gauge", metric, labels, self._line(value - per_s * since_s, per_s, since_s, until_s), "")

    def series(self, kind: str, metric: str, labels: Mapping[str, str], points: Points, suffix: str) -> None:
        """Any points at all."""
        self._families.setdefault((metric, kind), []).append(({**labels, "": suffix}, points))

    def families(self) -> Iterator[tuple[str, str, dict[str, str], Points]]:
        """Metric, kind, labels and points of every series; the suffix of its name stands under the empty label."""
        for (metric, kind), members in self._families.items():
            yield from ((metric, kind, dict(labels), points) for labels, points in members)

    def lines(self) -> Iterator[str]:
        """OpenMetrics text, each family in one place."""
        for (metric, kind), members in sorted(self._families.items()):
            yield f"# TYPE {metric} {kind}\n"
            for labels, points in members:
                named = ",".join(f'{name}="{_escape(value)}"' for name, value in labels.items() if name)
                for at_s, value in points:
                    yield f"{metric}{labels['']}{{{named}}} {value!r} {at_s:.3f}\n"
        yield "# EOF\n"

    def _line(self, start: float, per_s: float, since_s: float, until_s: float) -> Points:
        count = int((since_s - until_s) / self.step_s) + 1
        first_s = self.end_s - since_s
        return [(first_s + index * self.step_s, start + per_s * index * self.step_s) for index in range(count)]


def vllm_replica(
    history: History,
    labels: Mapping[str, str],
    *,
    per_s: float,
    running: float = 4.0,
    waiting: float = 0.0,
    growth_per_s: float = 0.0,
    output_tokens: float = 180.0,
    input_tokens: float = 512.0,
    itl_s: float = 0.02,
    wait_s: float = 0.1,
    ttft_s: float = 0.3,
    old_names: bool = False,
    since_s: float = 1200.0,
) -> None:
    """What one vLLM replica exports, straight lines all of it."""
    history.counter("vllm:request_success_total", {**labels, "finished_reason": "stop"}, per_s, since_s=since_s)
    history.counter("vllm:request_success_total", {**labels, "finished_reason": "length"}, 0.0, since_s=since_s)
    history.gauge("vllm:num_requests_running", labels, running, since_s=since_s)
    history.gauge("vllm:num_requests_waiting", labels, waiting, per_s=growth_per_s, since_s=since_s)
    history.histogram("vllm:request_generation_tokens", labels, output_tokens, per_s, since_s=since_s)
    history.histogram("vllm:request_prompt_tokens", labels, input_tokens, per_s, since_s=since_s)
    history.histogram("vllm:request_queue_time_seconds", labels, wait_s, per_s, since_s=since_s)
    history.histogram("vllm:time_to_first_token_seconds", labels, ttft_s, per_s, since_s=since_s)
    name = "time_per_output_token_seconds" if old_names else "inter_token_latency_seconds"
    history.histogram(f"vllm:{name}", labels, itl_s, per_s * output_tokens, since_s=since_s)


@contextmanager
def prometheus_over(history: History, directory: Path, *, days: int = 0) -> Iterator[str]:
    """The base URL of a Prometheus that holds `history`; its files live in the empty `directory`.

    With `days` it is written in blocks of so long: each takes half a second to make.
    """
    blocks = directory / "blocks"
    write_blocks(history, directory / "history.om", blocks, 24 * days or 2)
    with serve_blocks(blocks, directory) as url:
        yield url


def write_blocks(history: History, source: Path, blocks: Path, block_h: int = 2) -> None:
    """Add `history` to the `blocks` of a Prometheus, by way of the new file `source`.

    promtool reads the file once a block: longer ones (6, 18 or 54 hours) are written faster where no two overlap.
    """
    blocks.mkdir(exist_ok=True)
    with source.open("w", encoding="utf-8") as file:
        file.writelines(history.lines())
    with tempfile.TemporaryDirectory(dir=DISK) as folder:
        longest = f"--max-block-duration={block_h}h"
        command = [PROMTOOL, "tsdb", "create-blocks-from", "openmetrics", longest, str(source), folder]
        subprocess.run(command, env=_sparing(), check=True, capture_output=True)
        for made in Path(folder).iterdir():
            shutil.move(made, blocks / made.name)


@contextmanager
def serve_blocks(blocks: Path, directory: Path) -> Iterator[str]:
    """The base URL of a Prometheus that holds these blocks."""
    config = directory / "prometheus.yml"
    config.write_text("scrape_configs: []\n", encoding="utf-8")
    address = f"127.0.0.1:{free_port()}"
    with (directory / "log").open("wb") as log:
        process = subprocess.Popen(
            [
                PROMETHEUS,
                f"--config.file={config}",
                f"--web.listen-address={address}",
                f"--storage.tsdb.path={blocks}",
                "--storage.tsdb.retention.time=100y",
                "--web.enable-remote-write-receiver",
                # No compaction, which begins after a minute and lets queries wait for half of another.
                "--storage.tsdb.min-block-duration=2h",
                "--storage.tsdb.max-block-duration=2h",
            ],
            env=_sparing(),
            stdout=log,
            stderr=log,
        )
        try:
            wait_until_ready(f"http://{address}/-/ready", process)
            yield f"http://{address}"
        finally:
            process.terminate()
            process.wait(timeout=30)


def _sparing() -> dict[str, str]:
    """An environment in which Go seldom collects garbage: over so small a database a third of a server's time."""
    return {**os.environ, "GOGC": "400"}


def wait_until_ready(url: str, process: "subprocess.Popen[bytes]") -> None:
    """Wait for the first answer of a server; RuntimeError where it ended."""
    opener = build_opener(ProxyHandler({}))
    for _ in range(300):
        if process.poll() is not None:
            break
        try:
            with opener.open(url, timeout=1):
                return
        except OSError:
            time.sleep(0.05)
    raise RuntimeError(f"no server became ready at {url}")


def free_port() -> int:
    """A port that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _escape(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
