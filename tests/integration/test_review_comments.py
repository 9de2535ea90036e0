"""Reviews told under pull requests: one comment, kept up to date, and a status; forks' heads are data."""

import json
import re
import signal
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from tests.servers.fleet import CHAT_DEPLOYMENT, FULL_NAME, Fleet, Level, Outcome
from tests.servers.forge_server import ForgeServer, StoredComment
from tests.servers.git_workshop import run_git
from tests.servers.github import OWN_ID
from tests.servers.runner import Job, run_step

pytestmark = pytest.mark.integration

DEPLOYMENT = "clusters/prod/chat/deployment.yaml"
COMMENTS = r"/issues/\d+/comments$"
FORK = "mallory/fleet"


@pytest.fixture
def fleet(make_fleet: Callable[..., Fleet]) -> Fleet:
    """A fleet on GitHub in a busy hour."""
    made = make_fleet("github")
    made.go_to(Level.BUSY)
    return made


def server_of(fleet: Fleet) -> ForgeServer:
    assert fleet.forge is not None
    return fleet.forge


def sized(count: int) -> str:
    return CHAT_DEPLOYMENT.decode().replace("replicas:   2 ", f"replicas:   {count} ")


def commit(fleet: Fleet, files: Mapping[str, str], onto: str = "main") -> str:
    """A commit on top of `onto`, brought to the remote under a name that no branch has."""
    git = fleet.workshop.git
    git("fetch", "-q", "origin", onto)
    git("checkout", "-q", "--detach", "FETCH_HEAD")
    for path, content in files.items():
        fleet.workshop.write(path, content.encode())
    git("add", "-A")
    git("commit", "-q", "--allow-empty", "-m", "A change")
    made = git("rev-parse", "HEAD")
    git("push", "-q", "--force", "origin", f"HEAD:refs/parked/{made}")
    git("checkout", "-q", "-B", "main", "origin/main")
    return made


def propose(fleet: Fleet, files: Mapping[str, str], *, branch: str = "change", fork: str | None = None) -> int:
    """A pull request with one commit; a fork's is here under its number alone."""
    made = commit(fleet, files)
    if fork is None:
        run_git(fleet.workshop.remote, "update-ref", f"refs/heads/{branch}", made)
    return server_of(fleet).open_pull_request(FULL_NAME, head=branch, fork=fork, commit=made).number


def push(fleet: Fleet, number: int, files: Mapping[str, str]) -> None:
    """Another commit on the head of a pull request."""
    server = server_of(fleet)
    stored = server.repositories[FULL_NAME].pull_requests[number]
    made = commit(fleet, files, onto=server.head_ref.format(number=number))
    if stored.head_repository is None:
        run_git(fleet.workshop.remote, "update-ref", f"refs/heads/{stored.head}", made)
    server.push_head(FULL_NAME, number, made)


