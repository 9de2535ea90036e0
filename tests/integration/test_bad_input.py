"""Whatever is wrong outside: it is named, the rest goes on, and nothing is written for it."""

import json
import os
import re
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

from reconciler.git.clone import Clone
from reconciler.http.messages import Limits
from reconciler.prometheus.client import PrometheusClient
from tests.servers.fleet import CHAT_DEPLOYMENT, CHAT_VARIANT, CODE, Fleet, Level, Outcome
from tests.servers.tampering import Tampering, tamper_with

pytestmark = pytest.mark.integration

CHAT = "reconciler/prod-chat-urgent-705ae555"
BAD = "clusters/prod/bad/x.yaml"
VARIANT = CHAT_VARIANT.replace("chat", "bad").replace("llama}", "x}")
DEPLOYMENT = CHAT_DEPLOYMENT.decode().replace("namespace: chat", "namespace: bad").replace("name: llama,", "name: x,")
SECRET = "apiVersion: v1\nkind: Secret\nmetadata: {name: s, namespace: bad}\nstringData: {password: canary-in-git}\n"
BOMB = "a0: &a0 [x, x]\n" + "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 12))
IN_VARIANT = "kind: VariantAutoscaling\napiVersion: llmd.ai/v1alpha1\n"


def is_clean(outcome: Outcome) -> bool:
    """Whether a person sees sentences only."""
    return "Traceback" not in outcome.out + outcome.err


def field(name: str, value: str) -> str:
    """The variant with one more field in its spec."""
    return f"{VARIANT}  {name}: {value}\n"


@pytest.fixture
def local(make_fleet: Callable[..., Fleet]) -> Fleet:
    """A fleet on the local forge in a busy hour."""
    fleet = make_fleet("local")
    fleet.go_to(Level.BUSY)
    return fleet


# Files.

UNREADABLE = {
    "malformed": (f"{IN_VARIANT}spec: [1, 2\nmetadata: }}\n", r"x\.yaml:4"),
    "duplicate keys": (f"{VARIANT}spec: {{}}\n", r"x\.yaml:7: error: spec: the key is already set on line 4"),
    "10 MiB": (f"{IN_VARIANT}x: {'y' * 10 * 2**20}\n", r"x\.yaml: error: expected at most 1048576 bytes"),
    "1,000 levels": (f"{IN_VARIANT}x: {'[' * 1000}{']' * 1000}\n", r"x\.yaml:3.*100"),
    "alias bomb": (f"{IN_VARIANT}{BOMB}", r"x\.yaml.*alias"),
    "binary": ("kind: VariantAutoscaling\x00\x01\x02", r"x\.yaml"),
    "model ID is a list": (
        VARIANT.replace("modelID: meta-llama/Llama-3.1-8B-Instruct", "modelID: [1]"),
        r":6.*modelID",
    ),
    "negative minimum": (field("minReplicas", "-1"), r":7.*spec\.minReplicas.*-1"),
    "a maximum of text": (field("maxReplicas", "many"), r":7.*spec\.maxReplicas.*many"),
    "a cost of text": (field("variantCost", "ten"), r":7.*spec\.variantCost.*ten"),
    "replicas of text": (
        f"{VARIANT}---\n{DEPLOYMENT}".replace("replicas:   2", "replicas: two"),
        r"spec\.replicas.*two",
    ),
    "too many replicas": (
        f"{VARIANT}---\n{DEPLOYMENT}".replace("replicas:   2", "replicas: 99999999999999999999"),
        r"spec\.replicas",
    ),
    "one name twice": (
        f"{VARIANT}---\n{VARIANT}---\n{DEPLOYMENT}",
        r"x\.yaml:8: error: metadata.name: .* declared again at",
    ),
}


@pytest.mark.parametrize("case", UNREADABLE)
def test_a_file_that_cannot_be_read_is_named_and_the_rest_is_planned(local: Fleet, case: str) -> None:
    content, complaint = UNREADABLE[case]
    local.write(BAD, content)
    outcome = local.invoke("plan")
    assert outcome.code == 3, outcome
    assert is_clean(outcome)
    assert re.search(complaint, outcome.out), outcome.out[:3000]
    assert re.search(r"chat/llama +2 → 4", outcome.out)
    assert len(outcome.out) < 10_000


