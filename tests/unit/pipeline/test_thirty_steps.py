"""The life of a pull request in thirty steps: whatever load and people do, it ends as written here on every forge."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pytest

from reconciler.forge.marker import read_marker
from reconciler.forge.pull_requests import Forge
from reconciler.http.messages import Clock
from reconciler.pipeline.publish import Operation
from reconciler.pipeline.session import Ask
from tests.servers.answers import failing
from tests.servers.desk import BUSY, PEAK, QUIET, Desk, at
from tests.servers.fleet import CHAT_DEPLOYMENT
from tests.servers.forge_server import ForgeServer
from tests.servers.git_workshop import run_git
from tests.servers.hosted import NAME, open_hosted

CHAT = "reconciler/prod-chat-urgent-705ae555"
DEPLOYMENT = "clusters/prod/chat/deployment.yaml"


@dataclass(kw_only=True)
class Life:
    """A desk with a forge, and the hands of people on them."""

    desk: Desk
    forge: Forge
    server: ForgeServer | None = None

    def run(self, ask: Ask, minutes: float = 20.0) -> str:
        """What a run does so much later to the group of the chat model, and what stands then."""
        self.desk.now_s += 60.0 * minutes - 60.0
        if self.server is not None:
            self.server.now_s = max(self.server.now_s, self.desk.now_s)
        before = self._state()
        result = self.desk.run(ask, self.forge)
        did = [each for each in result.published if each.group == "prod/chat" and each.operation is not Operation.NONE]
        words = [f"{each.operation}" for each in did] or ["paused" if result.paused else "nothing"]
        wrote = "" if self._state() == before else " (written)"
        return f"{', '.join(words)}{wrote}: {self._shown()}"

    def newest(self) -> int:
        """The number of the newest pull request."""
        listed = self.forge.list_pull_requests(head_prefix="reconciler/", base="main", closed_since_s=0.0)
        return max(each.number for each in listed)

    def label(self, *labels: str) -> None:
        """Label the newest one."""
        self.forge.update(self.newest(), labels=labels)

    def unlabel(self, label: str) -> None:
        """Take a label from it."""
        self.forge.update(self.newest(), unlabel=(label,))

    def close(self) -> None:
        """Close it."""
        number = self.newest()
        self.forge.update(number, close=True)
        if self.server is None:
            self._date(number)

    def merge(self) -> None:
        """Merge it, and delete its branch."""
        number = self.newest()
        if self.server is not None:
            self.server.merge(NAME, number)
        else:
            self._pull(CHAT)
            self.desk.workshop.git("merge", "-q", "--no-ff", "-m", f"Merge {number}", "FETCH_HEAD")
            self.desk.workshop.git("push", "-q", "origin", "HEAD:refs/heads/main")
            self.forge.note_merge(number)
            self._date(number)
        self.delete_branch()

    def delete_branch(self) -> None:
        """Delete its branch."""
        run_git(self.desk.workshop.remote, "update-ref", "-d", f"refs/heads/{CHAT}")

    def push(self) -> None:
        """Push a commit to its branch."""
        self._pull(CHAT)
        self.desk.workshop.git("reset", "-q", "--hard", "FETCH_HEAD")
        self.desk.workshop.write("NOTES.md", b"Wait for Monday.\n")
        self.desk.workshop.commit("A person's own", CHAT)
        self._pull("main")

    def update_branch(self) -> None:
        """Merge the base into its branch, as the button of a forge does."""
        self._pull(CHAT)
        self.desk.workshop.git("checkout", "-q", "--detach", "FETCH_HEAD")
        self.desk.workshop.git("merge", "-q", "--no-ff", "-m", "Merge branch 'main'", "origin/main")
        self.desk.workshop.git("push", "-q", "origin", f"HEAD:refs/heads/{CHAT}")
        self.desk.workshop.git("checkout", "-q", "main")

    def commit(self, path: str, content: str | bytes) -> None:
        """Commit to the base."""
        self._pull("main")
        self.desk.write(path, content)

    def _pull(self, branch: str) -> None:
        """Fetch a branch, with the clone on the base."""
        self.desk.workshop.git("fetch", "-q", "origin", "main:refs/remotes/origin/main")
        self.desk.workshop.git("reset", "-q", "--hard", "origin/main")
        self.desk.workshop.git("fetch", "-q", "origin", branch)

    def _date(self, number: int) -> None:
        """A file counts as closed at the time of its last change."""
        path = self.desk.workshop.remote / "reconciler" / "pulls" / f"{number}.md"
        os.utime(path, (self.desk.now_s, self.desk.now_s))

    def _state(self) -> object:
        listed = self.forge.list_pull_requests(head_prefix="reconciler/", base="main", closed_since_s=0.0)
        return listed, self.desk.branches()

    def _shown(self) -> str:
        listed = self.forge.list_pull_requests(head_prefix="reconciler/", base="main", closed_since_s=0.0)
        each = max(listed, key=lambda each: each.number, default=None)
        if each is None:
            return "none"
        marker = read_marker(each.body)
        state = f"#{each.number} {each.state}{'' if marker is None or marker.state == 'open' else f' {marker.state}'}"
        if CHAT not in self.desk.branches():
            return f"{state}, no branch"
        text = run_git(self.desk.workshop.remote, "show", f"{CHAT}:{DEPLOYMENT}")
        (line,) = [each for each in text.splitlines() if "replicas:" in each]
        return f"{state}, {line.split()[1]} replicas"


Step = tuple[str, Callable[[Life], object], Ask, float, str]


def nobody(life: Life) -> None:
    """Nothing happens but time."""


def reject(life: Life) -> None:
    """It is closed, and its branch deleted."""
    life.close()
    life.delete_branch()


def update_branch(life: Life) -> None:
    """The base moves on, and somebody presses the button."""
    life.commit("README.md", "# More\n")
    life.update_branch()


MOVED = CHAT_DEPLOYMENT.replace(b"# since June", b"# since July")
"""What happens, who does what before, the load, minutes later, and what a run does and leaves."""
STEPS: list[Step] = [
    ("quiet", nobody, QUIET, 20, "nothing: none"),
    ("busy", nobody, BUSY, 20, "created (written): #1 open, 4 replicas"),
    ("the same again", nobody, BUSY, 20, "nothing: #1 open, 4 replicas"),
    ("noise", nobody, at(112.0), 20, "nothing: #1 open, 4 replicas"),
    ("a person labels it", lambda life: life.label("looked at"), BUSY, 20, "nothing: #1 open, 4 replicas"),
    (
        "the base moves elsewhere",
        lambda life: life.commit("README.md", "# News\n"),
        BUSY,
        20,
        "nothing: #1 open, 4 replicas",
    ),
    ("peak", nobody, PEAK, 20, "updated (written): #1 open, 6 replicas"),
    ("the same again", nobody, PEAK, 20, "nothing: #1 open, 6 replicas"),
    (
        "the base moves into its way",
        lambda life: life.commit(DEPLOYMENT, MOVED),
        PEAK,
        20,
        "updated (written): #1 open, 6 replicas",
    ),
    ("no metrics", nobody, failing("no route to host"), 20, "left alone: #1 open, 6 replicas"),
    ("metrics again", nobody, PEAK, 20, "nothing: #1 open, 6 replicas"),
    ("stop-updating", lambda life: life.label("stop-updating"), QUIET, 20, "left alone: #1 open, 6 replicas"),
    ("and no more", lambda life: life.unlabel("stop-updating"), PEAK, 20, "nothing: #1 open, 6 replicas"),
    ("paused", lambda life: life.label("reconciler:paused"), QUIET, 20, "paused: #1 open, 6 replicas"),
    ("and no more", lambda life: life.unlabel("reconciler:paused"), PEAK, 20, "nothing: #1 open, 6 replicas"),
    ("quiet", nobody, QUIET, 20, "closed (written): #1 closed withdrawn, no branch"),
    ("quiet still", nobody, QUIET, 20, "nothing: #1 closed withdrawn, no branch"),
    ("busy again", nobody, BUSY, 60, "created (written): #2 open, 4 replicas"),
    ("a person closes it", lambda life: life.close(), BUSY, 20, "left alone: #2 closed, 4 replicas"),
    ("quiet", nobody, QUIET, 20, "nothing: #2 closed, 4 replicas"),
    ("busy again", nobody, BUSY, 20, "left alone: #2 closed, 4 replicas"),
    ("peak: another decision", nobody, PEAK, 60, "created (written): #3 open, 6 replicas"),
    ("a person pushes to it", lambda life: life.push(), PEAK, 20, "left alone: #3 open, 6 replicas"),
    ("quiet: a person's work stays", nobody, QUIET, 20, "left alone: #3 open, 6 replicas"),
    (
        "closed, branch deleted",
        reject,
        PEAK,
        20,
        "left alone: #3 closed, no branch",
    ),
    ("after reopenAfter", nobody, PEAK, 8 * 24 * 60, "created (written): #4 open, 6 replicas"),
    (
        "Update branch",
        update_branch,
        PEAK,
        20,
        "updated (written): #4 open, 6 replicas",
    ),
    ("a person merges it", lambda life: life.merge(), PEAK, 20, "nothing: #4 merged, no branch"),
    ("two hours later", nobody, PEAK, 120, "nothing (written): #4 merged told, no branch"),
    ("quiet after the merge", nobody, QUIET, 24 * 60, "nothing: #4 merged told, no branch"),
]


@contextmanager
def life_on(kind: str, desk: Desk) -> Iterator[Life]:
    """Before anything ran."""
    if kind == "local":
        yield Life(desk=desk, forge=desk.dated_forge)
        return
    with open_hosted(kind, desk.workshop.remote, desk.now_s) as (forge, server):
        yield Life(desk=desk, forge=forge, server=server)


@pytest.mark.parametrize("kind", ["github", "gitlab", "gitea", "local"])
def test_thirty_steps_end_as_written(desk: Desk, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setattr(Clock, "sleep", lambda _clock, _seconds: None)
    found, expected = [], []
    with life_on(kind, desk) as life:
        for words, act, ask, minutes, then in STEPS:
            act(life)
            found.append(f"{words}: {life.run(ask, minutes)}")
            expected.append(f"{words}: {then}")
    assert found == expected
