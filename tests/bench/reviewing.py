"""How long a review of somebody else's change takes beside a plan of the same fleet."""

import re
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from reconciler.config.environment import Environment, Flags
from reconciler.domain.answers import Answer, Query
from reconciler.domain.reports import Review
from reconciler.domain.settings import ClusterSettings
from reconciler.git.clone import clone_base
from reconciler.git.repository import create_bare, open_directory
from reconciler.pipeline.review import HeadReader, Reviewer, decide_base
from reconciler.pipeline.run import plan
from reconciler.pipeline.session import Doors
from reconciler.rendering.renderer import Renderer
from tests.bench.fleet import NOW_S, Fleet
from tests.bench.manifests import repository_files
from tests.bench.observing import AUTHOR, FleetPrometheus, fleet_settings

REPLICAS = re.compile(rb"(\n  replicas: \d+)(\s)")
SIZE = 1_000
RUNS = 3
CHANGED = 20
"""Files that the head changes."""


class Stage:
    """A fleet in a bare repository, and a branch `change` that gives twenty variants other replicas."""

    def __init__(self, folder: Path, fleet: Fleet) -> None:
        files = repository_files(fleet)
        self._directory = folder / "fleet.git"
        create_bare(
            self._directory,
            branch="main",
            files=files,
            message="Add the fleet",
            author=AUTHOR,
            date_s=int(NOW_S) - 3600,
        )
        clone = clone_base(str(self._directory), base="main", credentials=None, directory=folder / "clone")
        changed = {path: REPLICAS.sub(rb"\g<1>1\g<2>", body) for path, body in files.items() if REPLICAS.search(body)}
        chosen = dict(sorted(changed.items())[:CHANGED])
        commit = clone.write_commit(
            parent=clone.commit, files=chosen, message="Change", author=AUTHOR, date_s=int(NOW_S)
        )
        clone.push("change", commit, expected=None)
        self._settings = fleet_settings(files["reconciler.yaml"])
        self._prometheus = FleetPrometheus(fleet)
        self._answers: tuple[Answer, ...] = ()

    def plan(self) -> object:
        """A whole plan."""
        return plan(self._doors, self._settings, NOW_S, repository="fleet")

    def review(self) -> Review:
        """A whole review."""
        doors = self._doors
        reader = HeadReader(
            base=doors.repository,
            settings=self._settings,
            flags=Flags(),
            environment=Environment(),
            name="fleet",
        )
        base = decide_base(doors, self._settings, NOW_S, "fleet")
        return Reviewer(base=base, reader=reader).review(open_directory(self._directory, base="change"))

    @property
    def _doors(self) -> Doors:
        repository = open_directory(self._directory, base="main")
        return Doors(repository=repository, ask=self._ask, forge=None, author=AUTHOR, renderer=Renderer())

    def _ask(self, cluster: ClusterSettings, queries: Sequence[Query]) -> tuple[Answer, ...]:
        """The same questions each time; what it takes to make the answers up is nobody's work."""
        self._answers = self._answers or self._prometheus.ask(cluster, queries)
        return self._answers


def _seconds(act: Callable[[], object]) -> float:
    started_s = time.process_time()
    act()
    return time.process_time() - started_s


def measure(size: int = SIZE, runs: int = RUNS) -> dict[str, Any]:
    """Seconds of processor time of a plan and of a review, the median of some runs, and their ratio."""
    with tempfile.TemporaryDirectory() as folder:
        stage = Stage(Path(folder), Fleet(size=size))
        stage.plan()  # imports everything
        times: dict[str, list[float]] = {"plan": [], "review": []}
        for _ in range(runs):
            times["plan"].append(_seconds(stage.plan))
            times["review"].append(_seconds(stage.review))
        found = stage.review()
    plan_s, review_s = (statistics.median(times[act]) for act in ("plan", "review"))
    return {
        "variants": size,
        "changed": len(found.allocations),
        "plan, s": round(plan_s, 3),
        "review, s": round(review_s, 3),
        "ratio": round(review_s / plan_s, 3),
    }
