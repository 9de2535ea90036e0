"""What people and clusters do to a canary that nobody planned: it ends or is held, and no prior moves anything."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.servers.fleet import HOUR_S
from tests.servers.prometheus import ABSENT
from tests.servers.speeds import Speed
from tests.stories.canaries import BEGIN, REPLICAS, Tale, canary_of, look, opened, remembered, start
from tests.stories.stage import Team

pytestmark = [pytest.mark.integration, pytest.mark.skipif(bool(ABSENT), reason=ABSENT)]

SLOW = Speed(alpha_s=0.025, beta_s=0.0001, max_batch=128)
DEARER_H100 = ("costPerHour: 3.00", "costPerHour: 4.00")
EAST = Tale(name="twin", looks=(0, 5, 26, 28), cluster="prod", until_h=29)
WEST = Tale(name="twin", looks=(0, 5, 26, 28), cluster="west", speed=SLOW)
EDITED = Tale(name="edited", looks=(0, 26))
RENAMED = Tale(name="renamed", looks=(0,))
RENAMED_LATER = Tale(name="renamed", looks=(26,), speed=None, pods=("talk-5d4c8b7f9-bcd{}2", "none-{}"))
DELETED = Tale(name="deleted", looks=(0, 5))
MOVED = Tale(name="moved", looks=(0, 26))
SILENT = Tale(name="silent", looks=(0, 26, 97), speed=None)
FORGOTTEN = Tale(name="forgotten", looks=(0, 26, 46), since_h=20, until_h=47)
UNSTEADY = Tale(name="unsteady", looks=(0, 26, 97), speed=None, factors=(2.4, 1.0) * 49, until_h=98)
ALONE = Tale(name="alone", looks=(0,), since_h=80, until_h=98)
TALES = (ALONE, EAST, WEST, EDITED, RENAMED, RENAMED_LATER, DELETED, MOVED, SILENT, FORGOTTEN, UNSTEADY)


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Where all of them are remembered."""
    with remembered(TALES, tmp_path_factory.mktemp("canaries")) as url:
        yield url


Begin = Callable[..., Team]


@pytest.fixture
def begin(prometheus: str, tmp_path: Path) -> Iterator[Begin]:
    """Opens the repository of one tale."""
    with ExitStack() as stack:
        yield lambda tale, settings=(): stack.enter_context(opened(tale, prometheus, tmp_path, settings=settings))


def at(team: Team, hours: float) -> None:
    """Let hours pass without a run."""
    team.go_back(BEGIN.at_s + hours * HOUR_S)


def test_what_one_cluster_measured_moves_nothing_in_another(begin: Begin, prometheus: str) -> None:
    one = '  - name: prod\n    paths: {include: ["prod/**"]}\n    pools: []\n'
    server = f'prometheus: {{url: "{prometheus}", matchLabels: {{cluster: NAME}}}}'
    both = "".join(f"{one}    {server}\n".replace("prod", "NAME").replace("NAME", name) for name in ("prod", "west"))
    team = begin(EAST, settings=(DEARER_H100, (one, both)))
    team.prometheus = ""
    team.write("west/twin/chat.yaml", WEST.served.manifest(REPLICAS))
    assert team.run().code == 0
    assert [each.title.split(":")[0][:7] for each in team.pull_requests()] == ["Try H10", "Try H10"]
    team.merge_all()
    ((branch, words),) = look(team, 5).items()
    assert (canary_of(team, WEST, branch), "it would cost" in words) == (0, True)
    team.merge_all()
    ((branch, words),) = look(team, 26).items()
    assert "reconciler.io/measured" in team.read(EAST.path, branch).decode()
    assert list(team.changed_lines(branch)) == ["prod/twin/chat-canary-h100.yaml", "prod/twin/chat.yaml"]
    team.merge_all()
    assert all(not path.startswith("west/") for each in look(team, 28) for path in team.changed_lines(each))
    assert "reconciler.io/measured" in team.read(EAST.path).decode()
    assert "replicas: 4" in team.read("west/twin/chat.yaml").decode()