HELD = {
    "no Deployment": (VARIANT, "scale target Deployment bad/x is not in Git"),
    "no replicas": (
        VARIANT.replace("name: llama}", "name: x}")
        + "---\n"
        + DEPLOYMENT.replace("  replicas:   2     # since June\r\n", ""),
        "has no spec.replicas",
    ),
    "beside a Secret": (f"{VARIANT}---\n{DEPLOYMENT}---\n{SECRET}", "also holds a Secret"),
    "no metrics": (
        f"{VARIANT}---\n{DEPLOYMENT}".replace("name: llama", "name: x"),
        "no series for model",
    ),
}


@pytest.mark.parametrize("case", HELD)
def test_what_cannot_be_decided_is_held_with_its_reason(local: Fleet, case: str) -> None:
    content, reason = HELD[case]
    local.write(BAD, content)
    outcome = local.run()
    assert outcome.code == 0
    assert reason in outcome.out
    assert not any("bad" in name for name in local.branches())
    assert CHAT in local.branches()
    assert "canary-in-git" not in outcome.out + outcome.err


def test_a_link_is_named_and_not_followed(local: Fleet) -> None:
    folder = local.workshop.clone / "clusters" / "prod" / "bad"
    folder.mkdir()
    (folder / "x.yaml").symlink_to("/etc/hostname")
    local.write("README.md", "linked\n")
    outcome = local.invoke("plan")
    assert outcome.code == 0
    assert "clusters/prod/bad/x.yaml: warning: expected a file, found a symbolic link" in outcome.out


def test_a_run_beside_bad_files_publishes_the_rest_and_exits_3(local: Fleet) -> None:
    for number, (content, _) in enumerate(UNREADABLE.values()):
        local.write(f"clusters/prod/bad{number}/x.yaml", content.replace("namespace: bad", f"namespace: bad{number}"))
    outcome = local.run()
    assert (outcome.code, outcome.err) == (3, "")
    assert sorted(name.split("-")[1] for name in local.branches() if name != "main") == ["chat", "code"]
    with local.writes() as writes:
        assert local.run().code == 3
    assert writes == []


@pytest.mark.parametrize("path", ["clusters/prod/chat/variant.yaml", "clusters/prod/chat/deployment.yaml"])
@pytest.mark.parametrize("neighbour", [False, True])
def test_an_open_pull_request_stays_while_a_file_of_it_cannot_be_read(local: Fleet, path: str, neighbour: bool) -> None:
    if neighbour:
        local.write("clusters/prod/chat/other.yaml", CODE.replace("namespace: code", "namespace: chat"))
    assert local.run().code == 0
    before = local.pull_requests()
    assert CHAT in {each.head for each in before}
    local.write(path, b"kind: VariantAutoscaling\nkind: Deployment\nspec: [\n")
    with local.writes() as writes:
        outcome = local.run()
    assert (outcome.code, writes) == (3, [])
    assert local.pull_requests() == before


# Prometheus.


@pytest.fixture
def tampering(prometheus: str) -> Iterator[Tampering]:
    """The day's Prometheus with somebody in between."""
    with tamper_with(prometheus) as running:
        yield running


@pytest.fixture
def lied_to(make_fleet: Callable[..., Fleet], tampering: Tampering, monkeypatch: pytest.MonkeyPatch) -> Fleet:
    """A fleet with open pull requests behind a Prometheus that may lie from now on."""
    limits = Limits(connect_s=1.0, read_s=0.3, total_s=1.0, body_bytes=2**20, attempts=2, backoff_s=0.01)
    monkeypatch.setattr("reconciler.pipeline.session.PrometheusClient", partial(PrometheusClient, limits=limits))
    fleet = make_fleet("local", prometheus=tampering.url)
    fleet.go_to(Level.BUSY)
    assert fleet.run().code == 0
    fleet.go_to(Level.QUIET)
    return fleet


def assert_nothing_happens(fleet: Fleet, code: int, reason: str) -> None:
    """Held for a reason, and no pull request is touched although the load went away."""
    with fleet.writes() as writes:
        outcome = fleet.run()
    assert is_clean(outcome)
    assert (outcome.code, writes) == (code, []), outcome
    assert reason in outcome.out, outcome.out


