"""The demo's recording is made again with a real Prometheus, and must lead to the same plan."""

import math
from dataclasses import replace
from pathlib import Path

import pytest

from reconciler.cli.sample import families, read_demo_recording
from reconciler.domain.plan import Decision
from reconciler.domain.recording import Recording
from reconciler.pipeline.prepare import prepare
from reconciler.pipeline.recording import read_recording, write_recording
from reconciler.rendering.renderer import Renderer
from tests.servers.prometheus import ABSENT
from tests.tools.make_demo_recording import make_recording

pytestmark = [pytest.mark.integration, pytest.mark.skipif(bool(ABSENT), reason=ABSENT)]

CLOSE = 0.005
"""Versions of Prometheus extrapolate a rate over the window's edges in slightly different ways."""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Recording:
    return make_recording(tmp_path_factory.mktemp("made"))


def decisions_from(recording: Recording) -> tuple[Decision, ...]:
    return prepare(recording, Renderer()).plan.decisions


def numbers_of(decision: Decision) -> list[float]:
    """What was measured and what follows from it in proportion; NaN where nothing is known."""
    load = decision.load
    numbers = [
        load.arrival_rate_per_s if load else None,
        load.output_tokens if load else None,
        decision.demand,
        decision.capacity_before,
        decision.capacity_after,
        decision.cost_before_per_hour,
        decision.cost_after_per_hour,
    ]
    return [math.nan if number is None else number for number in numbers]


def test_a_recording_made_again_decides_the_same(made: Recording) -> None:
    again, shipped = decisions_from(made), decisions_from(read_demo_recording())
    assert [(each.variant, each.outcome, each.desired, each.hold) for each in again] == [
        (each.variant, each.outcome, each.desired, each.hold) for each in shipped
    ]


def test_a_recording_made_again_has_the_same_numbers(made: Recording) -> None:
    for again, shipped in zip(decisions_from(made), decisions_from(read_demo_recording()), strict=True):
        assert numbers_of(again) == pytest.approx(numbers_of(shipped), rel=CLOSE, nan_ok=True), again.variant


def test_the_same_questions_were_asked_of_the_same_commit(made: Recording) -> None:
    shipped = read_demo_recording()
    # the same quantities: their PromQL may have got another candidate since, and the demo still runs
    made_queries, shipped_queries = (
        [replace(answer.query, text="") for answer in each.answers] for each in (made, shipped)
    )
    assert made_queries == shipped_queries
    assert (made.commit, made.manifests, made.settings) == (shipped.commit, shipped.manifests, shipped.settings)


@pytest.mark.parametrize("family", families())
def test_a_family_made_again_decides_the_same(family: str, tmp_path: Path) -> None:
    made, shipped = make_recording(tmp_path, family), read_demo_recording(family)
    again, before = decisions_from(made), decisions_from(shipped)
    assert [(each.variant, each.outcome, each.desired) for each in again] == [
        (each.variant, each.outcome, each.desired) for each in before
    ]
    for one, other in zip(again, before, strict=True):
        assert numbers_of(one) == pytest.approx(numbers_of(other), rel=CLOSE, nan_ok=True), one.variant
    asked = [[(each.query.quantity, each.query.cluster) for each in side.answers] for side in (made, shipped)]
    assert asked[0] == asked[1], "make demo-recording"


def test_a_made_recording_reads_back(made: Recording, tmp_path: Path) -> None:
    write_recording(made, tmp_path / "recording.zip")
    assert decisions_from(read_recording(tmp_path / "recording.zip")) == decisions_from(made)