MEASURED = (
    "2026-09-08, HOURS hours, 150 samples: alpha 0.5 ms, beta 0.001 ms, batches 1 to 20 of 256, sure to 80, "
    "tokens 500 to 520 in 170 to 190 out, error 1 %"
)
CANARY_LINE = "    reconciler.io/canary: H100\n"


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        (CANARY_LINE, CANARY_LINE.replace("H100", "A100"), "it tries A100, and it runs on H100"),
        (CANARY_LINE, CANARY_LINE.replace("H100", "a lot"), "it tries a lot, and it runs on H100"),
        ("H100-80GB-HBM3", "A100-SXM4-80GB", "it tries H100, and it runs on A100"),
        (CANARY_LINE, f"{CANARY_LINE}    reconciler.io/measured: nonsense\n", "expected what reconciler wrote"),
        (
            CANARY_LINE,
            f'{CANARY_LINE}    reconciler.io/measured: "{MEASURED}"\n'.replace("HOURS", "9999"),
            "expected 24 to 169 hours, not 9999",
        ),
        (
            CANARY_LINE,
            f'    reconciler.io/measured: "{MEASURED}"\n'.replace("HOURS", "30"),
            "reconciler.io/measured without reconciler.io/canary",
        ),
    ],
    ids=["another", "nonsense", "moved", "unreadable", "many hours", "no canary"],
)
def test_what_somebody_edits_is_held_with_its_reason(begin: Begin, old: str, new: str, words: str) -> None:
    team = start(begin(EDITED), EDITED)
    at(team, 3)
    text = team.read(EDITED.path).decode()
    assert old in text
    team.write(EDITED.path, text.replace(old, new))
    assert look(team, 26) == {}
    told = " ".join(team.plan().out.split())
    assert words in told


def test_one_whose_original_has_another_name_is_compared_with_that(begin: Begin) -> None:
    team = start(begin(RENAMED), RENAMED)
    at(team, 5)
    text = team.read("prod/renamed/chat.yaml").decode()
    team.rearrange({"prod/renamed/talk.yaml": text.replace(" chat", " talk")}, "prod/renamed/chat.yaml")
    ((branch, words),) = look(team, 26).items()
    assert sorted(team.changed_lines(branch)) == [RENAMED.path, "prod/renamed/talk.yaml"]
    assert "It measured 26 hours with load" in words


def test_one_whose_original_is_deleted_asks_a_person(begin: Begin) -> None:
    team = start(begin(DELETED), DELETED)
    at(team, 4)
    team.rearrange({}, "prod/deleted/chat.yaml")
    ((branch, words),) = look(team, 5).items()
    assert canary_of(team, DELETED, branch) == 0
    assert "It may be the last replica that serves this model" in words
    assert "merges by itself" not in words
    team.merge_all()
    assert look(team, 5.1) == {}


def test_one_that_serves_alone_is_not_taken_back_before_another_serves(begin: Begin) -> None:
    team = start(begin(ALONE), ALONE)
    at(team, 5)
    text = team.read("prod/alone/chat.yaml").replace(b"replicas: 4", b"replicas: 0")
    team.write("prod/alone/chat.yaml", text)
    (branch,) = look(team, 97)
    assert (canary_of(team, ALONE, branch), team.replicas_of("chat", branch)) == (1, 1)


@pytest.mark.parametrize(("tale", "hours"), [(MOVED, 26), (SILENT, 97)], ids=["good", "silent"])
def test_one_that_is_moved_to_another_directory_is_the_same(begin: Begin, tale: Tale, hours: float) -> None:
    team = start(begin(tale), tale)
    at(team, 3)
    path = f"prod/{tale.name}/trials/it.yaml"
    team.rearrange({path: team.read(tale.path)}, tale.path)
    if hours > 26:
        assert look(team, 26) == {}
    ((branch, _),) = look(team, hours).items()
    assert path in team.changed_lines(branch)
    assert (b"replicas: 0" in team.read(path, branch)) is (hours > 26)


def test_one_that_a_person_deletes_while_its_end_is_open_is_gone(begin: Begin) -> None:
    team = start(begin(SILENT), SILENT)
    assert len(look(team, 97)) == 1
    team.rearrange({}, SILENT.path)
    assert look(team, 97.1) == {}
    assert look(team, 97.2) == {}


def test_where_prometheus_forgot_the_first_hours_it_measures_on(begin: Begin) -> None:
    team = start(begin(FORGOTTEN), FORGOTTEN)
    assert look(team, 26) == {}
    ((branch, words),) = look(team, 46).items()
    assert canary_of(team, FORGOTTEN, branch) == 2
    assert "It measured 26 hours with load" in words


def test_one_whose_merge_no_forge_shows_ends_by_its_commit(begin: Begin) -> None:
    """A person squashed it by hand, and closed the pull request."""
    team = begin(SILENT)
    assert team.run().code == 0
    (shown,) = team.pull_requests()
    team.write(SILENT.path, team.read(SILENT.path, shown.head))
    team.close(shown.number)
    assert look(team, 26) == {}
    ((branch, words),) = look(team, 97).items()
    assert canary_of(team, SILENT, branch) == 0
    assert "0 hours with load were measured in 4 days, 24 are needed" in words


def test_one_whose_hours_contradict_each_other_moves_nothing_and_ends(begin: Begin) -> None:
    team = start(begin(UNSTEADY), UNSTEADY)
    assert look(team, 26) == {}
    ((branch, words),) = look(team, 97).items()
    assert canary_of(team, UNSTEADY, branch) == 0
    assert "and they differ too much to be believed" in words
