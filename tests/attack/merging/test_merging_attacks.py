"""Each way, tried before the merge and while the forge is told to merge: nothing merges but what a run drafted."""

from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from reconciler.pipeline.publish import Operation
from tests.attack.merging.field import Field, copy_field, open_field
from tests.attack.merging.ways import ALL, WAYS, Way
from tests.conftest import ATTACK
from tests.servers.desk import open_desk
from tests.servers.fleet import make_template

ROUNDS = 4
UNSCHEDULED = ("gitea", "local")
"""Where nothing is ever scheduled."""


Begin = Callable[[str, str], Field]


@pytest.fixture(scope="session")
def begin(tmp_path_factory: pytest.TempPathFactory) -> Begin:
    """The fields that attacks start from, each made once: by the kind of forge and when the attack is."""
    template = make_template(tmp_path_factory.mktemp("attacked"))

    @cache
    def begun(kind: str, when: str) -> Field:
        with open_field(kind, open_desk(template, tmp_path_factory.mktemp(f"{kind}-{when}"))) as made:
            if when == "scheduled":
                made.schedule()
        return made

    return lambda kind, when: begun(kind, "scheduled" if when == "scheduled" else "open")


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
    begin: Begin,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    record_property: Callable[[str, object], None],
    way: Way,
    kind: str,
    when: str,
) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with copy_field(begin(kind, when), tmp_path) as place:
        if when == "merging":
            place.before_merging(lambda: way.attack(place))
        else:
            way.attack(place)
        said, left = list[str](), None
        for _ in range(ROUNDS):
            published = place.outcome(place.run())
            said.append(f"{published.operation}" + (f" ({published.reason})" if published.reason else ""))
            place.meet_rules()
            # A run keeps nothing but what is here: where it left all as it was, so will the next.
            left, before = place.state(), left
            if left == before:
                break
        found = list(place.faults())
        told = " > ".join(dict.fromkeys(said))
        record_property(ATTACK, f"{way.name} | {kind}, {when} | {told[:150]}")
        assert not found, (found, said)
        if way.stops:
            assert place.git("rev-parse", "main") == place.start, said


@pytest.mark.parametrize("kind", ALL)
def test_without_an_attack_it_merges(begin: Begin, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    """Or the attacks would pass where nothing ever merges."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with copy_field(begin(kind, "open"), tmp_path) as place:
        assert place.outcome(place.run()).operation is Operation.MERGED
        assert place.git("rev-parse", "main") != place.start
        assert list(place.faults()) == []