def start_job(fleet: Fleet, number: int, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The event file of a job that a pull request started."""
    stored = server_of(fleet).repositories[FULL_NAME].pull_requests[number]
    event = {
        "pull_request": {
            "number": number,
            "head": {"sha": stored.head_commit, "repo": {"full_name": stored.head_repository or FULL_NAME}},
            "base": {"ref": "main", "repo": {"full_name": FULL_NAME}},
        }
    }
    path = folder / "event.json"
    path.write_text(json.dumps(event))
    monkeypatch.setenv("GITHUB_EVENT_PATH", str(path))


def comments(fleet: Fleet, number: int) -> list[StoredComment]:
    return [each for each in server_of(fleet).repositories[FULL_NAME].comments.values() if each.number == number]


def statuses(fleet: Fleet, number: int) -> list[tuple[str, str]]:
    repository = server_of(fleet).repositories[FULL_NAME]
    shown = repository.statuses.get(repository.pull_requests[number].head_commit, [])
    return [(each.get("state") or each["status"], each["description"]) for each in shown]


def review_open(fleet: Fleet, *arguments: str) -> Outcome:
    return fleet.invoke("review", "--open", *arguments)


# The job of a pull request


def test_a_job_comments_once_and_sets_the_status(fleet: Fleet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    number = propose(fleet, {DEPLOYMENT: sized(1)})
    start_job(fleet, number, tmp_path, monkeypatch)
    first = fleet.invoke("review", "--comment", "--fail-on", "slo")
    assert first.code == 3, first
    (comment,) = comments(fleet, number)
    assert "sets chat/llama to 1 replica; its demand of" in comment.body
    assert "| ✗ |" in comment.body
    assert "`clusters/prod/chat/deployment.yaml:6`" in comment.body
    assert statuses(fleet, number) == [("failure", "1 variant changes: −$6.88/h (−$5,000 a month); 1 misses a target")]
    with fleet.writes() as writes:
        assert fleet.invoke("review", "--comment", "--fail-on", "slo").code == 3
    assert writes == []


def test_another_load_edits_no_comment_and_another_head_edits_the_same(
    fleet: Fleet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    number = propose(fleet, {DEPLOYMENT: sized(9)})
    start_job(fleet, number, tmp_path, monkeypatch)
    assert fleet.invoke("review", "--comment").code == 0
    (comment,) = comments(fleet, number)
    said = comment.body
    fleet.hour += 3
    with fleet.writes() as writes:
        assert fleet.invoke("review", "--comment").code == 0
    assert (writes, comment.body) == ([], said), "the same level in another hour"
    push(fleet, number, {DEPLOYMENT: sized(4)})
    start_job(fleet, number, tmp_path, monkeypatch)
    assert fleet.invoke("review", "--comment").code == 0
    assert comments(fleet, number) == [comment]
    assert "sets chat/llama to 4 replicas" in comment.body


def test_what_is_no_matter_of_ours_gets_a_status_and_no_comment(
    fleet: Fleet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    number = propose(fleet, {"README.md": "# Words\n"})
    start_job(fleet, number, tmp_path, monkeypatch)
    assert fleet.invoke("review", "--comment").code == 0
    assert comments(fleet, number) == []
    assert [state for state, _ in statuses(fleet, number)] == ["success"]


def test_a_forks_job_writes_nothing(fleet: Fleet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    number = propose(fleet, {DEPLOYMENT: sized(1)}, fork=FORK)
    start_job(fleet, number, tmp_path, monkeypatch)
    with fleet.writes() as writes:
        outcome = fleet.invoke("review", "--comment", "--fail-on", "slo")
    assert (outcome.code, writes) == (3, [])
    assert "a fork's job may not comment: `reconciler review --open` on a schedule does" in outcome.err


def test_a_merge_queue_gets_a_status_alone(fleet: Fleet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = commit(fleet, {DEPLOYMENT: sized(9)})
    ref = "refs/heads/gh-readonly-queue/main/pr-1-abc"
    run_git(fleet.workshop.remote, "update-ref", ref, made)
    group = {"head_sha": made, "head_ref": ref, "base_ref": "refs/heads/main"}
    path = tmp_path / "event.json"
    path.write_text(json.dumps({"merge_group": group}))
    monkeypatch.setenv("GITHUB_EVENT_PATH", str(path))
    assert fleet.invoke("review", "--comment").code == 0
    repository = server_of(fleet).repositories[FULL_NAME]
    assert [each["state"] for each in repository.statuses[made]] == ["success"]
    assert not repository.comments


@pytest.fixture
def gitlab(make_fleet: Callable[..., Fleet]) -> Fleet:
    """The same on GitLab."""
    made = make_fleet("gitlab")
    made.go_to(Level.BUSY)
    return made


def test_a_pipeline_of_gitlab_comments_once(gitlab: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    number = propose(gitlab, {DEPLOYMENT: sized(1)})
    job = {
        "CI_MERGE_REQUEST_IID": str(number),
        "CI_MERGE_REQUEST_TARGET_BRANCH_NAME": "main",
        "CI_COMMIT_SHA": server_of(gitlab).repositories[FULL_NAME].pull_requests[number].head_commit,
        "CI_MERGE_REQUEST_PROJECT_ID": "1",
        "CI_MERGE_REQUEST_SOURCE_PROJECT_ID": "1",
    }
    for name, text in job.items():
        monkeypatch.setenv(name, text)
    assert gitlab.invoke("review", "--comment", "--fail-on", "slo").code == 3
    (comment,) = comments(gitlab, number)
    assert "sets chat/llama to 1 replica; its demand of" in comment.body
    assert statuses(gitlab, number) == [("failed", "1 variant changes: −$6.88/h (−$5,000 a month); 1 misses a target")]
    with gitlab.writes() as writes:
        assert gitlab.invoke("review", "--comment", "--fail-on", "slo").code == 3
    assert writes == []
    monkeypatch.setenv("CI_MERGE_REQUEST_SOURCE_PROJECT_ID", "77")
    with gitlab.writes() as writes:
        assert "a fork's job may not comment" in gitlab.invoke("review", "--comment").err
    assert writes == []


def test_all_open_merge_requests_are_reviewed_once_forks_too(gitlab: Fleet) -> None:
    own, forks = propose(gitlab, {DEPLOYMENT: sized(1)}), propose(gitlab, {DEPLOYMENT: sized(9)}, fork=FORK)
    server_of(gitlab).cut("POST", r"/notes$", applied=True)
    outcome = review_open(gitlab, "--fail-on", "slo")
    assert "reviewed, 0 already were" in outcome.out, outcome
    outcome = review_open(gitlab, "--fail-on", "slo")
    assert [len(comments(gitlab, number)) for number in (own, forks)] == [1, 1], outcome
    assert [state for state, _ in statuses(gitlab, own)] == ["failed"]
    with gitlab.writes() as writes:
        assert "0 pull requests reviewed, 2 already were" in review_open(gitlab, "--fail-on", "slo").out
    assert writes == []


def test_a_comment_needs_a_job_and_a_token(fleet: Fleet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    outcome = fleet.invoke("review", "--base", "main", "--head", "change", "--comment")
    assert (outcome.code, "started for a pull request" in outcome.err) == (5, True)
    start_job(fleet, propose(fleet, {DEPLOYMENT: sized(1)}), tmp_path, monkeypatch)
    monkeypatch.setenv("RECONCILER_PAUSED", "1")
    with fleet.writes() as writes:
        outcome = fleet.invoke("review", "--comment")
        assert "paused by RECONCILER_PAUSED" in review_open(fleet).err
    assert (outcome.code, "paused by RECONCILER_PAUSED" in outcome.err, writes) == (0, True, [])
    assert "sets chat/llama to 1 replica" in outcome.out
    monkeypatch.delenv("RECONCILER_PAUSED")
    monkeypatch.delenv("RECONCILER_FORGE_TOKEN")
    monkeypatch.setenv("RECONCILER_PROMETHEUS_TOKEN", "")
    outcome = fleet.invoke("review", "--comment")
    assert outcome.code in (4, 5), "git wants the token too"


def run_action(fleet: Fleet, **inputs: str) -> Job:
    """The action on a checkout, with the token of a job and an operator's Prometheus."""
    assert fleet.git
    fleet.workshop.git("remote", "set-url", "origin", fleet.git.url)
    server = server_of(fleet)
    given = {"token": server.token, "trusted_origins": server.host, "prometheus": fleet.prometheus, **inputs}
    return run_step(fleet.workshop.clone, **given)


def test_the_action_comments_on_the_pull_request_of_its_job(
    fleet: Fleet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    number = propose(fleet, {DEPLOYMENT: sized(1)})
    start_job(fleet, number, tmp_path, monkeypatch)
    fleet.workshop.git("fetch", "-q", "origin", "main:refs/remotes/origin/main", f"refs/pull/{number}/head")
    job = run_action(fleet, mode="review", comment="true", event=str(tmp_path / "event.json"))
    assert job.code == 3, job.log
    assert "::error file=clusters/prod/chat/deployment.yaml,line=6,title=review-slo::sets chat/llama to 1" in job.log
    assert job.page.startswith(
        "### reconciler review\n\n1 variant changes: −$6.88/h (−$5,000 a month); 1 misses a target"
    )
    assert "its demand of" in comments(fleet, number)[0].body
    assert [state for state, _ in statuses(fleet, number)] == ["failure"]


def test_the_action_reviews_all_that_is_open(fleet: Fleet) -> None:
    number = propose(fleet, {DEPLOYMENT: sized(1)}, fork=FORK)
    job = run_action(fleet, mode="review-open")
    assert (job.code, len(comments(fleet, number))) == (0, 1), job.log
    assert f"#{number}  1 variant changes: −$6.88/h (−$5,000 a month); 1 misses a target" in job.log
    assert server_of(fleet).token not in job.log


# One comment, whatever goes wrong


def test_a_lost_answer_leaves_one_comment(fleet: Fleet) -> None:
    number = propose(fleet, {DEPLOYMENT: sized(1)})
    server_of(fleet).cut("POST", COMMENTS, applied=True, times=3)
    review_open(fleet)
    assert review_open(fleet).code == 0
    assert len(comments(fleet, number)) == 1


def kill_review(fleet: Fleet, step: str) -> None:
    """A review of all open ones that ends by SIGKILL right after `step`."""
    code, said = fleet.start(step, "--open", command="review").end()
    assert code == -signal.SIGKILL, said


@pytest.mark.parametrize("forge", ["github", "gitlab"])
@pytest.mark.parametrize("step", ["comment", "edit", "status"])
def test_a_review_that_was_killed_between_two_writes_is_completed_by_the_next(
    make_fleet: Callable[..., Fleet], forge: str, step: str
) -> None:
    """The status was set and the comment not written or edited; or both were, and nobody heard of it."""
    fleet = make_fleet(forge)
    fleet.go_to(Level.BUSY)
    number = propose(fleet, {DEPLOYMENT: sized(1)})
    if step == "edit":
        assert review_open(fleet).code == 0
        push(fleet, number, {DEPLOYMENT: sized(9)})
    kill_review(fleet, step)
    left = comments(fleet, number)
    assert review_open(fleet).code == 0
    (comment,) = comments(fleet, number)
    assert left == ([] if step == "status" else [comment]), "it is not written twice"
    assert f"{9 if step == 'edit' else 1} replica" in comment.body
    assert len(statuses(fleet, number)) == 1, "a comment says that all was done"
    with fleet.writes() as writes:
        assert review_open(fleet).code == 0
    assert writes == []


def test_a_review_that_was_killed_while_it_tidied_up_leaves_the_oldest_to_the_next(fleet: Fleet) -> None:
    number = propose(fleet, {DEPLOYMENT: sized(1)})
    review_open(fleet)
    (first,) = comments(fleet, number)
    for _ in range(2):
        server_of(fleet).comment(FULL_NAME, number, first.body, login="reconciler-bot", user_id=OWN_ID)
    push(fleet, number, {DEPLOYMENT: sized(9)})
    kill_review(fleet, "tidy")
    assert len(comments(fleet, number)) == 2
    assert review_open(fleet).code == 0
    (kept,) = comments(fleet, number)
    assert (kept.number, "9 replicas" in kept.body) == (first.number, True)
    assert len(statuses(fleet, number)) == 1


@pytest.mark.parametrize(("status", "told"), [(502, 0), (403, 1)])
def test_a_status_that_fails_for_now_is_set_by_the_next_and_one_that_is_refused_keeps_no_comment_back(
    fleet: Fleet, status: int, told: int
) -> None:
    number = propose(fleet, {DEPLOYMENT: sized(1)})
    server_of(fleet).fail("POST", r"/statuses/", status=status, times=99)
    assert review_open(fleet).code == (4 if status == 502 else 5)
    assert len(comments(fleet, number)) == told
    server_of(fleet).faults.clear()
    assert review_open(fleet).code == 0
    assert (len(comments(fleet, number)), len(statuses(fleet, number))) == (1, 1 - told)


def test_a_rivals_comment_is_folded_into_the_oldest(fleet: Fleet) -> None:
    number = propose(fleet, {DEPLOYMENT: sized(1)})
    review_open(fleet)
    (first,) = comments(fleet, number)
    server_of(fleet).comment(FULL_NAME, number, first.body, login="reconciler-bot", user_id=OWN_ID)
    assert review_open(fleet).code == 0
    assert comments(fleet, number) == [first]


def test_a_comment_with_our_marker_by_somebody_else_is_no_comment_of_ours(fleet: Fleet) -> None:
    number = propose(fleet, {DEPLOYMENT: sized(1)})
    review_open(fleet)
    (first,) = comments(fleet, number)
    repository = server_of(fleet).repositories[FULL_NAME]
    repository.comments.clear()
    server_of(fleet).comment(FULL_NAME, number, first.body)
    assert review_open(fleet).code == 0
    assert [each.login for each in comments(fleet, number)] == ["mallory", "reconciler-bot"]


def test_a_marker_that_was_broken_is_mended(fleet: Fleet) -> None:
    number = propose(fleet, {DEPLOYMENT: sized(1)})
    review_open(fleet)
    (comment,) = comments(fleet, number)
    said = comment.body
    comment.body = said[: said.index("<!-- ")] + '<!-- reconciler-review: {"version":1,"needed":[]} -->'
    assert review_open(fleet).code == 0
    assert (comments(fleet, number), comment.body) == ([comment], said)


# All open ones


def test_all_open_ones_are_reviewed_once_forks_too(fleet: Fleet) -> None:
    own, forks = propose(fleet, {DEPLOYMENT: sized(1)}), propose(fleet, {DEPLOYMENT: sized(9)}, fork=FORK)
    outcome = review_open(fleet, "--fail-on", "slo")
    assert outcome.code == 0, outcome
    assert "2 pull requests reviewed, 0 already were" in outcome.out
    assert [len(comments(fleet, number)) for number in (own, forks)] == [1, 1]
    assert [statuses(fleet, number)[0][0] for number in (own, forks)] == ["failure", "success"]
    with fleet.writes() as writes:
        assert "0 pull requests reviewed, 2 already were" in review_open(fleet, "--fail-on", "slo").out
    assert writes == []


def test_ours_get_the_status_that_may_be_required_and_no_comment(fleet: Fleet) -> None:
    fleet.run()
    numbers = [each.number for each in fleet.pull_requests()]
    assert f"{len(numbers)} pull request" in review_open(fleet).out
    assert [statuses(fleet, number)[0][0] for number in numbers] == ["success"] * len(numbers)
    assert not any(comments(fleet, number) for number in numbers)
    with fleet.writes() as writes:
        review_open(fleet)
    assert writes == []


def test_a_fork_cannot_pose_as_ours(fleet: Fleet) -> None:
    number = propose(fleet, {DEPLOYMENT: sized(1)}, branch="reconciler/prod-chat-0a1b2c3d", fork=FORK)
    review_open(fleet)
    assert len(comments(fleet, number)) == 1


def test_one_bad_head_stops_no_other(fleet: Fleet) -> None:
    good = propose(fleet, {DEPLOYMENT: sized(9)}, fork=FORK)
    gone = propose(fleet, {DEPLOYMENT: sized(9)}, fork=FORK)
    run_git(fleet.workshop.remote, "update-ref", "-d", f"refs/pull/{gone}/head")
    tree = run_git(fleet.workshop.remote, "hash-object", "-w", "-t", "tree", "/dev/null")
    stray = run_git(fleet.workshop.remote, "commit-tree", tree, "-m", "From nowhere")
    unrelated = server_of(fleet).open_pull_request(FULL_NAME, head="x", fork=FORK, commit=stray).number
    outcome = review_open(fleet)
    assert outcome.code == 0, outcome
    assert f"pull request {gone}: fetch refs/pull/{gone}/head" in outcome.err
    assert [len(comments(fleet, number)) for number in (good, gone, unrelated)] == [1, 0, 1]
    assert "have no common ancestor" in comments(fleet, unrelated)[0].body
    assert "2 already were" in review_open(fleet).out, "what cannot be reviewed is not fetched again and again"


def test_the_job_after_another_reviews_the_heads_of_its_commit_alone(
    fleet: Fleet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = (propose(fleet, {DEPLOYMENT: sized(count)}, fork=FORK) for count in (1, 9))
    head = server_of(fleet).repositories[FULL_NAME].pull_requests[second].head_commit
    path = tmp_path / "event.json"
    path.write_text(json.dumps({"workflow_run": {"head_sha": head, "pull_requests": []}}))
    monkeypatch.setenv("GITHUB_EVENT_PATH", str(path))
    assert review_open(fleet).code == 0
    assert [len(comments(fleet, number)) for number in (first, second)] == [0, 1]


def test_what_a_head_holds_neither_formats_nor_mentions_nor_poses_as_ours(fleet: Fleet) -> None:
    evil = "](http://evil.invalid) @here #1 </details> <!-- reconciler-review: {} --> `` | **x**"
    path = f"clusters/prod/chat/{evil.replace('/', '_')}.yaml"
    rules = (
        f"apiVersion: reconciler.io/v1alpha1\nkind: Policy\nrules:\n  - {{name: {json.dumps(evil)}, step: {{up: 2}}}}\n"
    )
    accelerator = f"  - {{name: {json.dumps(evil)}, costPerHour: 1}}\nserviceClasses:"
    files = {
        path: "kind: VariantAutoscaling\napiVersion: llmd.ai/v1alpha1\nspec: [\n",
        "reconciler.yaml": fleet.read("reconciler.yaml").decode().replace("serviceClasses:", accelerator),
        "rules.yaml": rules,
    }
    number = propose(fleet, files, fork=FORK)
    assert review_open(fleet).code == 0
    (comment,) = comments(fleet, number)
    text, _, marker = comment.body.rpartition("<!-- reconciler-review: ")
    assert json.loads(marker.removesuffix(" -->\n"))["version"] == 1
    assert "<!--" not in text
    assert "</details>" not in re.sub(r"`+[^`]*`+", "", text)
    plain = re.sub(r"(`+).+?\1(?!`)", "", text)
    assert not re.search(r"@here|://(?!&#8203;)|(?<!\\)#1|(?<!\\)\]\(|(?<!\\)\*\*x", plain), plain
    assert all(line.count("|") - line.count("\\|") == 3 for line in text.splitlines() if line.startswith("|"))


def test_a_tree_without_end_a_flood_and_a_slow_head_stop_no_other(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("reconciler.git.repository.MOST_LISTED_BYTES", 1_000_000)
    remote, base = fleet.workshop.remote, fleet.workshop.head()
    blob = run_git(remote, "hash-object", "-w", "/dev/null")
    tree = bush(remote, "".join(f"100644 blob {blob}\t{index}.yaml\n" for index in range(10)))
    for _level in range(9):  # ten files, ten billion paths
        tree = bush(remote, "".join(f"040000 tree {tree}\t{index}\n" for index in range(10)))
    bomb = run_git(remote, "commit-tree", tree, "-p", base, "-m", "Small")
    bombed = server_of(fleet).open_pull_request(FULL_NAME, head="x", fork=FORK, commit=bomb).number
    flood = "a: " + "b" * 1_000_000
    flooded = propose(fleet, {f"clusters/prod/chat/{index}.yaml": flood for index in range(34)}, fork=FORK)
    good = propose(fleet, {DEPLOYMENT: sized(9)}, fork=FORK)
    outcome = review_open(fleet)
    assert outcome.code == 0, outcome
    assert "more than 1000000 bytes; this is no fleet repository" in comments(fleet, bombed)[0].body
    assert "changes 34 manifests with 34000102 bytes" in comments(fleet, flooded)[0].body
    assert "sets chat/llama to 9 replicas" in comments(fleet, good)[0].body
    assert statuses(fleet, bombed)[0][0] == "success", "it neither passes nor stops, and GitHub knows no neutral"
    assert "3 already were" in review_open(fleet).out
    push(fleet, good, {DEPLOYMENT: sized(4)})
    monkeypatch.setattr("reconciler.pipeline.review.ONE_S", 0.001)
    assert review_open(fleet).code == 0
    assert "not reviewed: it takes longer than 0 s" in comments(fleet, good)[0].body


def bush(remote: Path, entries: str) -> str:
    """A tree of these entries."""
    made = subprocess.run(["git", "mktree"], cwd=remote, input=entries, capture_output=True, text=True, check=True)
    return made.stdout.strip()
