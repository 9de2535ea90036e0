"""Faults planted one by one in a healthy fleet: doctor names each with its cure, and has nothing to say of the rest."""

import json
import re
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace

import pytest

from tests.integration.conftest import OpenFleet
from tests.servers.clinic import FLEET, HEALTHY, SLOW, Ward, write_wards
from tests.servers.fleet import CHAT_DEPLOYMENT, CHAT_VARIANT, FULL_NAME, Day, Fleet, Outcome
from tests.servers.git_http import Fault as GitFault
from tests.servers.gitlab import protection, schedule
from tests.servers.prometheus import ABSENT, History, prometheus_over
from tests.servers.tampering import Change, Tampering, tamper_with

pytestmark = [pytest.mark.integration, pytest.mark.skipif(bool(ABSENT), reason=ABSENT)]

WARDS: Mapping[str, Ward] = {
    HEALTHY: Ward(past_h=26),
    "young": Ward(is_kept_a_week=False),
    "silent": Ward(silent_for_s=1200.0),
    "bare": Ward(without=("kube_",)),
    "narrow": Ward(without=("kube_deployment_",)),
    "plain": Ward(without=("vllm:time_to_first_token",)),
    "renamed": Ward(exports_labels=True),
    "strange": Ward(
        replicas=tuple(replace(each, model="llama-3") if each.model == "llama" else each for each in FLEET)
    ),
    "drifted": Ward(live={"qwen": 5}),
    "slow": Ward(
        replicas=tuple(replace(each, speed=SLOW, per_s=4.0) if each.model == "llama" else each for each in FLEET)
    ),
}
CONNECTED = 'prometheus: {url: "URL", matchLabels: {cluster: WARD}}'
CLUSTER = '- {name: prod, paths: {include: ["clusters/prod/**"]}}'
CRON_JOB = """\
apiVersion: batch/v1
kind: CronJob
metadata: {name: reconciler, namespace: ops}
spec:
  schedule: "*/10 * * * *"
  jobTemplate: {spec: {template: {spec: {containers: [{name: run, image: "ghcr.io/acme/reconciler:1", args: [run]}]}}}}
"""
WORKFLOW = """\
on:
  schedule: [{cron: "*/10 * * * *"}]
jobs: {run: {runs-on: ubuntu-24.04, steps: [{run: reconciler run --repo .}]}}
"""
PIPELINE = """\
reconciler-run:
  rules: [{if: $CI_PIPELINE_SOURCE == "schedule"}]
  script: [reconciler run --repo "$CI_PROJECT_URL.git"]
"""
HPA = """\
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: qwen, namespace: batch}
spec: {maxReplicas: 3, scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: qwen}}
"""
APPLICATION = """\
apiVersion: argoproj.io/v1alpha1
kind: Application
metadata: {name: chat, namespace: argocd}
spec: {source: {path: clusters/prod/chat}, destination: {name: in-cluster, namespace: chat}}
"""
DEPLOYMENT = "clusters/prod/chat/deployment.yaml"
VARIANT = "clusters/prod/chat/variant.yaml"
GRANITE = "clusters/prod/code/granite.yaml"
QWEN = "clusters/prod/batch/qwen.yaml"
CRON = "clusters/prod/ops/cron-job.yaml"
HEALTHY_FILES: Mapping[str, str] = {CRON: CRON_JOB, ".github/workflows/reconcile.yml": WORKFLOW}
PIPELINE_ALONE = {CRON: "", ".github/workflows/reconcile.yml": "", ".gitlab/reconciler.yml": PIPELINE}
CHAT = CHAT_DEPLOYMENT.decode()
H100_SELECTOR = "      nodeSelector: {nvidia.com/gpu.product: NVIDIA-H100-80GB-HBM3}\r\n"


@dataclass(frozen=True, kw_only=True)
class Planted:
    """A fault: what is other than in the healthy fleet, and the line and exit code that it leads to.

    `settings` are replacements in reconciler.yaml, `line` is a regular expression, of `lines` at most; `forge` is the
    kind of the fleet's forge.
    """

    line: str
    forge: str = "github"
    lines: int = 1
    code: int = 0
    ward: str = HEALTHY
    files: Mapping[str, str] = field(default_factory=dict)
    settings: Mapping[str, str] = field(default_factory=dict)
    clock_s: float = 0.0
    environment: Mapping[str, str] = field(default_factory=dict)
    break_servers: Callable[[Fleet], object] = lambda _fleet: None
    change: Change | None = None


