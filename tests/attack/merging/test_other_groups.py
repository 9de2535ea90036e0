"""What somebody makes of one branch concerns that branch alone: those of other groups are merged all the same."""

from pathlib import Path

import pytest

from tests.attack.merging.field import copy_field
from tests.attack.merging.test_merging_attacks import Begin, begin
from tests.attack.merging.ways import CONTENTS, TEXTS_AND_TARGETS, Way
from tests.servers.desk import BUSY_TWICE

__all__ = ["begin"]
OTHER = "clusters/prod/code/granite.yaml"


@pytest.mark.parametrize(
    ("way", "kind"),
    [(way, kind) for way in (*CONTENTS, *TEXTS_AND_TARGETS) for kind in way.forges if kind in ("github", "local")],
    ids=lambda value: getattr(value, "name", value),
)
def test_the_others_merge(begin: Begin, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: Way, kind: str) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with copy_field(begin(kind, "open"), tmp_path) as place:
        place.run(BUSY_TWICE, minutes=1)
        assert len(place.drafts) == 2
        before = place.show("main", OTHER)
        way.attack(place)
        said = [
            f"{each.group}: {each.operation} {each.reason}"
            for _ in range(2)
            for each in place.run(BUSY_TWICE).published
        ]
        assert place.show("main", OTHER) != before, said
        assert not list(place.faults())
