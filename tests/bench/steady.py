"""How long a whole run takes that has nothing to write: over HTTP, from a clone, with its pull requests open."""

import json
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs

from reconciler.domain.answers import Query
from reconciler.git.repository import create_bare
from tests.bench.answers import answers_to
from tests.bench.figures import Bench, Figure
from tests.bench.fleet import NOW_S, Fleet
from tests.bench.manifests import repository_files
from tests.bench.observing import AUTHOR, observe_fleet
from tests.bench.processes import Spent, run_python

SIZE = 1_000
REPEATS = 3


@dataclass(slots=True)
class HttpFleet:
    """What Prometheus answers of a fleet at any time, by the text of a query; made once and kept."""

    fleet: Fleet
    quantities: Mapping[str, str]
    kept: dict[tuple[str, float, float, float | None], bytes] = field(default_factory=dict)
    requests: int = 0

    def answer(self, form: Mapping[str, str]) -> bytes:
        """The body for one request; times are those of the request, on whole steps."""
        text = form["query"]
        is_range = "step" in form
        names = ("start", "end") if is_range else ("time", "time")
        start_s, end_s = (float(form.get(name, NOW_S)) for name in names)
        step_s = float(form["step"]) if is_range else None
        key = (text, *((start_s, end_s) if is_range else (0.0, 0.0)), step_s)
        if key not in self.kept:
            query = Query(
                cluster="prod",
                quantity=self.quantities.get(text, ""),
                text=text,
                start_s=start_s,
                end_s=end_s,
                step_s=step_s,
            )
            self.kept[key] = answers_to(self.fleet, [query])[0].body.read()
        self.requests += 1
        body = self.kept[key]
        return body if is_range else body.replace(f"[{NOW_S}".encode(), f"[{start_s:.3f}".encode())


@contextmanager
def served(answers: HttpFleet) -> Iterator[str]:
    """The address of a server that gives these answers."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            form = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
            self._send(answers.answer({name: values[0] for name, values in form.items()}))

        def do_GET(self) -> None:
            self._send(json.dumps({"status": "success", "data": {}}).encode())

        def log_message(self, *arguments: object) -> None:
            """Nothing is logged."""

        def _send(self, body: bytes) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


def measure(bench: Bench, size: int = SIZE) -> Iterator[Figure]:
    """The second run and those after it: every pull request is open as it was."""
    fleet = Fleet(size)
    with tempfile.TemporaryDirectory() as folder:
        observed = observe_fleet(fleet, Path(folder) / "asked.git").observed.recording
        answers = HttpFleet(fleet=fleet, quantities={each.query.text: each.query.quantity for each in observed.answers})
        directory = Path(folder) / "fleet.git"
        files = repository_files(fleet)
        create_bare(
            directory, branch="main", files=files, message="Add the fleet", author=AUTHOR, date_s=int(NOW_S) - 3600
        )
        with served(answers) as url:
            recording = Path(folder) / "run.zip"
            command = ("reconciler", "run", "--repo", f"file://{directory}", "--prometheus", url, "-o", "json")
            first = json.loads(run_python(*command).output)
            answers.requests = 0
            kept = run_python(*command, "--record", str(recording))
            requests = answers.requests
            second = json.loads(kept.output)
            written = [each for each in second["published"] if each["operation"] not in {"none", "unchanged"}]
            ours, base = bench.paired(lambda tree: run_python(*command, tree=tree), REPEATS)
        replay = ("reconciler", "plan", "--replay", str(recording))
        replayed = Spent.median_of([run_python(*replay) for _ in range(REPEATS)])
    yield Figure(
        part="plan",
        name=f"run of {size:,} variants, nothing to write",
        processor_s=ours.processor_s,
        peak_mib=ours.peak_mib,
        yardstick="plan --replay of the same",
        yardstick_s=replayed.processor_s,
        base_s=None if base is None else base.processor_s,
        more={"pull requests": len(first["published"]), "written": len(written), "requests": requests},
    )


if __name__ == "__main__":
    for each in measure(Bench(), int(sys.argv[1]) if len(sys.argv) > 1 else SIZE):
        sys.stdout.write(each.line() + "\n")
