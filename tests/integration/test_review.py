"""Prepared pull requests of other people: each gets its verdict in words, and nothing that a head holds acts."""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.servers.fleet import BATCH, CHAT_DEPLOYMENT, CHAT_VARIANT, CODE, SETTINGS, Fleet, Level, Outcome, run_here
from tests.servers.scripted import ScriptedServer, reply, serve_script

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


SETTINGS_OF_A_CANARY = SETTINGS.replace('/**"]}}', '/**"]}, prometheus: {url: "http://canary.invalid"SECRET}}')
BROKEN = "kind: VariantAutoscaling\napiVersion: llmd.ai/v1alpha1\nspec: [\n"
B200 = "  - {name: B200, nodeSelector: {nvidia.com/gpu.product: B200}, costPerHour: 9}\n"
SLOW = "  - {id: meta-llama/Other, profiles: [{accelerator: H100, alpha: 99ms, beta: 1ms, maxBatchSize: 8}]}\n"
FAST = "{accelerator: B200, alpha: 3ms, beta: 0.02ms, maxBatchSize: 64}"
APPLICATION = """\
apiVersion: argoproj.io/v1alpha1
kind: Application
metadata: {name: chat, namespace: argocd}
spec:
  source: {repoURL: "https://example.com/fleet.git", path: clusters/prod/chat}
  destination: {namespace: chat}
  ignoreDifferences:
    - {group: apps, kind: Deployment, jsonPointers: [/spec/replicas]}
"""
BOMB = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{name}: &{name} [{','.join(['*' + before] * 9)}]\n" for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)


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
    links: Mapping[str, str] = field(default_factory=dict)
    never: str = r"\A\Z"
    """What must not be said."""


