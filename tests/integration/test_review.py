"""Prepared pull requests of other people: each gets its verdict in words, and nothing that a head holds acts."""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import pytest

from tests.servers.fleet import BATCH, CHAT_DEPLOYMENT, CHAT_VARIANT, CODE, SETTINGS, Fleet, Level, Outcome, run_here

pytestmark = pytest.mark.integration

DEPLOYMENT = "clusters/prod/chat/deployment.yaml"
GRANITE = "clusters/prod/code/granite.yaml"
QWEN = "clusters/prod/batch/qwen.yaml"
RULES = "policies: [default, rules.yaml]\n"
CHAT = CHAT_DEPLOYMENT.decode()
NEW = CHAT_VARIANT.replace("name: llama", "name: extra") + "---\n" + CHAT.replace("name: llama", "name: extra")
HPA = """\
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: qwen, namespace: batch}
spec: {maxReplicas: 3, scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: qwen}}
"""


def sized(count: int) -> str:
    """The chat model with other replicas."""
    return CHAT.replace("replicas:   2 ", f"replicas:   {count} ")


@dataclass(frozen=True, kw_only=True)
class Head:
    """What a person proposes, and what is said of it: a regular expression, and the code with every --fail-on."""

    line: str
    code: int = 0
    files: Mapping[str, str] = field(default_factory=dict)
    removed: tuple[str, ...] = ()


HEADS: Mapping[str, Head] = {
    "as needed": Head(files={DEPLOYMENT: sized(4)}, line=r"sets chat/llama to 4 replicas; \+\$13.76/h \[review-none\]"),
    "too few": Head(
        files={DEPLOYMENT: sized(1)},
        code=3,
        line=r"error: sets chat/llama to 1 replica; its demand of [\d.]+ req/s needs 4 \(.*, target .*\); −\$6.88/h",
    ),
    "too many": Head(
        files={DEPLOYMENT: sized(9)},
        line=r"note: sets chat/llama to 9 replicas; its demand of [\d.]+ req/s needs 4; \+\$48.16/h",
    ),
    "gone": Head(
        removed=(DEPLOYMENT, "clusters/prod/chat/variant.yaml"),
        code=3,
        line=r"error: removes chat/llama; its demand of [\d.]+ req/s needs 4",
    ),
    "new": Head(
        files={"clusters/prod/chat/extra.yaml": NEW},
        line=r"adds chat/extra with 2 replicas on H100; it shares the load of chat/llama; by its profile a full "
        r"replica \(64 requests at once\) keeps its target of 60 ms between tokens; \+\$13.76/h",
    ),
    "another price": Head(
        files={"reconciler.yaml": SETTINGS.replace("costPerHour: 3.97", "costPerHour: 0.01")},
        line=r"reconciler.yaml:\d+: note: A100: costs 0.01 USD/h instead of 3.97",
    ),
    "another class": Head(
        files={"reconciler.yaml": SETTINGS.replace("ttft: 2s", "ttft: 9s")},
        line=r"note: chat/llama: its service class standard changes",
    ),
    "another profile": Head(
        files={"reconciler.yaml": SETTINGS.replace("alpha: 20ms", "alpha: 2ms")},
        line=r"reconciler.yaml:\d+: note: Qwen/Qwen2.5-7B-Instruct: its profile on L4 changes",
    ),
    "another time of prompts": Head(
        files={"reconciler.yaml": SETTINGS.replace("alpha: 20ms", "prefillPerToken: 0.045ms, alpha: 20ms")},
        line=r"reconciler.yaml:\d+: note: Qwen/Qwen2.5-7B-Instruct: its profile on L4 changes",
    ),
    "a bound": Head(
        files={"reconciler.yaml": SETTINGS.replace("defaults: {", "defaults: {minReplicas: 3, ")},
        line=r"note: batch/qwen: minReplicas is 3 instead of 1",
    ),
    "another owner": Head(
        files={"clusters/prod/batch/hpa.yaml": HPA},
        code=3,
        line=r"hpa.yaml:\d+: warning: batch/qwen: is held from then on: replicas are owned by HorizontalPodAutoscaler",
    ),
    "a resource that cannot be read": Head(
        files={QWEN: BATCH.replace("replicas: 1", "replicas: -1")},
        code=3,
        line=r"qwen.yaml:\d+: error: spec.replicas: ",
    ),
    "a file that is no YAML": Head(
        files={"clusters/prod/batch/x.yaml": "kind: VariantAutoscaling\nspec: [\n"}, code=3, line=r"x.yaml:\d+: error: "
    ),
    "nothing of the fleet": Head(files={"README.md": "# Other words\n"}, line=r"\A0 variants change: "),
    "other replicas beside": Head(
        files={GRANITE: CODE.replace("replicas: 1", "replicas: 2")},
        code=3,
        line=r"error: sets code/granite to 2 replicas; its demand of [\d.]+ req/s needs 5 ",
    ),
    "a configuration that is none": Head(
        files={"reconciler.yaml": "apiVersion: [\n", DEPLOYMENT: sized(9)},
        code=3,
        line=r"(?s)sets chat/llama to 9 replicas.*reconciler.yaml:\d+: error: ",
    ),
    "another Prometheus and a secret": Head(
        files={
            "reconciler.yaml": SETTINGS.replace(
                '["clusters/prod/**"]}}',
                '["clusters/prod/**"]}, prometheus: {url: "http://evil.invalid", bearerToken: {env: RECONCILER_T}}}',
            ),
            DEPLOYMENT: sized(9),
        },
        code=3,
        line=r"(?s)sets chat/llama to 9 replicas; its demand.*reconciler.yaml:4: error: .*a secret would go to",
    ),
}
ALL = ("--fail-on", "refuse", "--fail-on", "slo", "--fail-on", "hold")


