"""Each way, tried before the merge and while the forge is told to merge: nothing merges but what a run drafted."""

from collections.abc import Callable
from pathlib import Path

import pytest

from reconciler.pipeline.publish import Operation
from tests.attack.merging.field import open_field
from tests.attack.merging.ways import ALL, WAYS, Way
from tests.conftest import ATTACK
from tests.servers.desk import open_desk
from tests.servers.fleet import make_template
from tests.servers.git_workshop import Workshop

ROUNDS = 4
UNSCHEDULED = ("gitea", "local")
"""Where nothing is ever scheduled."""


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> Workshop:
    """The repository that every attack starts from."""
    return make_template(tmp_path_factory.mktemp("attacked"))


@pytest.mark.parametrize(
    ("way", "kind", "when"),
    [
        (way, kind, when)
        for way in WAYS
        for kind in way.forges
        for when in way.stages
        if when != "scheduled" or kind not in UNSCHEDULED
    ],
    ids=lambda value: getattr(value, "name", value),
)
def test_nothing_merges_but_what_a_run_drafted(
    template: Workshop,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    record_property: Callable[[str, object], None],
    way: Way,
    kind: str,
    when: str,
) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with open_field(kind, open_desk(template, tmp_path)) as place:
        if when == "scheduled":
            place.schedule()
        if when == "merging":
            place.before_merging(lambda: way.attack(place))
        else:
            way.attack(place)
        said = []
        for _ in range(ROUNDS):
            published = place.outcome(place.run())
            said.append(f"{published.operation}" + (f" ({published.reason})" if published.reason else ""))
            place.meet_rules()
        found = list(place.faults())
        told = " > ".join(dict.fromkeys(said))
        record_property(ATTACK, f"{way.name} | {kind}, {when} | {told[:150]}")
        assert not found, (found, said)
        if way.stops:
            assert place.git("rev-parse", "main") == place.start, said


@pytest.mark.parametrize("kind", ALL)
def test_without_an_attack_it_merges(
    template: Workshop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """Or the attacks would pass where nothing ever merges."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with open_field(kind, open_desk(template, tmp_path)) as place:
        assert place.outcome(place.run()).operation is Operation.MERGED
        assert place.git("rev-parse", "main") != place.start
        assert list(place.faults()) == []