HEADS: Mapping[str, Head] = {
    "as needed": Head(
        files={DEPLOYMENT: sized(4)},
        line=r"warning: sets chat/llama to 4 replicas; expected wait p95 over capacity → [\d.]+ ms, target "
        r"2 s; room for [\d.]+% more; \+\$13.76/h \(\+\$10,000 a month\); needs approval by `a-fifth-dearer`",
    ),
    "too few": Head(
        files={DEPLOYMENT: sized(1)},
        code=3,
        line=r"error: sets chat/llama to 1 replica; its demand of [\d.]+ req/s needs 4 \(.*, target .*\); carries 27% "
        r"of it instead of 54%; −\$6.88/h",
    ),
    "too many": Head(
        files={DEPLOYMENT: sized(9)},
        line=r"warning: sets chat/llama to 9 replicas; its demand of [\d.]+ req/s needs 4 \(ITL .* → .*, target "
        r"60 ms\); room for [\d.]+% more; \+\$48.16/h",
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
        line=r"note: chat/llama: its service class standard changes: TTFT p95 9 s instead of 2 s "
        r"\(looser\)",
    ),
    "a stricter target": Head(
        files={"reconciler.yaml": SETTINGS.replace("itl: 60ms", "itl: 9ms")},
        code=3,
        line=r"(?s)changes what chat/llama needs; its demand of [\d.]+ req/s needs \d+ instead of 4.*"
        r"ITL mean 9 ms instead of 60 ms \(stricter\)",
    ),
    "eight devices a replica": Head(
        files={DEPLOYMENT: CHAT.replace('nvidia.com/gpu: "1"', 'nvidia.com/gpu: "8"')},
        code=3,
        line=r"(?s)warning: changes what chat/llama costs; .*\+\$96.32/h \(\+\$70,000 a month\); needs approval by "
        r"`a-fifth-dearer`.*8 nvidia.com/gpu a replica instead of 1; its profile was measured before",
    ),
    "tensor parallel": Head(
        files={DEPLOYMENT: CHAT.replace("name=llama]", "name=llama, --tensor-parallel-size=2]")},
        code=3,
        line=r"warning: chat/llama: tensor parallel size 2 instead of 1; its profile was measured before "
        r"\[review-hold\]",
    ),
    "a smaller batch": Head(
        files={DEPLOYMENT: CHAT.replace("name=llama]", "name=llama, --max-num-seqs, '8']")},
        code=3,
        line=r"(?s)changes what chat/llama needs; its demand of .*most requests at once 8 instead of 256",
    ),
    "a longer context": Head(
        files={DEPLOYMENT: CHAT.replace("name=llama]", "name=llama, --max-model-len=131072]")},
        code=3,
        line=r"chat/llama: longest context 131072 instead of none",
    ),
    "less memory": Head(
        files={DEPLOYMENT: CHAT.replace("name=llama]", "name=llama, --gpu-memory-utilization=0.5]")},
        code=3,
        line=r"chat/llama: share of the device's memory 0.5 instead of 0.9",
    ),
    "another release of the engine": Head(
        files={DEPLOYMENT: CHAT.replace("v0.11.0", "v0.12.0")},
        line=r"note: chat/llama: image vllm/vllm-openai:v0.12.0 instead of vllm/vllm-openai:v0.11.0; how fast "
        r"that is, is not known",
    ),
    "other labels of pods": Head(
        files={DEPLOYMENT: CHAT.replace("{app: llama,", "{app: bot,").replace("{app: llama}", "{app: bot}")},
        line=r"note: chat/llama: the labels of its pods change \(app\): what selects them may lose them",
    ),
    "another model": Head(
        files={"clusters/prod/chat/variant.yaml": CHAT_VARIANT.replace("Llama-3.1-8B-Instruct", "Other")},
        code=3,
        line=r"warning: chat/llama: serves meta-llama/Other instead of meta-llama/Llama-3.1-8B-Instruct",
    ),
    "another namespace": Head(
        files={
            DEPLOYMENT: CHAT.replace("namespace: chat", "namespace: talk"),
            "clusters/prod/chat/variant.yaml": CHAT_VARIANT.replace("namespace: chat", "namespace: talk"),
        },
        line=r"renames chat/llama to talk/llama",
        never="removes|adds",
    ),
    "more, but not enough": Head(
        files={DEPLOYMENT: sized(3)},
        line=r"warning: sets chat/llama to 3 replicas; its demand of .* needs 4 .*; carries 81% of it instead of 54%",
    ),
    "a profile that what is measured contradicts": Head(
        files={"reconciler.yaml": SETTINGS.replace("alpha: 20ms", "alpha: 2ms")},
        code=3,
        line=r"(?s)warning: keeps plans from sizing batch/qwen; .*: Qwen/Qwen2.5-7B-Instruct: its profile on L4 "
        r"changes",
    ),
    "another time of prompts": Head(
        files={"reconciler.yaml": SETTINGS.replace("alpha: 20ms", "prefillPerToken: 0.045ms, alpha: 20ms")},
        code=3,
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
        line=r"warning: sets code/granite to 2 replicas; its demand of [\d.]+ req/s needs 5 .*instead of",
    ),
    "a configuration that is none": Head(
        files={"reconciler.yaml": "apiVersion: [\n", DEPLOYMENT: sized(9)},
        code=3,
        line=r"(?s)sets chat/llama to 9 replicas.*reconciler.yaml:\d+: error: ",
    ),
    "another Prometheus and a secret": Head(
        files={
            "reconciler.yaml": SETTINGS_OF_A_CANARY.replace("SECRET", ", bearerToken: {env: RECONCILER_CANARY}"),
            DEPLOYMENT: sized(9),
        },
        code=3,
        line=r"(?s)sets chat/llama to 9 replicas; its demand.*reconciler.yaml:4: error: .*a secret would go to",
    ),
    "another accelerator": Head(
        files={DEPLOYMENT: CHAT.replace("NVIDIA-H100-80GB-HBM3", "NVIDIA-L4")},
        code=3,
        line=r"warning: moves chat/llama from H100 to 2 replicas on L4; .* how fast L4 is for it; −\$12.36/h",
    ),
    "an accelerator that nobody knows": Head(
        files={DEPLOYMENT: CHAT.replace("NVIDIA-H100-80GB-HBM3", "Abacus-9000")},
        code=3,
        line=r"chat/llama",
    ),
    "nobody left": Head(
        files={DEPLOYMENT: sized(0)},
        code=3,
        line=r"error: sets chat/llama to 0 replicas; that is below its minReplicas of 1; its demand",
    ),
    "not declared any more": Head(
        removed=("clusters/prod/chat/variant.yaml",),
        code=3,
        line=r"warning: chat/llama: is not declared any more: its replicas stay as they are",
        never="removes chat/llama",
    ),
    "a target that is gone": Head(
        removed=(DEPLOYMENT,), code=3, line=r"error: removes chat/llama; its demand of [\d.]+ req/s needs 4"
    ),
    "outside of the paths": Head(
        files={"reconciler.yaml": SETTINGS.replace("clusters/prod/**", "clusters/prod/[bc]o*/**")},
        code=3,
        line=r"warning: chat/llama: is outside of its cluster's paths from then on",
        never="removes",
    ),
    "a number that a template fills in": Head(
        files={DEPLOYMENT: CHAT.replace("replicas:   2 ", "replicas: ${REPLICAS} ")},
        code=3,
        line=r"chat/llama: is held from then on",
        never="sets chat/llama",
    ),
    "a field that Argo CD ignores": Head(
        files={"clusters/prod/argo.yaml": APPLICATION},
        code=3,
        line=r"argo.yaml:\d+: warning: chat/llama: is held from then on: Application argocd/chat ignores",
    ),
    "two claims on one target": Head(
        files={
            "clusters/prod/chat/second.yaml": CHAT_VARIANT.replace("name: llama, namespace", "name: twin, namespace")
        },
        code=3,
        line=r"warning: chat/llama: is held from then on: 2 resources claim Deployment chat/llama",
        never="13.76",
    ),
    "a class that is not there": Head(
        files={"reconciler.yaml": SETTINGS.replace("name: standard", "name: other")},
        code=3,
        line=r"chat/llama",
    ),
    "another class for all": Head(
        files={
            "reconciler.yaml": SETTINGS.replace(
                "  - {name: standard", "  - {name: fast, ttft: 1s}\n  - {name: standard"
            ).replace("serviceClass: standard", "serviceClass: fast")
        },
        line=r"chat/llama: its service class is fast instead of standard",
    ),
    "a bound on the resource": Head(
        files={
            "clusters/prod/chat/variant.yaml": CHAT_VARIANT.replace(
                "namespace: chat}", "namespace: chat, annotations: {reconciler.io/max-replicas: '1'}}"
            )
        },
        code=3,
        line=r"(?s)its maxReplicas of 1 is below the 4 that its load needs.*clusters/prod/chat/variant.yaml:3: note: "
        r"chat/llama: maxReplicas is 1 instead of none",
    ),
    "left to itself": Head(
        files={
            "clusters/prod/chat/variant.yaml": CHAT_VARIANT.replace(
                "namespace: chat}", "namespace: chat, annotations: {reconciler.io/ignore: 'true'}}"
            )
        },
        code=3,
        line=r"chat/llama: is held from then on: ignored",
    ),
    "a new price and a gone one": Head(
        files={"reconciler.yaml": re.sub(r"  - \{name: L4.*\n", "  - {name: B200, costPerHour: 9}\n", SETTINGS)},
        line=r"(?s)reconciler.yaml: note: L4: is gone from the catalog.*B200: is new in the catalog: it costs 9 USD/h",
    ),
    "fewer devices": Head(
        files={
            "reconciler.yaml": SETTINGS.replace(
                '["clusters/prod/**"]}}', '["clusters/prod/**"]}, pools: [{name: h, device: H100, devices: 3}]}'
            )
        },
        line=r"reconciler.yaml:\d+: note: pool h: is new: 3 devices",
    ),
    "other connections": Head(
        files={
            "reconciler.yaml": SETTINGS_OF_A_CANARY.replace("SECRET", "")
            + 'gauges: {pushgateway: {url: "http://canary.invalid"}}\n',
        },
        code=3,
        line=r"(?s)gauges: changes; a review does not try it.*the Prometheus of cluster prod: changes",
    ),
    "no configuration": Head(removed=("reconciler.yaml",), code=3, line=r"A100: is gone from the catalog"),
    "a configuration that is a link": Head(
        removed=("reconciler.yaml",),
        links={"reconciler.yaml": "/etc/passwd"},
        code=3,
        line=r"reconciler.yaml: error: expected a file, found a symbolic link: this configuration is not used",
        never="root:",
    ),
    "files that are links": Head(
        removed=(DEPLOYMENT,),
        links={DEPLOYMENT: "/proc/self/environ", "clusters/prod/chat/more.yaml": "../../../../../etc"},
        code=3,
        line=r"deployment.yaml: error: chat/llama: its scale target cannot be read any more",
        never="sets chat/llama|removes chat/llama",
    ),
    "what it extends is nowhere": Head(
        files={
            "reconciler.yaml": SETTINGS + "extends: [../../../etc/passwd, /etc/shadow, clusters/prod/secret.yaml]\n"
        },
        links={"clusters/prod/secret.yaml": "/etc/passwd"},
        code=3,
        line=r"reconciler.yaml:\d+: error: extends",
        never="root:",
    ),
    "policies from elsewhere": Head(
        files={"reconciler.yaml": SETTINGS + "policies: [/etc, ../../.., default]\n"},
        code=3,
        line=r"reconciler.yaml:\d+: error: policies",
    ),
    "templates of its own": Head(
        files={"reconciler.yaml": SETTINGS + "templates: evil/\n", "evil/review/comment.md.j2": "{{ ''.__class__ }}"},
        code=3,
        line=r"reconciler.yaml:\d+: error: templates",
    ),
    "a giant": Head(
        files={DEPLOYMENT: CHAT + "#" * 1_100_000},
        code=3,
        line=r"deployment.yaml: error: chat/llama: its scale target cannot be read any more",
        never="removes chat/llama",
    ),
    "a bomb of aliases": Head(
        files={QWEN: BATCH + "---\n" + BOMB},
        line=r"\A0 variants change: ",
    ),
    "a tower": Head(
        files={QWEN: "kind: Deployment\nspec: " + "[" * 5000},
        code=3,
        line=r"qwen.yaml:\d+: error: ",
        never="removes batch/qwen",
    ),
    "names that would act": Head(
        files={
            "clusters/prod/chat/::warning file=x::pwned.yaml": NEW.replace(
                "name: extra", 'name: "x @here #1 ](http://canary.invalid)"'
            ),
            "clusters/prod/chat/a\n::set-output name=x::y|`.yaml": BROKEN,
        },
        code=3,
        line=r"error: ",
        never=r"(?m)^::",
    ),
    "rules that are bombs": Head(
        files={
            "reconciler.yaml": SETTINGS + RULES,
            "rules.yaml": "apiVersion: reconciler.io/v1alpha1\nkind: Policy\nrules:\n"
            "  - {name: slow, deny: {when: \"variant.name.matches('(a+)+$') && [1].all(x, [1].all(y, x > 0))\"}}\n",
            DEPLOYMENT: sized(4),
        },
        line=r"(?s)sets chat/llama to 4 replicas; .*; \+\$13.76/h .*note: rule slow: is new; in force once",
    ),
    "another name for the same": Head(
        files={
            "clusters/prod/chat/variant.yaml": CHAT_VARIANT.replace("name: llama, namespace", "name: twin, namespace")
        },
        line=r"(?s)chat/llama: is declared as chat/twin from then on",
        never="removes|13.76",
    ),
    "an accelerator and its profile at once": Head(
        files={
            "reconciler.yaml": SETTINGS.replace(
                "accelerators:\n",
                "accelerators:\n" + B200,
            ).replace(
                "profiles: [{accelerator: H100,",
                f"profiles: [{FAST}, {{accelerator: H100,",
            ),
            DEPLOYMENT: CHAT.replace("NVIDIA-H100-80GB-HBM3", "B200"),
        },
        line=r"moves chat/llama from H100 to 2 replicas on B200; .*ITL 9.6 ms → .* ms, target 60 ms.*; room for",
    ),
    "a new model": Head(
        files={"clusters/prod/chat/extra.yaml": NEW.replace("Llama-3.1-8B-Instruct", "Other")},
        code=3,
        line=r'(?s)keeps plans from sizing chat/llama; name "llama" in namespace chat is served by .*'
        r"adds chat/extra with 2 replicas on H100; its load is not known before it runs; \+\$13.76/h",
    ),
    "a new model that never keeps its target": Head(
        files={
            "clusters/prod/chat/extra.yaml": NEW.replace("Llama-3.1-8B-Instruct", "Other"),
            "reconciler.yaml": SETTINGS.replace(
                "models:\n",
                "models:\n" + SLOW,
            ),
        },
        code=3,
        line=r"error: adds chat/extra with 2 replicas on H100; .*profile a single request takes 100 ms a token",
    ),
}
CANARY = "canary-0d9f7c31-secret"
ALL = ("--fail-on", "refuse", "--fail-on", "slo", "--fail-on", "hold")


