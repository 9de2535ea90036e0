"""What Git said before now, from real repositories: whoever wrote it, however it came, and however it was called."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from reconciler.domain.recording import WrittenCounts
from reconciler.domain.settings import ClusterSettings, Settings
from reconciler.git.clone import clone_base
from reconciler.git.repository import Repository, open_directory
from reconciler.pipeline.files import read_files
from reconciler.pipeline.observe import read_written
from reconciler.policy.files import read_policy
from reconciler.snapshot.declarations import fold
from reconciler.snapshot.variants import declared_variants
from tests.servers.git_workshop import Workshop, empty_workshop, run_git

DAY_S = 86_400.0
NOW_S = 1_790_000_000.0
POLICY = b"apiVersion: reconciler.io/v1alpha1\nkind: Policy\nrules: [{name: settle, cooldown: {after: 20d}}]\n"
VARIANT = """\
apiVersion: llmd.ai/v1alpha1
kind: VariantAutoscaling
metadata: {name: NAME, namespace: llm}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: NAME}
  modelID: NAME
---
"""
DEPLOYMENT = """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: NAME, namespace: llm}
spec:
  replicas: COUNT
  template: {spec: {containers: [{name: vllm, image: vllm, resources: {limits: {nvidia.com/gpu: "1"}}}]}}