def forge_of(fleet: Fleet, **state: object) -> None:
    """Change what GitHub remembers of the repository."""
    assert fleet.forge
    for name, value in state.items():
        setattr(fleet.forge.repositories[FULL_NAME], name, value)


def gitlab_of(fleet: Fleet, **state: object) -> None:
    """Change what GitLab says of the project."""
    for name, value in state.items():
        setattr(fleet.forge, name, value)


def fail_github(fleet: Fleet, path: str, status: int) -> None:
    assert fleet.forge
    fleet.forge.fail("GET", path, status=status, times=99)


def refuse_pushes(fleet: Fleet) -> None:
    assert fleet.git
    fleet.git.fault, fleet.git.fault_on = GitFault.FORBIDDEN, "git-receive-pack"


def refuse_git(fleet: Fleet) -> None:
    assert fleet.git
    fleet.git.fault = GitFault.UNAUTHORIZED


FAULTS: Mapping[str, Planted] = {
    # git and forge
    "a token that git refuses": Planted(break_servers=refuse_git, code=5, line=r"^FAIL  git +.*(token|credential)"),
    "no right to push": Planted(
        break_servers=refuse_pushes,
        code=5,
        line=r"^FAIL  git +push reconciler/doctor: .*let the credential write contents",
    ),
    "a token that the forge refuses": Planted(
        break_servers=lambda fleet: fail_github(fleet, "^/repos", 401),
        code=5,
        line=r"^FAIL  forge .* 401.*check that .*RECONCILER_FORGE_TOKEN holds a token that is valid",
    ),
    "a forge that is down": Planted(
        break_servers=lambda fleet: fail_github(fleet, "^/repos", 503), code=4, line=r"^FAIL  forge .* 503"
    ),
    "no token for the forge": Planted(
        environment={"RECONCILER_FORGE_TOKEN": ""},
        code=5,
        line=r"^FAIL  (git|forge) .*(RECONCILER_FORGE_TOKEN|GITHUB_TOKEN)",
    ),
    "an archived repository": Planted(
        break_servers=lambda fleet: forge_of(fleet, archived=True), code=5, line=r"^FAIL  forge .*archived"
    ),
    "a token that may only read": Planted(
        lines=2,
        break_servers=lambda fleet: forge_of(fleet, role="pull"),
        code=5,
        line=r"^FAIL  forge +no pull request may be opened: let the token of RECONCILER_FORGE_TOKEN write",
    ),
    "approvals that every push drops": Planted(
        break_servers=lambda fleet: forge_of(fleet, rules={"main": ["pull_request"]}),
        line=r"^warn  forge +main drops approvals on every push: lower pullRequests.limits.pushesPerHour",
    ),
    "rules on our branches": Planted(
        break_servers=lambda fleet: forge_of(fleet, rules={"": ["non_fast_forward", "creation"]}),
        line=r"^warn  forge +rules on branches reconciler/\* would refuse .*create.*forced.*: let our account bypass",
    ),
    "signed commits only": Planted(
        break_servers=lambda fleet: forge_of(fleet, rules={"main": ["required_signatures"]}),
        line=r"^warn  forge +main takes signed commits only, .*: set git.signing, or merge by squash",
    ),
    "a token that GitLab refuses": Planted(
        forge="gitlab",
        break_servers=lambda fleet: gitlab_of(fleet, token="another"),
        code=5,
        line=r"^FAIL  forge .* 401.*check that .*RECONCILER_FORGE_TOKEN holds a personal, project or group",
    ),
    "a job's own token on GitLab": Planted(
        forge="gitlab",
        lines=2,
        environment={"RECONCILER_FORGE_TOKEN": "glcbt-64_abcdefghijkl"},
        break_servers=lambda fleet: setattr(fleet.git, "token", ""),
        code=5,
        line=r"^FAIL  forge .*RECONCILER_FORGE_TOKEN holds a CI_JOB_TOKEN, .*: make a project access token with .*",
    ),
    "a reporter on GitLab": Planted(
        forge="gitlab",
        break_servers=lambda fleet: gitlab_of(fleet, access_level=20),
        code=5,
        line=r"^FAIL  forge +no pull request may be opened: give the token of RECONCILER_FORGE_TOKEN the role",
    ),
    "merge requests that are switched off": Planted(
        forge="gitlab",
        break_servers=lambda fleet: gitlab_of(fleet, project={"merge_requests_access_level": "disabled"}),
        code=5,
        line=r"^FAIL  forge .*merge requests are switched off \(Settings, General",
    ),
    "protected branches and push rules on GitLab": Planted(
        forge="gitlab",
        break_servers=lambda fleet: gitlab_of(
            fleet,
            access_level=40,
            protections=[protection("main"), protection("*")],
            push_rule={"id": 1, "reject_unsigned_commits": True},
        ),
        line=r"^warn  forge +rules on branches reconciler/\* would refuse .*: \* is protected: no forced pushes, "
        r"signed commits only: let our account push to such branches, by force too",
    ),
    "a token of GitLab that soon ends": Planted(
        forge="gitlab",
        break_servers=lambda fleet: gitlab_of(fleet, expires_on="2026-01-31"),
        line=r"^warn  forge +the token of RECONCILER_FORGE_TOKEN ends on 2026-01-31: rotate it \(Settings, Access",
    ),
    "approvals that GitLab drops": Planted(
        forge="gitlab",
        break_servers=lambda fleet: gitlab_of(fleet, resets_approvals=True),
        line=r"^warn  forge +main drops approvals on every push: lower pullRequests.limits.pushesPerHour",
    ),
    # settings
    "a key that is misspelt": Planted(
        settings={"apiVersion:": "curency: EUR\napiVersion:"},
        code=5,
        line=r"^FAIL  settings +reconciler.yaml:1: error: curency: unknown field, did you mean \"currency\"",
    ),
    "a paused run": Planted(
        settings={"pullRequests:": "paused: true\npullRequests:"},
        line=r"^warn  settings +paused by reconciler.yaml:\d+: a run writes nothing",
    ),
    "another cron": Planted(
        files={CRON: CRON_JOB.replace("*/10", "*/30")},
        settings={"pullRequests:": "runInterval: 10m\npullRequests:"},
        line=r'^warn  settings +cron "\*/30 \* \* \* \*" starts a run every 30m, and runInterval is 10m: '
        rf"set runInterval: 30m in reconciler.yaml, .*\({CRON}:5\)",
    ),
    "a job on GitLab that no schedule starts": Planted(
        forge="gitlab",
        files=PIPELINE_ALONE,
        line=r"^warn  settings +reconciler-run is never started: no pipeline schedule of main: make one \(Build, "
        r"Pipeline schedules\): \*/10 \* \* \* \* \(.gitlab/reconciler.yml:1\)",
    ),
    "a pipeline schedule that is switched off": Planted(
        forge="gitlab",
        files=PIPELINE_ALONE,
        break_servers=lambda fleet: gitlab_of(
            fleet, schedules=[schedule("*/10 * * * *", active=False), schedule("*/10 * * * *", ref="dev")]
        ),
        line=r"^warn  settings +reconciler-run is never started: pipeline schedule Reconcile is not active: activate",
    ),
    "another cron of a pipeline schedule": Planted(
        forge="gitlab",
        files=PIPELINE_ALONE,
        break_servers=lambda fleet: gitlab_of(fleet, schedules=[schedule("0 * * * *", ref="main")]),
        line=r'^warn  settings +cron "0 \* \* \* \*" starts a run every 1h\S*, and runInterval is 10m: '
        r"set runInterval: 1h\S* in reconciler.yaml, .*\(.gitlab/reconciler.yml:1\)",
    ),
    # Prometheus
    "no Prometheus": Planted(
        settings={CONNECTED: "pools: []"}, code=5, line=r"^FAIL  prod +.*give --prometheus, or clusters\[\].prometheus"
    ),
    "a Prometheus that is down": Planted(
        settings={'url: "URL"': 'url: "http://127.0.0.1:9"'}, code=4, line=r"^FAIL  prod +.*is the server up\?"
    ),
    "another server at its address": Planted(
        settings={'url: "URL"': 'url: "URL/nowhere"'}, code=5, line=r"^FAIL  prod +.*is the URL's path prefix right\?"
    ),
    "several clusters": Planted(
        lines=5,
        settings={", matchLabels: {cluster: WARD}": ""},
        line=r"^warn  prod +.*pods of \d+ clusters .*clusters\[\].prometheus.matchLabels",
    ),
    "a clock that is ahead": Planted(
        clock_s=1200.0, line=r"^warn  prod +our clock is 20m\S* ahead of the server's: set both by NTP"
    ),
    "labels of no cluster": Planted(
        lines=2,
        ward="nowhere",
        line=r"^warn  prod +no replica reports: none of vllm:num_requests_running.*: scrape .*correct matchLabels",
    ),
    "samples that are old": Planted(
        ward="silent",
        line=r"^warn  prod +the newest sample of a replica is 2\dm\S* old, stale is 5m: look at the scrape",
    ),
    "a short retention": Planted(
        change=lambda answer: answer.replace(b'"storageRetention":"100y"', b'"storageRetention":"3d or 9GiB"'),
        ward="young",
        line=r"^warn  prod +a run asks for the last 7d\S*, and nothing is that old: keep at least 8d",
    ),
    "no kube-state-metrics": Planted(
        lines=2,
        ward="bare",
        line=r"^warn  prod +kube-state-metrics is not scraped, .*: install it, or let this Prometheus scrape it",
    ),
    "a kube-state-metrics that tells a part": Planted(
        ward="narrow",
        line=r"^warn  prod +kube-state-metrics has no kube_deployment_spec_replicas, so this is not known: "
        r"who else sets replicas: add them to its --metric-allowlist",
    ),
    "a metric that the scrape drops": Planted(
        ward="plain",
        lines=2,
        line=r"^warn  prod +vllm replicas report no time to first token: expected vllm:time_to_first_token_seconds_sum",
    ),
    "labels of the target in the way": Planted(
        lines=2,
        ward="renamed",
        line=r"^warn  prod +\d+ series of replicas have a label exported_namespace next to namespace: "
        r"set labelNames: \{namespace: exported_namespace\}",
    ),
    # variants
    "another served name": Planted(
        ward="strange",
        line=r'^warn  prod +chat/llama: no series for model "llama", its namespace reports "llama-3": '
        r"set models\[\].servedNames of meta-llama/Llama-3.1-8B-Instruct to it \(reconciler.yaml\)",
    ),
    "an accelerator that nothing names": Planted(
        files={DEPLOYMENT: CHAT.replace(H100_SELECTOR, "")},
        line=r"^warn  prod +chat/llama: .*accelerator.*: write a node selector such as nvidia.com/gpu.product",
    ),
    "a price that nobody gave": Planted(
        settings={", costPerHour: 0.70": ""},
        line=r"^warn  prod +the price of L4 is not known: .* 1 variant .*: set accelerators\[\] \{name: L4",
    ),
    "a class that is not defined": Planted(
        settings={"serviceClass: standard": "serviceClass: gold"},
        line=r'^warn  prod +batch/qwen and 2 more: service class "gold" .* is not defined: .*\(reconciler.yaml:\d+\)',
    ),
    "a model without a profile": Planted(
        settings={
            "  - id: Qwen/Qwen2.5-7B-Instruct\n"
            "    profiles: [{accelerator: L4, alpha: 20ms, beta: 0.5ms, maxBatchSize: 32}]\n": ""
        },
        line=r"^warn  prod +batch/qwen: no profile was given or learned for .* on L4: write what `reconciler fit`",
    ),
    "a profile that was learned long ago": Planted(
        settings={
            "maxBatchSize: 64}]": "maxBatchSize: 64, learned: {date: 2020-01-01, samples: 99, error: 1%, "
            "batch: [1, 64], inputTokens: [1, 9999], outputTokens: [1, 9999]}}]"
        },
        line=r"^warn  prod +chat/llama: its profile on H100 was learned \d+ days ago: learn it again: reconciler fit",
    ),
    "a profile that its replicas contradict": Planted(
        ward="slow", line=r"^warn  prod +chat/llama: .*contradicts.*: learn it again: reconciler fit --write"
    ),
    "another owner": Planted(
        files={"clusters/prod/batch/hpa.yaml": HPA},
        line=r"^warn  prod +batch/qwen: replicas are owned by HorizontalPodAutoscaler qwen.*: delete the owner .*"
        r"whenAutoscaled: bounds.*\(clusters/prod/batch/hpa.yaml:\d",
    ),
    "replicas that somebody else set": Planted(
        ward="drifted",
        line=r"^warn  prod +batch/qwen: spec.replicas of Deployment batch/qwen is 5 in the cluster and 1 in Git.*: "
        r"find out what writes them .*clusters/prod/batch/qwen.yaml:\d+",
    ),
    "a scale target that is not there": Planted(
        files={VARIANT: CHAT_VARIANT.replace("name: llama}\n  modelID", "name: lama}\n  modelID")},
        code=3,
        line=r"^FAIL  prod +chat/llama: scale target Deployment chat/lama is not in Git: .*correct scaleTargetRef here"
        rf".*\({VARIANT}:1\)",
    ),
    "two resources for one number": Planted(
        lines=2,
        files={
            "clusters/prod/chat/again.yaml": CHAT_VARIANT.replace("{name: llama, namespace", "{name: again, namespace")
        },
        code=3,
        line=r"^FAIL  prod +chat/llama: 2 resources claim Deployment chat/llama.*: delete all of them but one",
    ),
    "a resource that cannot be read": Planted(
        files={VARIANT: CHAT_VARIANT + "  minReplicas: -1\n"},
        code=3,
        line=rf"^FAIL  git +spec.minReplicas: .*: mend the file \({VARIANT}:7\)",
    ),
    "an application that compares statuses": Planted(
        files={"argocd/chat.yaml": APPLICATION},
        line=r"^warn  git +spec: Argo CD before 3.0 compares the status of VariantAutoscaling chat/llama in Git .*"
        r"reconciler init.*\(argocd/chat.yaml:4\)",
    ),
    "a version that clusters do not serve": Planted(
        files={
            "clusters/prod/chat/old.yaml": HPA.replace("autoscaling/v2", "autoscaling/v2beta2").replace("qwen", "x")
        },
        line=r"^warn  git +HorizontalPodAutoscaler of autoscaling/v2beta2, which Kubernetes 1.26 and later do not "
        r"serve: write autoscaling/v2 \(clusters/prod/chat/old.yaml:1\)",
    ),
    "a version that nobody knows": Planted(
        files={VARIANT: CHAT_VARIANT.replace("v1alpha1", "v2")},
        code=3,
        line=rf'^FAIL  git +apiVersion: expected "llmd.ai/v1alpha1", got "llmd.ai/v2".*\({VARIANT}:1\)',
    ),
}