@pytest.fixture
def fleet(make_fleet: Callable[..., Fleet]) -> Fleet:
    """A fleet in a busy hour."""
    made = make_fleet("local")
    made.go_to(Level.BUSY)
    return made


def propose(fleet: Fleet, head: Head, canary: str = "") -> None:
    """Commit a head on a branch of a person's clone, which is checked out."""
    git = fleet.workshop.git
    git("fetch", "-q", "origin", "main:refs/remotes/origin/main")
    git("checkout", "-q", "-B", "change", "origin/main")
    for path in head.removed:
        git("rm", "-q", path)
    for path, content in head.files.items():
        fleet.workshop.write(path, content.replace("http://canary.invalid", canary).encode())
    for path, target in head.links.items():
        (fleet.workshop.clone / path).symlink_to(target)
    git("add", "-A")
    git("commit", "-q", "--allow-empty", "-m", "A change")


def review(fleet: Fleet, *arguments: str) -> Outcome:
    """Review what is checked out."""
    where = ("--repo", str(fleet.workshop.clone), "--prometheus", fleet.prometheus, "--base", "origin/main")
    return run_here(["review", *where, *arguments])


@pytest.fixture(scope="module")
def canary() -> Iterator[ScriptedServer]:
    """A server that nobody may ever ask."""
    with serve_script(reply()) as server:
        yield server


