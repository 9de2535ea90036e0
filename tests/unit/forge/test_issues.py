"""One issue of ours on every hosted forge: found again, written when it says something else, and never twice."""

from typing import Any

import pytest

from reconciler.errors import ReconcilerError
from tests.servers.forge_server import StoredIssue

LABEL = "reconciler-dashboard"


def keep(hosted: Any, body: str = "Two open") -> None:
    hosted.open().keep_issue(label=LABEL, title="Dashboard", body=body, is_current=lambda text: text == body)


def issues(hosted: Any) -> list[StoredIssue]:
    return list(hosted.server.repositories[hosted.full_name].issues.values())


def test_it_is_opened_once_and_written_only_when_it_says_something_else(hosted: Any) -> None:
    keep(hosted)
    keep(hosted)
    assert [(each.title, each.body, each.labels) for each in issues(hosted)] == [("Dashboard", "Two open", [LABEL])]
    written = len(hosted.server.writes)
    keep(hosted)
    assert len(hosted.server.writes) == written
    keep(hosted, "One open")
    assert [each.body for each in issues(hosted)] == ["One open"]


def test_one_that_a_person_closed_stays_closed(hosted: Any) -> None:
    keep(hosted)
    issues(hosted)[0].state = "closed"
    keep(hosted, "One open")
    assert [(each.state, each.body) for each in issues(hosted)] == [("closed", "Two open")]


def test_a_second_one_is_closed_and_one_of_somebody_else_left_alone(hosted: Any) -> None:
    theirs = hosted.server.store_issue(hosted.full_name, "Theirs", "Two open", [LABEL], login="mallory")
    keep(hosted)
    hosted.server.store_issue(hosted.full_name, "Dashboard", "Two open", [LABEL])
    keep(hosted, "One open")
    assert [(each.state, each.body) for each in issues(hosted)[1:]] == [("open", "One open"), ("closed", "Two open")]
    assert (theirs.state, theirs.body) == ("open", "Two open")


def test_one_whose_answer_is_lost_is_found_by_the_next_run(hosted: Any) -> None:
    hosted.server.cut("POST", "/issues$", applied=True, times=9)
    with pytest.raises(ReconcilerError):
        keep(hosted)
    hosted.server.faults.clear()
    keep(hosted)
    assert [each.state for each in issues(hosted)].count("open") == 1


def test_one_that_could_not_be_found_again_is_closed_at_once(github: Any) -> None:
    """GitHub drops labels of those who may not set them, without a word."""
    github.server.repositories[github.full_name].role = "triage"
    with pytest.raises(ReconcilerError, match="did not set its label"):
        keep(github)
    assert [each.state for each in issues(github)] == ["closed"]