def edit_results(edit: Callable[[list[Any]], object]) -> Callable[[bytes], bytes]:
    """A change of the list of series in every answer."""

    def change(body: bytes) -> bytes:
        answer = json.loads(body)
        answer["data"]["result"] = edit(answer["data"]["result"])
        return json.dumps(answer).encode()

    return change


def with_value(value: object) -> Callable[[bytes], bytes]:
    """Every sample's value replaced, of a moment and over time."""

    def replaced(one: Any) -> Any:
        if "values" in one:
            return {**one, "values": [[at, value] for at, _ in one["values"]]}
        return {**one, "value": [one["value"][0], value]}

    return edit_results(lambda series: [replaced(one) for one in series])


CHANGES: dict[str, tuple[Callable[[bytes], bytes], int, str]] = {
    "HTML": (lambda _body: b"<html>Sign in</html>", 4, "no JSON object"),
    "no answer in JSON": (lambda _body: b'{"status": "success", "data": "x"}', 4, "Failed"),
    "cut off": (lambda body: body[: len(body) // 2], 4, "Failed"),
    "series of text": (edit_results(lambda _series: ["x"]), 4, "Failed"),
    "values that are objects": (with_value({"a": 1}), 4, "Failed"),
    "values that are words": (with_value("many"), 4, "Failed"),
    "NaN": (with_value("NaN"), 0, "Held"),
    "infinite": (with_value("+Inf"), 0, "Held"),
    "negative": (with_value("-5"), 0, "Held"),
    "nothing": (edit_results(lambda _series: []), 0, "no series for model"),
}


@pytest.mark.parametrize("case", CHANGES)
def test_an_answer_that_cannot_be_true_changes_nothing(lied_to: Fleet, tampering: Tampering, case: str) -> None:
    tampering.change, code, reason = CHANGES[case]
    assert_nothing_happens(lied_to, code, reason)


def test_a_prometheus_that_hangs_changes_nothing(lied_to: Fleet, tampering: Tampering) -> None:
    tampering.hangs = True
    assert_nothing_happens(lied_to, 4, "Failed")


def test_an_answer_of_200_mb_is_cut_off_and_changes_nothing(lied_to: Fleet, tampering: Tampering) -> None:
    tampering.streams_bytes = 200_000_000
    assert_nothing_happens(lied_to, 4, "the answer is larger than")
    # What lies in the buffers of the system when we hang up; of each question a few MB.
    assert tampering.sent_bytes < 10_000_000 * len(tampering.authorizations)


def test_a_prometheus_that_is_gone_changes_nothing(lied_to: Fleet) -> None:
    lied_to.prometheus = "http://127.0.0.1:9"
    assert_nothing_happens(lied_to, 4, "127.0.0.1:9")


def test_half_of_the_series_holds_the_models_that_miss_theirs(lied_to: Fleet, tampering: Tampering) -> None:
    tampering.change = edit_results(lambda series: [one for one in series if one["metric"].get("namespace") != "chat"])
    assert_nothing_happens(lied_to, 0, "no series for model")


def test_a_replica_that_is_not_scraped_never_shrinks_its_variant(lied_to: Fleet, tampering: Tampering) -> None:
    """Half of the load is unseen, and the other half alone would fit on one replica."""
    tampering.change = edit_results(
        lambda series: [one for one in series if not one["metric"].get("pod", "").endswith("hjklm")]
    )
    outcome = lied_to.invoke("plan")
    assert outcome.code == 0
    assert "chat/llama" not in outcome.out
    assert "1 of 2 replicas of chat/llama report" in lied_to.invoke("explain", "chat/llama").out


# Git and the forge.


def test_a_rejected_push_is_told_and_the_other_group_goes_on(make_fleet: Callable[..., Fleet]) -> None:
    fleet = make_fleet("github")
    hook = fleet.workshop.remote / "hooks" / "pre-receive"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\ngrep -q prod-chat && { echo 'frozen until Monday' >&2; exit 1; }\nexit 0\n")
    hook.chmod(0o755)
    fleet.go_to(Level.BUSY)
    outcome = fleet.run()
    assert outcome.code == 4
    assert is_clean(outcome)
    assert "frozen until Monday" in outcome.out
    assert [each.head for each in fleet.pull_requests()] == [name for name in fleet.branches() if "code" in name]
    hook.unlink()
    assert fleet.run().code == 0
    assert len(fleet.pull_requests()) == 2


def test_a_base_that_moves_during_the_run_is_no_failure(local: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    original = Clone.push

    def push(self: Clone, branch: str, commit: str, *, expected: str | None) -> None:
        local.write("README.md", f"moved before {branch}\n")
        original(self, branch, commit, expected=expected)

    before = local.branches()["main"]
    monkeypatch.setattr(Clone, "push", push)
    assert local.run().code == 0
    assert local.show("%P", local.branches()[CHAT]) == before
    with local.writes() as writes:
        assert local.run().code == 0
    assert writes == []


STATUSES = {401: 5, 403: 5, 404: 5, 409: 4, 422: 4, 429: 4, 500: 4}
SERVED = pytest.mark.parametrize("kind", ["github", "gitlab"])


@SERVED
@pytest.mark.parametrize("status", STATUSES)
def test_a_forge_that_refuses_the_list_stops_the_run_before_any_write(
    make_fleet: Callable[..., Fleet], kind: str, status: int
) -> None:
    fleet = make_fleet(kind)
    assert fleet.forge
    fleet.go_to(Level.BUSY)
    fleet.forge.fail(*fleet.forge.lists, status=status, times=100)
    with fleet.writes() as writes:
        outcome = fleet.run()
    assert (outcome.code, writes) == (STATUSES[status], [])
    assert outcome.err.startswith("error: ")
    assert str(status) in outcome.err
    assert is_clean(outcome)
    assert fleet.invoke("plan").code == 0


@SERVED
@pytest.mark.parametrize("status", STATUSES)
def test_a_forge_that_refuses_one_pull_request_gets_the_others_and_the_next_run_completes(
    make_fleet: Callable[..., Fleet], kind: str, status: int
) -> None:
    fleet = make_fleet(kind)
    assert fleet.forge
    fleet.go_to(Level.BUSY)
    attempts = 4 if status in {429, 500} or (kind, status) == ("gitlab", 409) else 1
    fleet.forge.fail(*fleet.forge.creates, status=status, times=attempts)
    outcome = fleet.run()
    assert outcome.code == STATUSES[status]
    assert re.search(rf"failed: prod/chat .*Git(Hub|Lab) answered {status}", outcome.out), outcome.out
    assert [each.head for each in fleet.pull_requests()] == [name for name in fleet.branches() if "code" in name]
    assert fleet.run().code == 0
    assert len(fleet.pull_requests()) == 2


@SERVED
@pytest.mark.parametrize("status", [403, 409, 500])
def test_a_forge_that_refuses_an_update_gets_it_in_the_next_run(
    make_fleet: Callable[..., Fleet], kind: str, status: int
) -> None:
    fleet = make_fleet(kind)
    assert fleet.forge
    fleet.go_to(Level.BUSY)
    assert fleet.run().code == 0
    fleet.go_to(Level.PEAK)
    fleet.forge.fail(*fleet.forge.updates, status=status, times=4)
    assert fleet.run().code == STATUSES[status]
    fleet.forge.faults.clear()
    assert fleet.run().code == 0
    chat = next(each for each in fleet.pull_requests() if each.head == CHAT)
    assert "2 → **6**" in chat.body
    with fleet.writes() as writes:
        assert fleet.run().code == 0
    assert writes == []


@SERVED
def test_a_wrong_token_is_exit_5_and_names_its_variable(
    make_fleet: Callable[..., Fleet], monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    fleet = make_fleet(kind)
    fleet.go_to(Level.BUSY)
    monkeypatch.setenv("RECONCILER_FORGE_TOKEN", "ghp_wrong-canary")
    outcome = fleet.run()
    assert outcome.code == 5
    assert is_clean(outcome)
    assert "ghp_wrong-canary" not in outcome.out + outcome.err


@SERVED
def test_no_token_at_all_is_exit_5_and_names_what_to_set(
    make_fleet: Callable[..., Fleet], monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    fleet = make_fleet(kind)
    monkeypatch.delenv("RECONCILER_FORGE_TOKEN")
    outcome = fleet.run()
    assert outcome.code == 5
    assert "RECONCILER_FORGE_TOKEN" in outcome.err
    assert os.environ.get("RECONCILER_FORGE_TOKEN") is None