@pytest.mark.parametrize("name", HEADS)
def test_a_prepared_pull_request_gets_its_words(
    fleet: Fleet, name: str, canary: ScriptedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    head = HEADS[name]
    propose(fleet, head, canary.url)
    monkeypatch.setenv("RECONCILER_CANARY", CANARY)
    with fleet.writes() as writes:
        outcome = review(fleet, *ALL)
    assert re.search(head.line, outcome.out), outcome
    assert (outcome.code, writes) == (head.code, []), outcome
    assert not re.search(head.never, outcome.out + outcome.err), outcome
    assert "Traceback" not in outcome.err
    assert CANARY not in outcome.out + outcome.err
    assert canary.seen == []


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
        "warning: rule small-steps: is relaxed: up 9 instead of 2; this change is judged by the base's rules all the "
        "same" in outcome.out
    )
    assert outcome.code == 3


RULES_OF_EVERY_KIND = {
    "deny: {when: 'change.replicas_after > 3'}": "breaks `asked`",
    "hold: {when: 'change.replicas_after > 3'}": "breaks `asked`",
    "bounds: {max: 3}": "breaks `asked`",
    "step: {up: 1}": "breaks `asked`",
    "freeze: {}": "breaks `asked`",
    "budget: {amount: 20, per: hour}": "breaks `asked`|needs approval by `asked`",
    "accelerators: {denied: [H100]}": "breaks `asked`",
    "approval: {costMoreThan: 10}": "needs approval by `asked`",
    "approval: {upMoreThan: 50%}": "needs approval by `asked`",
    "requireApproval: {when: 'cost.added > 10.0'}": "needs approval by `asked`",
}


