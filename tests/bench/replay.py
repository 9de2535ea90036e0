"""How long `plan --replay` takes over fleets of several sizes: act by act in one process, and as people start it."""

import gc
import json
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import yaml

from reconciler.decision.decide import decide
from reconciler.domain.plan import Outcome
from reconciler.pipeline.draft import Style, draft_plan, write_texts
from reconciler.pipeline.recording import fingerprint, read_recording, write_recording
from reconciler.rendering.renderer import Renderer
from reconciler.report.text import plan_text
from reconciler.snapshot.build import read_snapshot
from reconciler.snapshot.declarations import read_declaration
from tests.bench.answers import series_in
from tests.bench.fleet import CALM, Fleet
from tests.bench.observing import observe_fleet
from tests.bench.processes import Spent, run_python

SIZES = (100, 1_000, 10_000)
REPEATS = 3
YARDSTICK = "yardstick: libyaml reads the manifests"
"""A machine's speed of the moment: what the C library alone needs for the same files. Not a part of the plan."""
BODY_LIMIT = 65_000
"""Of a pull request's body, about what forges allow."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Replayed:
    """One fleet's plan: what it was made from, seconds by act, and what the whole process took (medians)."""

    variants: int
    changes: int
    files: int
    pods: int
    series: int
    queries: int
    acts_s: dict[str, float]
    whole: Spent

    @property
    def yardsticks(self) -> float:
        """The whole process in units of the yardstick: this hardly depends on how fast the machine is just now."""
        return self.whole.user_s / self.acts_s[YARDSTICK]


def measure(sizes: Sequence[int] = SIZES) -> list[Replayed]:
    """Record a restless fleet of each size, the largest a calm one too, and replay them."""
    fleets = [*(Fleet(size) for size in sizes), Fleet(max(sizes), CALM)]
    return [_measure_one(fleet) for fleet in fleets]


def queries_by_size(sizes: Sequence[int] = (10, 1_000)) -> dict[int, int]:
    """How many requests Prometheus gets for fleets of each size."""
    with tempfile.TemporaryDirectory() as directory:
        return {size: observe_fleet(Fleet(size), Path(directory) / str(size)).queries for size in sizes}


def _measure_one(fleet: Fleet) -> Replayed:
    with tempfile.TemporaryDirectory() as directory:
        observation = observe_fleet(fleet, Path(directory) / "fleet.git")
        recording = observation.observed.recording
        path = Path(directory) / "fleet.zip"
        write_recording(recording, path)
        stages = [json.loads(run_python("tests.bench.replay", str(path)).output) for _ in range(REPEATS)]
        plan = [run_python("reconciler", "plan", "--replay", str(path), "-o", "text") for _ in range(REPEATS)]
    return Replayed(
        variants=fleet.size,
        changes=stages[0]["changes"],
        files=observation.files,
        pods=fleet.size,
        series=series_in(recording.answers),
        queries=observation.queries,
        acts_s={act: median(each["acts_s"][act] for each in stages) for act in stages[0]["acts_s"]},
        whole=Spent.median_of(plan),
    )


def time_acts(path: Path) -> dict[str, object]:
    """Seconds of every act of one plan, and how many variants it changes; the collector is off, as in a run."""
    gc.disable()
    watch = _Stopwatch()
    renderer = Renderer()
    with watch("read recording"):
        recording = read_recording(path)
    with watch(YARDSTICK):
        for manifest in recording.manifests:
            for _ in yaml.parse(manifest.body, Loader=yaml.CLoader):
                pass
    with watch("parse"):
        declaration = read_declaration(recording.manifests, recording.withheld, recording.settings)
    with watch("snapshot"):
        snapshot = read_snapshot(recording, declaration, fingerprint(recording))
    with watch("decide"):
        decide(snapshot)
    with watch("decide again"):
        decide(snapshot)
    with watch("draft"):
        plan, edited = draft_plan(snapshot, recording, renderer)
    watch.acts_s["draft"] -= watch.acts_s.pop("decide again")  # settling decides too, by now without an import
    with watch("pull requests"):
        write_texts(plan, edited, renderer, Style(body_limit=BODY_LIMIT))
    with watch("report"):
        plan_text(plan)
    return {"acts_s": watch.acts_s, "changes": len(plan.with_outcome(Outcome.CHANGE))}


class _Stopwatch:
    """Seconds by act, in the order of the acts."""

    def __init__(self) -> None:
        self.acts_s: dict[str, float] = {}

    @contextmanager
    def __call__(self, act: str) -> Iterator[None]:
        started = time.perf_counter()
        yield
        self.acts_s[act] = time.perf_counter() - started


if __name__ == "__main__":
    print(json.dumps(time_acts(Path(sys.argv[1]))))
