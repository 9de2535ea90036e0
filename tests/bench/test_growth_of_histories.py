"""Points of a history are arrays: reading and judging them takes as many steps for ten thousand as for ten."""

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import reconciler
from reconciler.decision.decide import decide
from reconciler.domain.answers import Answer, AnswerStatus, HeldBody
from reconciler.domain.history import Grid, LoadHistory
from reconciler.domain.recording import Recording
from reconciler.snapshot.build import read_snapshot
from reconciler.snapshot.declarations import read_declaration
from tests.bench.fleet import Fleet
from tests.bench.history import body_of, models_of, queries, read
from tests.bench.observing import observe_fleet

OURS = str(Path(reconciler.__file__).parent)


@contextmanager
def counted() -> Iterator[list[int]]:
    """How many lines of this program's own code run, a line of a loop or generator as often as it turns."""
    steps, before = [0], sys.gettrace()

    def local(_: FrameType, event: str, __: Any) -> Callable[..., Any]:
        steps[0] += event == "line"
        return local

    def trace(frame: FrameType, _: str, __: Any) -> Callable[..., Any] | None:
        return local if frame.f_code.co_filename.startswith(OURS) else None

    sys.settrace(trace)
    try:
        yield steps
    finally:
        sys.settrace(before)


def steps_to_read(models: int, moments: int) -> int:
    asked = queries(models, (moments - 1) * 3600.0, 3600.0)
    answers = [
        Answer(query=query, status=AnswerStatus.OK, body=HeldBody(content=body_of(query, models))) for query in asked
    ]
    known = models_of(models)
    read(answers, known)  # once uncounted: methods of records are compiled when they are first called
    with counted() as steps:
        read(answers, known)
    return steps[0]


def test_a_python_loop_of_ours_is_counted() -> None:
    taken = []
    for turns in (10, 110):
        with counted() as steps:
            assert len(list(Grid(start_s=0.0, step_s=60.0, count=turns).parts(1))) == turns
        taken.append(steps[0])
    assert taken[1] - taken[0] >= 100


def test_reading_a_history_takes_as_many_steps_for_many_moments_as_for_few() -> None:
    few, many = (steps_to_read(20, moments) for moments in (10, 1_000))
    assert many == few


def test_reading_histories_takes_at_most_as_many_times_the_steps_as_there_are_models() -> None:
    ten, thousand, all_of_them = (steps_to_read(models, 10) for models in (10, 1_000, 10_000))
    assert thousand <= 100 * ten
    assert all_of_them <= 10.1 * thousand
    assert all_of_them <= 50 * 2 * 10_000  # lines for each series


def stretched(recording: Recording, times: int) -> Recording:
    """The same recording with so many times the moments in each range, all as the first."""

    def longer(answer: Answer) -> Answer:
        query = answer.query
        if query.step_s is None:
            return answer
        document = json.loads(answer.body.read())
        for entry in document["data"]["result"]:
            count, (first_s, text) = len(entry["values"]), entry["values"][0]
            more = range(-count * (times - 1), count)
            entry["values"] = [[first_s + index * query.step_s, text] for index in more]
        span_s = query.end_s - query.start_s + query.step_s
        return replace(
            answer,
            query=replace(query, start_s=query.start_s - (times - 1) * span_s),
            body=HeldBody(content=json.dumps(document).encode()),
        )

    return replace(recording, answers=tuple(map(longer, recording.answers)))


@pytest.mark.parametrize("size", [30])
def test_a_plan_takes_as_many_steps_with_a_long_past_as_with_a_short_one(size: int, tmp_path: Path) -> None:
    recording = observe_fleet(Fleet(size), tmp_path / "fleet.git").observed.recording
    declaration = read_declaration(recording.manifests, recording.withheld, recording.settings)
    decide(read_snapshot(recording, declaration, ""))  # once uncounted, as above
    taken = []
    for times in (1, 10):
        with counted() as steps:
            snapshot = read_snapshot(stretched(recording, times), declaration, "")
            decide(snapshot)
        taken.append(steps[0])
        past = next(iter(snapshot.observed.past.values()))
        assert isinstance(past, LoadHistory)
        assert len(past.times_s) == 60 * times
    assert taken[1] <= 1.01 * taken[0]