@pytest.mark.parametrize("rule", RULES_OF_EVERY_KIND)
def test_rules_of_every_kind_judge_a_change_of_somebody_else(fleet: Fleet, rule: str) -> None:
    fleet.write(
        ".reconciler/policies/rules.yaml",
        f"apiVersion: reconciler.io/v1alpha1\nkind: Policy\nrules:\n  - {{name: asked, {rule}}}\n",
    )
    fleet.write("reconciler.yaml", SETTINGS + "policies: [.reconciler/policies/]\n")
    propose(fleet, Head(line="", files={DEPLOYMENT: sized(9)}))
    outcome = review(fleet, "--fail-on", "refuse", "--fail-on", "approval")
    assert re.search(RULES_OF_EVERY_KIND[rule], outcome.out), outcome
    assert outcome.code == 3


@pytest.mark.parametrize(("asked", "code"), [("cost:90", 3), ("cost:500%", 0), ("approval", 3), ("hold", 0)])
def test_a_rise_of_costs_or_a_missing_approval_can_fail(fleet: Fleet, asked: str, code: int) -> None:
    propose(fleet, HEADS["too many"])
    outcome = review(fleet, "--fail-on", asked)
    assert outcome.code == code, outcome


@pytest.mark.parametrize("asked", ["cost:", "cost:much", "cost:-1", "costs"])
def test_what_cannot_fail_a_review_is_named(fleet: Fleet, asked: str) -> None:
    outcome = review(fleet, "--fail-on", asked)
    assert outcome.code == 5
    assert "--fail-on" in outcome.err


