"""The ways: what an attacker does to a pull request that is about to be merged, or that a forge is to merge."""

import re
from collections.abc import Callable
from dataclasses import dataclass

from reconciler.forge.marker import withdrawn
from tests.attack.merging.field import MANIFEST, STATUS, Change, Field
from tests.servers.hosted import NAME

ALL = ("github", "gitlab", "gitea", "local")
HOSTED = ("github", "gitlab", "gitea")

Attack = Callable[[Field], object]


@dataclass(frozen=True, kw_only=True)
class Way:
    """One way, and on which forges it exists."""

    name: str
    attack: Attack
    forges: tuple[str, ...] = ALL
    stages: tuple[str, ...] = ("open", "merging", "scheduled")
    """When it is tried: before the run that merges, in it just before the merge, or while the forge is to merge."""
    stops: bool = False
    """Whether nothing at all may be merged any more."""


def edited(path: str, old: bytes, new: bytes, mode: str = "100644") -> Attack:
    """Push the branch anew with other words in a file."""

    def attack(place: Field) -> None:
        content = place.show(place.branch, path)
        assert old in content
        place.push(place.commit([(mode, path, content.replace(old, new))]))

    return attack


def added(*changes: Change) -> Attack:
    """Push the branch anew with more files."""
    return lambda place: place.push(place.commit(changes))


def unreadable(place: Field) -> None:
    """A manifest whose object is not in the repository is the last that anybody can read of it."""
    place.push(place.commit([("160000", MANIFEST, b"1" * 40)]))


CONTENTS = tuple(
    Way(name=name, attack=attack, stages=("open", "scheduled"))
    for name, attack in (
        ("40 replicas", edited(MANIFEST, b"replicas:   4", b"replicas:   40")),
        ("another image", edited(MANIFEST, b"vllm/vllm-openai:v0.11.0", b"evil/miner:latest")),
        ("another number in the status", edited(STATUS, b"numReplicas: 4", b"numReplicas: 40")),
        ("a comment", edited(MANIFEST, b"kind: Deployment", b"kind: Deployment # reconciler.io/ignore")),
        ("line ends", edited(MANIFEST, b"\n", b"\r\n")),
        ("an executable file", edited(MANIFEST, b"kind", b"kind", "100755")),
        ("an added file", added(("100644", "clusters/prod/evil.yaml", b"kind: ClusterRole\n"))),
        ("a name that is not UTF-8", added(("100644", "clusters/prod/\udcff.yaml", b"kind: Role\n"))),
        ("a workflow", added(("100644", ".github/workflows/x.yml", b"on: push\n"))),
        ("a submodule", added(("160000", "clusters/prod/evil", b"1" * 40))),
        ("a submodule in place of the manifest", unreadable),
        ("a link in place of the manifest", added(("120000", MANIFEST, b"/etc/passwd"))),
    )
)


def rewritten(place: Field, field: str, old: str, new: str) -> None:
    """Edit the file of the pull request on the local forge."""
    path = place.remote / "reconciler" / "pulls" / "1.md"
    lines = path.read_text().split("\n")
    changed = [line.replace(old, new, 1) if line.startswith(field) else line for line in lines]
    assert changed != lines
    path.write_text("\n".join(changed))


def retitle(place: Field) -> None:
    """A title that closes an issue and keeps checks from running."""
    if place.server is None:
        rewritten(place, "title:", '"', '"[skip ci] Fixes #1 ')
    else:
        place.stored.title = "[skip ci] Fixes #1"


def reword(place: Field) -> None:
    """The same in the text, whose marker stays."""
    if place.server is None:
        rewritten(place, "**Merges by itself**", "**Merges", "[skip ci] Fixes #1 **Merges")
    else:
        place.stored.body = f"[skip ci] Fixes #1\n{place.stored.body}"


def retarget(place: Field) -> None:
    """Another base, where nobody decided anything."""
    if place.server is None:
        rewritten(place, "base:", "main", "release")
    else:
        place.stored.base = "release"


def retarget_and_push(place: Field) -> None:
    """The same, with another image."""
    retarget(place)
    edited(MANIFEST, b"vllm/vllm-openai:v0.11.0", b"evil/miner:latest")(place)


def adopt(place: Field) -> None:
    """Close our pull request and open one from our branch in its place, with all our words."""
    assert place.server is not None
    edited(MANIFEST, b"replicas:   4", b"replicas:   40")(place)
    theirs = {"title": place.stored.title, "body": place.stored.body or "", "author": "mallory"}
    branch = place.branch
    place.stored.body = withdrawn(place.stored.body or "")
    place.server.close(NAME, 1)
    place.server.open_pull_request(NAME, head=branch, **theirs)


def adopt_and_schedule(place: Field) -> None:
    """The same, and have the forge merge it; what it holds is what we drafted."""
    assert place.server is not None
    before = place.git("rev-parse", place.branch)
    adopt(place)
    place.push(before)
    pulls = place.server.repositories[NAME].pull_requests
    pulls[max(pulls)].told_by = "mallory"


def open_under_our_prefix(place: Field) -> None:
    """A branch that looks like one of ours, with our words."""
    assert place.server is not None
    commit = place.commit([("100644", "clusters/prod/evil.yaml", b"kind: ClusterRole\n")])
    place.push(commit, "reconciler/prod-evil-urgent-00000000")
    words = {"title": place.stored.title, "body": place.stored.body or ""}
    place.server.open_pull_request(NAME, head="reconciler/prod-evil-urgent-00000000", author="mallory", **words)


