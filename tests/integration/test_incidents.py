"""Incidents of the field over a real Prometheus: nothing grows and nothing shrinks that the truth does not ask for."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.incidents.playing import play, remembered
from tests.incidents.table import INCIDENTS
from tests.servers.prometheus import ABSENT

pytestmark = [pytest.mark.integration, pytest.mark.skipif(bool(ABSENT), reason=ABSENT)]


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Where all incidents are remembered."""
    with remembered(INCIDENTS, tmp_path_factory.mktemp("incidents")) as url:
        yield url


@pytest.mark.parametrize("number", range(len(INCIDENTS)), ids=[incident.name for incident in INCIDENTS])
def test_an_incident_moves_what_the_truth_asks_for_and_nothing_else(
    number: int, prometheus: str, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    incident = INCIDENTS[number]
    outcome = play(incident, number, prometheus, tmp_path)
    record_property("incident", outcome.row_of(incident))
    assert not outcome.fault_of(incident), f"{incident.happened}: {outcome.words}"
