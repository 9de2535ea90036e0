"""What must not grow with the fleet, or not faster than it: counted, never timed."""

import cProfile
import gc
import zipfile
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

import pytest

from reconciler.decision.decide import decide
from reconciler.domain.answers import Body
from reconciler.domain.plan import Outcome
from reconciler.domain.recording import Recording
from reconciler.manifests.documents import Document, compose_section
from reconciler.pipeline.draft import draft_plan
from reconciler.pipeline.prepare import Prepared, prepare
from reconciler.pipeline.recording import fingerprint, read_recording, write_recording
from reconciler.rendering.renderer import Renderer
from reconciler.report import formatting as plain
from reconciler.report.text import plan_text
from reconciler.snapshot.build import read_snapshot
from reconciler.snapshot.declarations import fold, read_declaration, read_recorded
from tests.bench.answers import FORGOTTEN
from tests.bench.fleet import Fleet
from tests.bench.observing import Observation, observe_fleet

Outcomes = TypeVar("Outcomes")


def observe_one(size: int, directory: Path) -> Observation:
    return observe_fleet(Fleet(size), directory / f"{size}.git")


def record(size: int, directory: Path) -> Recording:
    return observe_one(size, directory).observed.recording


def prepare_one(size: int, directory: Path) -> Prepared:
    return prepare(record(size, directory), Renderer())


@dataclass(frozen=True)
class CountedBody:
    """A body that says when it is read."""

    body: Body
    name: str
    reads: Counter[str]

    def read(self) -> bytes:
        self.reads[self.name] += 1
        return self.body.read()


def counted(function: Callable[..., Outcomes], calls: Counter[str]) -> Callable[..., Outcomes]:
    def call(*arguments: object, **named: object) -> Outcomes:
        calls[function.__name__] += 1
        return function(*arguments, **named)

    return call


def test_a_thousand_variants_ask_prometheus_as_often_as_ten(tmp_path: Path) -> None:
    assert observe_one(10, tmp_path).queries == observe_one(1_000, tmp_path).queries > 0


def test_the_fleet_answers_every_quantity_that_is_asked_for() -> None:
    assert set() == FORGOTTEN


def test_about_a_third_of_the_fleet_changes_and_nothing_is_held(tmp_path: Path) -> None:
    plan = prepare_one(300, tmp_path).plan

    assert not plan.with_outcome(Outcome.HELD)
    assert 0.2 < len(plan.with_outcome(Outcome.CHANGE)) / len(plan.decisions) < 0.4


@pytest.mark.parametrize("size", [10, 100])
def test_an_answer_is_read_a_few_times_whatever_the_number_of_variants(size: int, tmp_path: Path) -> None:
    recording, reads = record(size, tmp_path), Counter[str]()
    answers = tuple(
        replace(answer, body=CountedBody(answer.body, f"{number} {answer.query.quantity}", reads))
        for number, answer in enumerate(recording.answers)
    )

    prepare(replace(recording, answers=answers), Renderer())

    assert max(reads.values()) <= 3  # for the fingerprint, for its samples, for warnings


def test_the_archive_of_a_recording_is_opened_once_for_all_its_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, calls = tmp_path / "recording.zip", Counter[str]()
    write_recording(record(30, tmp_path), path)
    monkeypatch.setattr(zipfile, "ZipFile", counted(zipfile.ZipFile, calls))

    prepare(read_recording(path), Renderer())

    assert calls["ZipFile"] == 1


def test_a_draft_reads_only_the_documents_that_it_changes_a_few_times(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recording, calls = record(100, tmp_path), Counter[str]()
    for module in ("documents", "editing"):
        monkeypatch.setattr(f"reconciler.manifests.{module}.compose_section", counted(compose_section, calls))
    reading = calls_of_reading(recording, calls)

    prepared = prepare(recording, Renderer())

    changes = len(prepared.plan.with_outcome(Outcome.CHANGE))
    # The resource and its Deployment, before and after; what they become is read once more as `validate` reads it.
    assert calls["compose_section"] - reading <= 2 * 4 * changes


def calls_of_reading(recording: Recording, calls: Counter[str]) -> int:
    """How many documents are composed to read the declaration alone, which every plan does once."""
    read_declaration(recording.manifests, recording.withheld, recording.settings)
    reading = calls["compose_section"]
    calls.clear()
    return reading


def test_a_table_measures_each_cell_a_few_times_whatever_the_number_of_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    per_change = []
    for size in (30, 300):
        plan, calls = prepare_one(size, tmp_path).plan, Counter[str]()
        with monkeypatch.context() as patched:
            patched.setattr(plain, "display_width", counted(plain.display_width, calls))
            plan_text(plan)
        per_change.append(calls["display_width"] / len(plan.with_outcome(Outcome.CHANGE)))

    assert per_change[1] <= 1.5 * per_change[0]


def test_a_replay_has_the_fingerprint_of_its_recording(tmp_path: Path) -> None:
    recording, path = record(20, tmp_path), tmp_path / "recording.zip"
    write_recording(recording, path)

    assert fingerprint(read_recording(path)) == fingerprint(recording)


def calls_of(act: Callable[[], object]) -> int:
    """How many functions are called, ours, the libraries' and the built-in ones: hardly any work is without a call."""
    profile = cProfile.Profile()
    profile.runcall(act)
    return sum(entry.callcount for entry in profile.getstats())


def calls_by_act(recording: Recording) -> dict[str, int]:
    """The calls of each act of a plan, without what is compiled and imported once."""
    prepare(recording, Renderer())
    declaration = read_declaration(recording.manifests, recording.withheld, recording.settings)
    snapshot = read_snapshot(recording, declaration, "")
    commit = read_recorded(recording.manifests, recording.withheld, recording.settings, ())
    return {
        "parse": calls_of(lambda: read_recorded(recording.manifests, recording.withheld, recording.settings, ())),
        "fold": calls_of(lambda: fold(commit, recording.settings)),
        "snapshot": calls_of(lambda: read_snapshot(recording, declaration, "")),
        "decide": calls_of(lambda: decide(snapshot)),
        "draft": calls_of(lambda: draft_plan(snapshot, recording, Renderer())),
    }


def test_no_act_of_a_plan_does_more_for_a_variant_of_many_than_for_one_of_few(tmp_path: Path) -> None:
    few, some, many = (calls_by_act(record(size, tmp_path)) for size in (10, 100, 1_000))

    growth = {act: (many[act] / 1_000) / (some[act] / 100) for act in many}
    assert {act: each for act, each in growth.items() if each > 1.1} == {}
    assert {act: each for act, each in some.items() if each > 10 * few[act] * 1.1} == {}


def test_an_act_that_grows_too_fast_is_found() -> None:
    def act(size: int) -> object:
        return [min(range(size), key=lambda other: abs(each - other)) for each in range(size)]

    assert calls_of(lambda: act(100)) > 50 * calls_of(lambda: act(10))


def test_documents_are_gone_when_they_are_read_while_nothing_is_collected(tmp_path: Path) -> None:
    recording = record(10, tmp_path)
    gc.collect()
    before = documents_in_memory()
    gc.disable()  # as in a run: what holds itself stays until its end
    try:
        declaration = read_declaration(recording.manifests, recording.withheld, recording.settings)
        kept = documents_in_memory() - before
    finally:
        gc.enable()

    assert declaration.variants
    assert kept == 0


def documents_in_memory() -> int:
    return sum(type(each) is Document for each in gc.get_objects())