def push_as_another(place: Field) -> None:
    """The same tree with other times in its status, pushed by another account."""
    assert place.server is not None
    content = place.show(place.branch, STATUS)
    assert b"lastRunTime" in content
    commit = place.commit([("100644", STATUS, content.replace(b"2026-", b"2025-"))])
    place.server.pushed_by[commit] = "mallory"
    place.push(commit)


def graft(place: Field) -> None:
    """A parent that the base does not have, with another image; the commit itself changes what ours does."""
    parent = place.commit([("100644", "clusters/prod/evil.yaml", b"kind: ClusterRole\n")], onto="main")
    drafted = [("100644", path, place.show(place.branch, path)) for path in (MANIFEST, STATUS)]
    place.push(place.commit(drafted, (parent,), onto=parent))


def join(place: Field) -> None:
    """A merge commit, one of whose parents has more."""
    other = place.commit([("100644", "clusters/prod/evil.yaml", b"kind: ClusterRole\n")], onto="main")
    place.push(place.commit([], ("main", other)))


def join_many(place: Field) -> None:
    """A merge commit of fifty branches that the base does not have."""
    others = [place.commit([("100644", f"clusters/prod/{n}.yaml", b"kind: Role\n")], onto="main") for n in range(50)]
    place.push(place.commit([], ("main", *others)))


def update_with_more(place: Field) -> None:
    """A merge of the base into our branch, as the forge's button makes it, with one file more."""
    place.push(place.commit([("100644", "clusters/prod/evil.yaml", b"kind: ClusterRole\n")], (place.branch, "main")))


def update_with_another_number(place: Field) -> None:
    """The same, with another number where ours was."""
    changed = place.show(place.branch, MANIFEST).replace(b"replicas:   4", b"replicas:   40")
    place.push(place.commit([("100644", MANIFEST, changed)], (place.branch, "main")))


def update_with_nothing(place: Field) -> None:
    """The same that adds nothing, above a commit of theirs in our name."""
    edited(MANIFEST, b"vllm/vllm-openai:v0.11.0", b"evil/miner:latest")(place)
    place.push(place.commit([], (place.branch, "main")))


def take_the_folder(place: Field) -> None:
    """A branch below ours, so that ours cannot be pushed any more once it is gone."""
    commit, branch = place.git("rev-parse", place.branch), place.branch
    place.git("update-ref", "-d", f"refs/heads/{branch}")
    place.push(commit, f"{branch}/x")


def stack(place: Field) -> None:
    """A second commit in our name above ours."""
    place.push(place.commit([("100644", "clusters/prod/evil.yaml", b"kind: ClusterRole\n")], (place.branch,)))


def put_back_the_base(place: Field) -> None:
    """An older base as the parent, whose files the merge would bring back."""
    old = place.git("rev-list", "--max-parents=0", "main")
    drafted = [("100644", path, place.show(place.branch, path)) for path in (MANIFEST, STATUS)]
    place.push(place.commit(drafted, (old,), onto=old))


def label(place: Field, name: str) -> None:
    """Give the pull request a label."""
    place.forge.update(1, labels=(name,))


def schedule_as_another(place: Field) -> None:
    """Have the forge merge it, in the name of somebody else."""
    place.stored.told_by = "mallory"


def comment(place: Field) -> None:
    """Orders to bots of all kinds, below the pull request."""
    assert place.server is not None
    for words in ("/merge", "@dependabot merge", "bors r+", withdrawn(place.stored.body or "")):
        place.server.comment(NAME, 1, words)


def make_draft(place: Field) -> None:
    """What is not ready is not merged."""
    prefix = {"gitlab": "Draft: ", "gitea": "WIP: "}.get(place.kind, "")
    place.stored.title = prefix + place.stored.title
    place.stored.draft = True


def claim_another_decision(place: Field) -> None:
    """A text whose marker says that somebody else's decision is merged."""
    place.stored.body = re.sub(r'"decision":"[0-9a-f]{64}"', f'"decision":"{"0" * 64}"', place.stored.body or "")


TEXTS_AND_TARGETS = (
    Way(name="an edited title", attack=retitle),
    Way(name="an edited text", attack=reword),
    Way(name="another decision in the text", attack=claim_another_decision, forges=HOSTED),
    Way(name="another base", attack=retarget),
    Way(name="another base and another image", attack=retarget_and_push),
    Way(name="a pull request of theirs in place of ours", attack=adopt, forges=HOSTED, stops=True),
    Way(name="one of theirs that the forge is to merge", attack=adopt_and_schedule, forges=HOSTED),
    Way(name="a branch under our prefix", attack=open_under_our_prefix, forges=HOSTED),
    Way(name="a push by another account", attack=push_as_another, forges=HOSTED, stops=True),
    Way(name="a parent that is not on the base", attack=graft),
    Way(name="an old commit of the base as parent", attack=put_back_the_base),
    Way(name="a merge commit", attack=join),
    Way(name="a merge of fifty branches", attack=join_many, stages=("open", "scheduled")),
    Way(name="a merge of the base with a file more", attack=update_with_more),
    Way(name="a merge of the base with another number", attack=update_with_another_number),
    Way(name="a merge of the base above another image", attack=update_with_nothing),
    Way(name="a branch in place of its folder", attack=take_the_folder, stages=("open",)),
    Way(name="a second commit", attack=stack),
    Way(name="the label stop-updating", attack=lambda place: label(place, "stop-updating"), stops=True),
    Way(name="a label that says approved", attack=lambda place: label(place, "automerge")),
    Way(name="an order to the forge by somebody else", attack=schedule_as_another, forges=HOSTED),
    Way(name="comments that are orders", attack=comment, forges=HOSTED),
    Way(name="a draft", attack=make_draft, forges=HOSTED, stops=True),
)

WAYS = (*CONTENTS, *TEXTS_AND_TARGETS)