"""


def manifest(replicas: int, name: str = "chat") -> bytes:
    return (VARIANT + DEPLOYMENT).replace("NAME", name).replace("COUNT", str(replicas)).encode()


@pytest.fixture
def person(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Workshop, Callable[[float], None]]:
    """Somebody who began a repository 40 days ago, and a way to have them commit days ago."""
    workshop = empty_workshop(tmp_path)

    def ago(days: float) -> None:
        monkeypatch.setenv("GIT_COMMITTER_DATE", f"{NOW_S - days * DAY_S:.0f} +0000")

    ago(40)
    workshop.write("a.yaml", manifest(3))
    workshop.commit()
    return workshop, ago


def settings(*, policy: bytes = POLICY) -> Settings:
    return replace(Settings(clusters=(ClusterSettings(name="c"),)), rules=read_policy("p.yaml", policy).rules)


def cloned(workshop: Workshop) -> Repository:
    count = len(list(workshop.remote.parent.iterdir()))
    directory = workshop.remote.parent / f"copy-{count}"
    return clone_base(str(workshop.remote), base=None, credentials=None, directory=directory)


def written(repository: Repository, policy: bytes = POLICY) -> dict[str, WrittenCounts]:
    asked = settings(policy=policy)
    declaration = fold(read_files(repository, asked, "fleet").commit, asked)
    return {
        each.variant.name: each
        for each in read_written(repository, asked, declared_variants(asked, declaration), NOW_S)
    }


def days(found: WrittenCounts) -> list[tuple[float, int | None]]:
    """The changes of the last 20 days, by how many days ago."""
    return [
        (round((NOW_S - at_s) / DAY_S, 2), found.at(at_s)) for at_s, _ in found.counts if at_s > NOW_S - 20.5 * DAY_S
    ]


@pytest.mark.parametrize("is_cloned", [True, False])
def test_everybodys_changes_are_told_at_their_times(
    person: tuple[Workshop, Callable[[float], None]], is_cloned: bool
) -> None:
    workshop, ago = person
    for day, count in ((30, 4), (10, 6), (2, 5)):
        ago(day)
        workshop.write("a.yaml", manifest(count))
        workshop.commit()
    found = written(cloned(workshop) if is_cloned else open_directory(workshop.clone))["chat"]
    assert days(found) == [(10, 6), (2, 5)]
    assert (found.at(NOW_S - 15 * DAY_S), found.at(NOW_S), found.changes[-1][1]) == (4, 5, 6)


def test_without_a_rule_that_looks_back_nothing_is_fetched(
    person: tuple[Workshop, Callable[[float], None]], monkeypatch: pytest.MonkeyPatch
) -> None:
    workshop, _ = person
    monkeypatch.setattr("reconciler.pipeline.observe.read_history", None)
    monkeypatch.setattr("reconciler.git.clone.Clone.fetch_history", None)
    step = POLICY.replace(b"cooldown: {after: 20d}", b"step: {up: 1}")
    assert written(cloned(workshop), step) == {}
    elsewhere = POLICY.replace(b"cooldown", b"scope: {namespace: other}, cooldown")
    assert written(cloned(workshop), elsewhere) == {}


def test_what_a_backtest_reads_is_as_long_as_its_rules_look_back(
    person: tuple[Workshop, Callable[[float], None]],
) -> None:
    workshop, ago = person
    ago(15)
    workshop.write("a.yaml", manifest(5))
    workshop.commit()
    repository, asked = cloned(workshop), settings()
    variants = declared_variants(asked, fold(read_files(repository, asked, "r").commit, asked))
    found = read_written(repository, asked, variants, NOW_S, NOW_S - 2 * DAY_S)
    assert days(found[0])[-1] == (15.0, 5)
    assert days(found[0]) == days(read_written(repository, asked, variants, NOW_S)[0])


def test_a_merge_counts_at_its_own_time_and_a_squash_too(person: tuple[Workshop, Callable[[float], None]]) -> None:
    workshop, ago = person
    for day, name, how in ((12, "one", "--no-ff"), (6, "two", "--squash")):
        workshop.git("checkout", "-q", "-b", name)
        for part in (3, 2):
            ago(day + part)
            workshop.write("a.yaml", manifest(int(day) + part))
            workshop.commit(branch=name)
        workshop.git("checkout", "-q", "main")
        ago(day)
        workshop.git("merge", "-q", how, name)
        workshop.commit("Squashed")
    assert days(written(cloned(workshop))["chat"]) == [(12, 14), (6, 8)]


def test_a_revert_is_a_change_as_well(person: tuple[Workshop, Callable[[float], None]]) -> None:
    workshop, ago = person
    ago(5)
    workshop.write("a.yaml", manifest(9))
    workshop.commit()
    ago(4)
    workshop.git("revert", "--no-edit", "HEAD")
    workshop.commit()
    assert days(written(cloned(workshop))["chat"]) == [(5, 9), (4, 3)]


def test_a_file_that_was_renamed_is_followed(person: tuple[Workshop, Callable[[float], None]]) -> None:
    workshop, ago = person
    ago(9)
    workshop.write("a.yaml", manifest(5))
    workshop.commit()
    ago(7)
    workshop.git("mv", "a.yaml", "chat.yaml")
    workshop.commit()
    assert days(written(cloned(workshop))["chat"]) == [(9, 5)]


def test_documents_move_in_a_file_and_what_is_new_was_not_there(
    person: tuple[Workshop, Callable[[float], None]],
) -> None:
    workshop, ago = person
    ago(8)
    workshop.write("a.yaml", manifest(1, "notes") + b"---\n" + manifest(4))
    workshop.commit()
    found = written(cloned(workshop))
    assert days(found["chat"]) == [(8, 4)]
    assert (found["notes"].is_whole, found["notes"].changes, days(found["notes"])) == (True, (), [(8, 1)])
    assert found["notes"].at(NOW_S - 9 * DAY_S) == 0


def test_a_number_that_moved_into_a_kustomization_was_in_the_manifest_before(
    person: tuple[Workshop, Callable[[float], None]],
) -> None:
    workshop, ago = person
    ago(39)
    workshop.write("kustomization.yaml", b"resources: [a.yaml]\n")
    workshop.commit()
    ago(11)
    workshop.write("a.yaml", manifest(2))
    workshop.commit()
    for day, count, other in ((9, 6, b""), (3, 8, b"- {name: other, count: 1}\n")):
        ago(day)
        entry = b"resources: [a.yaml]\nreplicas:\n%s- {name: chat, count: %d}\n" % (other, count)
        workshop.write("kustomization.yaml", entry)
        workshop.commit()
    assert days(written(cloned(workshop))["chat"]) == [(11, 2), (9, 6), (3, 8)]


def test_what_cannot_be_read_is_not_known(person: tuple[Workshop, Callable[[float], None]]) -> None:
    workshop, ago = person
    for day, content in ((9, manifest(5).replace(b"replicas: 5", b"paused: true")), (5, manifest(4))):
        ago(day)
        workshop.write("a.yaml", content)
        workshop.commit()
    found = written(cloned(workshop))["chat"]
    assert (days(found), found.changes) == ([(9, None), (5, 4)], ())


def test_a_base_that_was_pushed_by_force_has_the_history_that_it_has_now(
    person: tuple[Workshop, Callable[[float], None]],
) -> None:
    workshop, ago = person
    ago(6)
    workshop.write("a.yaml", manifest(7))
    workshop.commit()
    workshop.git("reset", "-q", "--hard", "HEAD~1")
    ago(4)
    workshop.write("a.yaml", manifest(5))
    workshop.commit()
    assert days(written(cloned(workshop))["chat"]) == [(4, 5)]


def test_a_shallow_checkout_tells_what_it_has(person: tuple[Workshop, Callable[[float], None]], tmp_path: Path) -> None:
    """Nothing is fetched into a person's checkout: before its oldest commit nobody knows."""
    workshop, ago = person
    for day, count in ((10, 6), (2, 5)):
        ago(day)
        workshop.write("a.yaml", manifest(count))
        workshop.commit()
    run_git(tmp_path, "clone", "-q", "--depth=2", f"file://{workshop.remote}", "shallow")
    found = written(open_directory(tmp_path / "shallow"))["chat"]
    assert (days(found), found.at(NOW_S - 11 * DAY_S), found.is_whole) == ([(10, 6), (2, 5)], None, False)


