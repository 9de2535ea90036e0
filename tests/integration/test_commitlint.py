"""Commits and titles as a team's commitlint with its conventional rules wants them: the real one, from npm."""

import subprocess
from pathlib import Path

import pytest

from tests.servers.desk import BUSY, Desk, open_desk
from tests.servers.fleet import CHAT_DEPLOYMENT, CHAT_VARIANT, SETTINGS, make_template
from tests.servers.git_workshop import Workshop, run_git

COMMITLINT = Path(".tools/commitlint/node_modules/.bin/commitlint").absolute()
pytestmark = pytest.mark.integration
needs_commitlint = pytest.mark.skipif(not COMMITLINT.exists(), reason="no commitlint: tests/tools/fetch_commitlint.sh")
LONG = "llama-of-the-team-that-gives-its-deployments-names-as-long-as-kubernetes-lets-it"


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Workshop:
    """The repository that every desk starts from."""
    return make_template(tmp_path_factory.mktemp("template"))


@pytest.fixture
def desk(plain: Workshop, tmp_path: Path) -> Desk:
    """A fleet that nobody has run on."""
    return open_desk(plain, tmp_path)


def refusals(message: str) -> str:
    """What commitlint says of a message; empty where it is content."""
    command = [str(COMMITLINT), "--extends", "@commitlint/config-conventional", "--strict"]
    ran: subprocess.CompletedProcess[str] = subprocess.run(
        command, cwd=COMMITLINT.parents[2], input=message, text=True, capture_output=True, timeout=60, check=False
    )
    assert ran.returncode in (0, 1, 2, 3), ran.stderr
    return ran.stdout


def configured(desk: Desk, **settings: str) -> None:
    kept = [line for line in SETTINGS.splitlines() if line.partition(":")[0] not in settings]
    desk.write("reconciler.yaml", "\n".join([*kept, *(f"{name}: {text}" for name, text in settings.items()), ""]))


def messages(desk: Desk) -> list[str]:
    """Of the commits on our branches."""
    names = [name for name in desk.branches() if name.startswith("reconciler/")]
    return [run_git(desk.workshop.remote, "log", "-1", "--format=%B", name) for name in names]


@needs_commitlint
@pytest.mark.parametrize("name", ["llama", LONG], ids=["short", "long"])
@pytest.mark.parametrize("status", ["file", "deliver"])
def test_a_real_commitlint_takes_the_conventional_preset(desk: Desk, name: str, status: str) -> None:
    """For the title as well: a squash makes a commit of it."""
    desk.write("clusters/prod/chat/deployment.yaml", CHAT_DEPLOYMENT.replace(b"llama", name.encode()))
    desk.write("clusters/prod/chat/variant.yaml", CHAT_VARIANT.replace("llama", name))
    configured(
        desk,
        git="{commitMessage: conventional, signOff: true}",
        pullRequests="{title: conventional}",
        status=status,
        defaults="{serviceClass: standard, sizing: {headroom: 400%}}",
    )
    desk.run(BUSY)
    found = [*messages(desk), *(each.title for each in desk.pull_requests())]
    assert len(found) >= 4
    assert all(each.startswith("chore(reconciler): ") for each in found)
    assert [(each, said) for each in found if (said := refusals(each))] == []


@needs_commitlint
def test_it_refuses_what_is_written_without_the_preset(desk: Desk) -> None:
    """So that the check above can fail."""
    desk.run(BUSY)
    assert all("type may not be empty" in refusals(each) for each in messages(desk))


@needs_commitlint
def test_a_template_of_ones_own_keeps_to_a_header_that_is_taken(desk: Desk) -> None:
    configured(
        desk,
        git="{commitMessage: 'fix(gpu-capacity-of-the-inference-platform-team): {{ change }}'}",
        pullRequests="{title: 'chore({{ part }}): {{ change }} (see the page about that of the team)'}",
    )
    desk.run(BUSY)
    (title,) = {each.title for each in desk.pull_requests() if "chat" in each.head_branch}
    assert title.startswith("chore(urgent): scale up ")
    assert title.endswith(" (see the page about that of the team)")
    assert [said for each in (*messages(desk), title) if (said := refusals(each))] == []