def test_a_pool_that_is_too_small_objects(fleet: Fleet) -> None:
    pooled = SETTINGS.replace(
        '"clusters/prod/**"]}', '"clusters/prod/**"]}, pools: [{name: big, device: H100, devices: 6}]'
    )
    fleet.write("reconciler.yaml", pooled)
    propose(fleet, Head(line="", files={DEPLOYMENT: sized(9)}))
    outcome = review(fleet)
    assert "has 6 devices, 9 would be taken" in outcome.out, outcome
    assert outcome.code == 3


def test_a_rule_that_is_tightened_needs_nobody(fleet: Fleet) -> None:
    header = "apiVersion: reconciler.io/v1alpha1\nkind: Policy\n"
    rules = "rules:\n  - {name: small-steps, step: {up: 2}}\n"
    fleet.write(".reconciler/policies/rules.yaml", header + rules)
    fleet.write("reconciler.yaml", SETTINGS + "policies: [.reconciler/policies/]\n")
    propose(fleet, Head(line="", files={".reconciler/policies/rules.yaml": header + rules.replace("up: 2", "up: 1")}))
    outcome = review(fleet, *ALL)
    assert "note: rule small-steps: is tightened: up 1 instead of 2; in force once this is merged" in outcome.out
    assert outcome.code == 0


def test_a_person_looks_at_what_would_merge_by_itself(fleet: Fleet) -> None:
    rules = "apiVersion: reconciler.io/v1alpha1\nkind: Policy\nrules:\n  - {name: all, autoMerge: {}}\n"
    settings = SETTINGS.replace("{labels: [reconciler]}", "{labels: [reconciler], autoMerge: true}")
    configuration = f"{settings}policies: [default, .reconciler/policies/]\n"
    propose(fleet, Head(line="", files={"reconciler.yaml": configuration, ".reconciler/policies/r.yaml": rules}))
    outcome = review(fleet, "--fail-on", "hold")
    assert "warning: rule all: is new: it lets changes merge by themselves; this change is judged" in outcome.out, (
        outcome
    )
    assert "pullRequests.autoMerge: lets everything that rules allow merge by itself" in outcome.out
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
        "### reconciler review\n\n1 variant changes: −$6.88/h (−$5,000 a month); 1 misses"
    )


def test_a_recorded_base_needs_no_prometheus(fleet: Fleet, tmp_path: Path) -> None:
    recording = str(tmp_path / "base.zip")
    clone = str(fleet.workshop.clone)
    run_here(
        ["plan", "--repo", clone, "--prometheus", fleet.prometheus, "--base", "origin/main", "--record", recording]
    )
    propose(fleet, HEADS["too few"])
    now = review(fleet)
    replayed = run_here(["review", "--repo", clone, "--replay", recording])
    assert (replayed.code, replayed.out) == (now.code, now.out)
    elsewhere = run_here(["review", "--repo", clone, "--replay", recording, "--base", "HEAD"])
    assert elsewhere.code == 5
    assert "the recording is of commit" in elsewhere.err
    every = run_here(["review", "--repo", clone, "--replay", recording, "--open"])
    assert (every.code, "--replay" in every.err) == (5, True)


def test_a_base_must_be_named(fleet: Fleet) -> None:
    outcome = run_here(["review", "--repo", str(fleet.workshop.clone)])
    assert outcome.code == 5
    assert "--base" in outcome.err