@pytest.fixture
def fleet(make_fleet: Callable[..., Fleet]) -> Fleet:
    """A fleet in a busy hour."""
    made = make_fleet("local")
    made.go_to(Level.BUSY)
    return made


def propose(fleet: Fleet, head: Head) -> None:
    """Commit a head on a branch of a person's clone, which is checked out."""
    git = fleet.workshop.git
    git("fetch", "-q", "origin", "main:refs/remotes/origin/main")
    git("checkout", "-q", "-B", "change", "origin/main")
    for path in head.removed:
        git("rm", "-q", path)
    for path, content in head.files.items():
        fleet.workshop.write(path, content.encode())
    git("add", "-A")
    git("commit", "-q", "--allow-empty", "-m", "A change")


def review(fleet: Fleet, *arguments: str) -> Outcome:
    """Review what is checked out."""
    where = ("--repo", str(fleet.workshop.clone), "--prometheus", fleet.prometheus, "--base", "origin/main")
    return run_here(["review", *where, *arguments])


@pytest.mark.parametrize("name", HEADS)
def test_a_prepared_pull_request_gets_its_words(fleet: Fleet, name: str) -> None:
    head = HEADS[name]
    propose(fleet, head)
    with fleet.writes() as writes:
        outcome = review(fleet, *ALL)
    assert re.search(head.line, outcome.out), outcome
    assert (outcome.code, writes) == (head.code, []), outcome
    assert "Traceback" not in outcome.err


def test_the_rules_of_the_base_judge_and_a_rule_that_is_relaxed_is_told(fleet: Fleet) -> None:
    rules = "rules:\n  - {name: small-steps, step: {up: 2}}\n"
    header = "apiVersion: reconciler.io/v1alpha1\nkind: Policy\n"
    fleet.write(".reconciler/policies/rules.yaml", header + rules)
    base = SETTINGS + "policies: [.reconciler/policies/]\n"
    fleet.write("reconciler.yaml", base)
    relaxed = header + rules.replace("up: 2", "up: 9")
    propose(fleet, Head(line="", files={DEPLOYMENT: sized(9), ".reconciler/policies/rules.yaml": relaxed}))
    outcome = review(fleet)
    assert "breaks `small-steps" in outcome.out, outcome
    assert (
        "warning: rule small-steps: asks for something else; this change is judged by the base's rules" in outcome.out
    )
    assert outcome.code == 3


def test_what_the_base_did_meanwhile_is_not_the_heads(fleet: Fleet) -> None:
    propose(fleet, Head(line="", files={"README.md": "# Other words\n"}))
    git = fleet.workshop.git
    git("checkout", "-q", "-B", "meanwhile", "origin/main")
    fleet.workshop.write(GRANITE, CODE.replace("replicas: 1", "replicas: 2").encode())
    git("commit", "-q", "-am", "Meanwhile")
    git("push", "-q", "origin", "HEAD:refs/heads/main")
    git("fetch", "-q", "origin", "main:refs/remotes/origin/main")
    outcome = review(fleet, "--head", "change")
    assert outcome.out.startswith("0 variants change: "), outcome


def test_every_output_says_the_same(fleet: Fleet) -> None:
    propose(fleet, HEADS["too few"])
    told = json.loads(review(fleet, "-o", "json").out)
    (change,) = told["changes"]
    assert (change["before"]["replicas"], change["after"]["replicas"], change["needed_replicas"]) == (2, 1, 4)
    assert change["objection"] == "slo"
    sarif = json.loads(review(fleet, "-o", "sarif").out)
    assert [each["ruleId"] for each in sarif["runs"][0]["results"]] == ["review-slo"]
    annotations = review(fleet, "-o", "github").out
    assert annotations.startswith(
        "::error file=clusters/prod/chat/deployment.yaml,line=6,title=review-slo::sets chat/llama"
    )
    assert review(fleet, "-o", "markdown").out.startswith(
        "### reconciler review\n\n1 variant changes: −$6.88/h; 1 misses"
    )


def test_a_base_must_be_named(fleet: Fleet) -> None:
    outcome = run_here(["review", "--repo", str(fleet.workshop.clone)])
    assert outcome.code == 5
    assert "--base" in outcome.err
