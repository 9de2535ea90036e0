"""Whoever says stop is obeyed: what would be done is planned and told, and nothing is written."""

from collections.abc import Callable

import pytest

from tests.servers.desk import BUSY, PEAK, QUIET, Desk

CHAT = "reconciler/prod-chat-ba4cb5d6"


def by_configuration(desk: Desk) -> None:
    desk.configure("pullRequests: {", "paused: true\npullRequests: {")


def by_environment(desk: Desk) -> None:
    desk.variables = {"RECONCILER_PAUSED": "true"}


def by_label(desk: Desk) -> None:
    desk.forge.update(1, labels=("reconciler:paused",))


STOPS = [
    (by_configuration, "reconciler.yaml:20"),
    (by_environment, "RECONCILER_PAUSED"),
    (by_label, "the label reconciler:paused on pull request #1"),
]


@pytest.mark.parametrize(("stop", "who"), STOPS)
def test_nothing_is_written_and_the_plan_is_still_made(desk: Desk, stop: Callable[[Desk], None], who: str) -> None:
    desk.run(BUSY)
    stop(desk)
    before = desk.state()
    for load in (PEAK, QUIET):
        result = desk.run(load)
        assert (result.paused, result.published) == (who, ())
        assert result.prepared.plan.decisions
    assert desk.state() == before


def test_a_first_pull_request_is_not_opened(desk: Desk) -> None:
    by_environment(desk)
    before = desk.state()
    assert len(desk.run(BUSY).drafts) == 1
    assert desk.state() == before


def test_taken_away_the_next_run_goes_on(desk: Desk) -> None:
    desk.run(BUSY)
    by_environment(desk)
    desk.run(PEAK)
    desk.variables = {}
    assert [str(each.operation) for each in desk.run(PEAK).published if each.number] == ["updated"]


def test_the_label_of_a_closed_pull_request_stops_nothing(desk: Desk) -> None:
    desk.run(BUSY)
    by_label(desk)
    desk.forge.update(1, close=True)
    assert desk.run(BUSY).paused == ""