@pytest.fixture(scope="module")
def born_s() -> float:
    """When the clusters were looked at."""
    return time.time()


@pytest.fixture(scope="module")
def prometheus(born_s: float, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """All clusters, sick and well."""
    history = History(end_s=born_s)
    write_wards(history, born_s, WARDS)
    with prometheus_over(history, tmp_path_factory.mktemp("clinic")) as url:
        yield url


@pytest.fixture(scope="module")
def day(born_s: float) -> Day:
    """Any: nobody asks the fleet what time it is."""
    return Day(start_s=born_s)


@pytest.fixture
def tampering(prometheus: str) -> Iterator[Tampering]:
    """A Prometheus that says what a test wants."""
    with tamper_with(prometheus) as running:
        yield running


@pytest.fixture
def visit(
    make_fleet: OpenFleet, prometheus: str, tampering: Tampering, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Outcome]:
    """Plants a fault and calls the doctor."""

    def called(planted: Planted, *arguments: str) -> Outcome:
        long_ago = f"{int(time.time() - 7200.0)} +0000"
        monkeypatch.setenv("GIT_COMMITTER_DATE", long_ago)  # time enough to be applied
        fleet = make_fleet(planted.forge, prometheus="")
        settings = fleet.read("reconciler.yaml").decode().replace(CLUSTER, f"{CLUSTER[:-1]}, {CONNECTED}}}")
        for old, new in planted.settings.items():
            assert old in settings, old
            settings = settings.replace(old, new, 1)
        url = prometheus if planted.change is None else tampering.url
        tampering.change = planted.change or bytes
        settings = settings.replace("URL", url).replace("WARD", planted.ward)
        fleet.rearrange({**HEALTHY_FILES, **planted.files, "reconciler.yaml": settings})
        for name, value in planted.environment.items():
            monkeypatch.setenv(name, value)
        planted.break_servers(fleet)
        monkeypatch.setattr("reconciler.cli.doctor.time", Skewed(planted.clock_s))
        return fleet.invoke("doctor", *arguments)

    return called


@dataclass(frozen=True)
class Skewed:
    """Stands for module `time`."""

    by_s: float

    def time(self) -> float:
        """Unix seconds."""
        return time.time() + self.by_s


@pytest.mark.parametrize("forge", ["github", "gitlab"])
def test_a_healthy_fleet_has_nothing_to_be_told(visit: Callable[..., Outcome], forge: str) -> None:
    outcome = visit(Planted(line="", forge=forge))
    lines = outcome.out.splitlines()
    assert all(line.startswith("ok ") for line in lines[:-1]), outcome.out
    assert lines[-1] == f"{len(lines) - 1} ok, 0 warnings, 0 failures"
    assert (outcome.code, outcome.err) == (0, "")


def test_a_pipeline_schedule_of_the_base_starts_runs(visit: Callable[..., Outcome]) -> None:
    started = Planted(
        line="",
        forge="gitlab",
        files=PIPELINE_ALONE,
        break_servers=lambda fleet: gitlab_of(fleet, schedules=[schedule("*/10 * * * *")]),
    )
    outcome = visit(started)
    assert 'ok    settings  a run is started every 10m (cron "*/10 * * * *")' in outcome.out
    assert ", 0 warnings, 0 failures" in outcome.out


@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_fault_is_found_with_its_cure(visit: Callable[..., Outcome], name: str) -> None:
    planted = FAULTS[name]
    outcome = visit(planted)
    assert re.search(planted.line, outcome.out, re.MULTILINE), outcome.out
    assert outcome.code == planted.code, outcome.out
    assert "Traceback" not in outcome.out + outcome.err
    told = [line for line in outcome.out.splitlines() if line.startswith(("warn", "FAIL"))]
    assert len(told) <= planted.lines, told
    assert all(": " in line for line in told), "what is wrong, and what to do"


def test_a_young_prometheus_is_told_as_young(visit: Callable[..., Outcome]) -> None:
    outcome = visit(Planted(line="", ward="young"))
    assert re.search(
        r"^ok    prod +it is young: a run asks for the last 7d\S*, and it keeps 100y once", outcome.out, re.MULTILINE
    )
    assert ", 0 warnings, 0 failures" in outcome.out


def test_json_says_the_same_to_scripts(visit: Callable[..., Outcome]) -> None:
    outcome = visit(FAULTS["another owner"], "-o", "json")
    told = json.loads(outcome.out)
    assert (told["version"], told["counts"]["fail"]) == (1, 0)
    (check,) = [each for each in told["checks"] if each["level"] != "ok"]
    assert (check["subject"], check["rule"], check["path"]) == (
        "prod",
        "owned-by-another",
        "clusters/prod/batch/hpa.yaml",
    )
    assert "whenAutoscaled: bounds" in check["cure"]


@pytest.mark.parametrize("forge", ["github", "gitlab"])
def test_nothing_is_written_anywhere(make_fleet: OpenFleet, prometheus: str, forge: str) -> None:
    fleet = make_fleet(forge, prometheus=prometheus)
    before = (fleet.branches(), fleet.pull_requests())
    fleet.invoke("doctor")
    assert (fleet.branches(), fleet.pull_requests()) == before
