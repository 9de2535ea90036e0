"""What `init` tells of what it found and did."""

from collections.abc import Callable

import pytest

from tests.servers.desk import Desk
from tests.servers.fleet import Outcome

Command = Callable[..., Outcome]


@pytest.fixture
def unconfigured(desk: Desk) -> Desk:
    desk.workshop.git("rm", "-q", "reconciler.yaml")
    desk.workshop.commit("Nothing is configured")
    return desk


def test_it_says_what_it_found_and_ends_with_the_first_plan(command: Command, unconfigured: Desk) -> None:
    shown = command("init", "--repo", unconfigured.workshop.clone)
    assert shown.code == 0, "a repository without a Prometheus is no error yet"
    for words in (
        "   cluster     prod: the only directory in clusters/\n",
        "   resources   3 variants of 3 models\n",
        "   Prometheus  none was given (--prometheus URL): nothing can be measured\n",
        "\ncreated: reconciler.yaml\n",
        "0 changes, 3 held, 0 unchanged.",
        "\nNext: git add reconciler.yaml && git commit",
    ):
        assert words in shown.out


def test_a_check_exits_with_2_until_nothing_would_change(command: Command, unconfigured: Desk) -> None:
    arguments = ("init", "--repo", unconfigured.workshop.clone, "--gitlab-ci")
    checked = command(*arguments, "--check")
    assert checked.code == 2
    assert "would be created: reconciler.yaml\nwould be created: .gitlab/reconciler.yml\n" in checked.out
    assert "VARIANT" not in checked.out
    command(*arguments)
    again = command(*arguments, "--check")
    assert (again.code, again.out.splitlines()[-2:]) == (
        0,
        ["unchanged: .gitlab/reconciler.yml", "kept: reconciler.yaml, which is there already"],
    )


def test_what_somebody_changed_is_told_and_kept(command: Command, unconfigured: Desk) -> None:
    arguments = ("init", "--repo", unconfigured.workshop.clone, "--gitlab-ci")
    command(*arguments)
    file = unconfigured.workshop.clone / ".gitlab/reconciler.yml"
    file.write_text(file.read_text() + "# mine\n")
    assert "\nkept: .gitlab/reconciler.yml: somebody changed it, so it is theirs\n" in command(*arguments).out
    assert file.read_text().endswith("# mine\n")


def test_a_repository_without_a_work_tree_is_refused(command: Command, unconfigured: Desk) -> None:
    shown = command("init", "--repo", unconfigured.workshop.remote)
    assert shown.code == 5
    assert "has no work tree to write to" in shown.err