def test_a_server_that_does_not_deepen_is_told_and_nothing_is_known(
    person: tuple[Workshop, Callable[[float], None]], caplog: pytest.LogCaptureFixture
) -> None:
    workshop, _ = person
    clone = cloned(workshop)
    workshop.remote.rename(workshop.remote.parent / "gone")
    assert written(clone) == {}
    assert "Git's history is not known, so nothing is allowed that depends on it: fetch the history" in caplog.text


def test_more_than_may_be_read_is_not_known(
    person: tuple[Workshop, Callable[[float], None]], monkeypatch: pytest.MonkeyPatch
) -> None:
    workshop, ago = person
    for day, count in ((10, 6), (5, 7), (2, 5)):
        ago(day)
        workshop.write("a.yaml", manifest(count))
        workshop.commit()
    monkeypatch.setattr("reconciler.pipeline.observe.MOST_BYTES", 2 * len(manifest(5)))
    found = written(cloned(workshop))["chat"]
    assert (days(found), found.at(NOW_S - 11 * DAY_S)) == ([(10, 6), (5, 7), (2, 5)], None)


def test_a_long_history_is_fetched_in_steps(
    person: tuple[Workshop, Callable[[float], None]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not farther than rules look, and through merges."""
    workshop, ago = person
    for day in range(38, 1, -3):
        workshop.git("checkout", "-q", "-b", f"b{day}")
        ago(day + 0.5)
        workshop.write("a.yaml", manifest(day))
        workshop.commit(branch=f"b{day}")
        workshop.git("checkout", "-q", "main")
        ago(day)
        workshop.git("merge", "-q", "--no-ff", f"b{day}")
        workshop.git("push", "-q", "origin", "main")
    monkeypatch.setattr("reconciler.git.clone.DEPTHS", (2, 4, 9, 2**31 - 1))
    clone = cloned(workshop)
    found = written(clone)["chat"]
    assert days(found) == [(20, 20), (17, 17), (14, 14), (11, 11), (8, 8), (5, 5), (2, 2)]
    assert clone.is_shallow()
    assert written(clone)["chat"] == found
