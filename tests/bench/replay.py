"""How long `plan --replay` takes over fleets of several sizes: act by act in one process, and as people start it."""

import gc
import json
import re
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import yaml

from reconciler.decision.decide import decide
from reconciler.pipeline.draft import Style, draft_plan, write_texts
from reconciler.pipeline.recording import fingerprint, read_recording, write_recording
from reconciler.rendering.renderer import Renderer
from reconciler.report.text import plan_text
from reconciler.snapshot.build import read_snapshot
from reconciler.snapshot.declarations import read_declaration
from tests.bench.answers import series_in
from tests.bench.figures import Bench, Figure
from tests.bench.fleet import Fleet
from tests.bench.observing import observe_fleet
from tests.bench.processes import run_python

SIZES = (1_000,)
LARGE_SIZES = (10_000, 30_000)
REPEATS = 3
MANIFESTS = "libyaml reading the manifests"
ANSWERS = "json reading the answers"
YARDSTICK = f"{MANIFESTS}, {ANSWERS}"
"""What the C libraries alone need for the same files: not a part of the plan."""
YARDSTICKS_ALONE = "--yardsticks-alone"
BODY_LIMIT = 65_000
"""Of a pull request's body, about what forges allow."""


def measure(bench: Bench) -> Iterator[Figure]:
    """Whole plans of restless fleets; of large ones one run, of the largest without its acts."""
    for size in (*SIZES, *(LARGE_SIZES if bench.is_all else ())):
        yield from _measure_one(size, bench)


def _measure_one(size: int, bench: Bench) -> Iterator[Figure]:
    with tempfile.TemporaryDirectory() as directory:
        observation = observe_fleet(Fleet(size), Path(directory) / "fleet.git")
        recording = observation.observed.recording
        path = Path(directory) / "fleet.zip"
        write_recording(recording, path)
        facts = {"files": observation.files, "series": series_in(recording.answers), "requests": observation.queries}
        del observation, recording
        repeats = REPEATS if size in SIZES else 1
        ours, base = bench.paired(
            lambda tree: run_python("reconciler", "plan", "--replay", str(path), tree=tree), repeats
        )
        only = [YARDSTICKS_ALONE] if size == LARGE_SIZES[-1] else []
        acts_s: dict[str, float] = json.loads(run_python("tests.bench.replay", str(path), *only).output)
        yield Figure(
            part="plan",
            name=f"plan --replay of {size:,} variants",
            processor_s=ours.processor_s,
            peak_mib=ours.peak_mib,
            yardstick=YARDSTICK,
            yardstick_s=acts_s[MANIFESTS] + acts_s[ANSWERS],
            base_s=None if base is None else base.processor_s,
            more={"variants": size, "changes": _changes_in(ours.output), **facts},
        )
        for act, seconds in acts_s.items():
            if act not in {MANIFESTS, ANSWERS}:
                yield Figure(part="plan", name=f"  {size:,}: {act}", processor_s=seconds)


def _changes_in(text: str) -> int:
    found = re.search(r"^(\d+) changes? ", text, re.MULTILINE)
    return int(found[1]) if found else 0


def time_acts(path: Path, *, yardsticks_alone: bool = False) -> dict[str, float]:
    """Processor seconds of each act of one plan; no collector, as in a run."""
    gc.disable()
    watch = _Stopwatch()
    renderer = Renderer()
    with watch("read recording"):
        recording = read_recording(path)
    with watch(MANIFESTS):
        for manifest in recording.manifests:
            for _ in yaml.parse(manifest.body, Loader=yaml.CLoader):
                pass
    with watch(ANSWERS):
        for answer in recording.answers:
            json.loads(answer.body.read())
    if yardsticks_alone:
        return watch.acts_s
    with watch("parse"):
        declaration = read_declaration(recording.manifests, recording.withheld, recording.settings)
    with watch("snapshot"):
        snapshot = read_snapshot(recording, declaration, fingerprint(recording))
    with watch("decide"):
        decide(snapshot)
    with watch("decide again"):
        decide(snapshot)
    with watch("draft"):
        snapshot, plan, edited = draft_plan(snapshot, recording, renderer)
    watch.acts_s["draft"] -= watch.acts_s.pop("decide again")  # settling decides too, by now without an import
    with watch("pull requests"):
        write_texts(plan, edited, renderer, Style(body_limit=BODY_LIMIT))
    with watch("report"):
        plan_text(plan)
    return watch.acts_s


class _Stopwatch:
    """Seconds by act, in the order of the acts."""

    def __init__(self) -> None:
        self.acts_s: dict[str, float] = {}

    @contextmanager
    def __call__(self, act: str) -> Iterator[None]:
        started = time.process_time()
        yield
        self.acts_s[act] = time.process_time() - started


if __name__ == "__main__":
    print(json.dumps(time_acts(Path(sys.argv[1]), yardsticks_alone=YARDSTICKS_ALONE in sys.argv)))
