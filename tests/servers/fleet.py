"""A small company: its fleet repository behind git and a forge, and a day of its metrics in Prometheus.

    with open_fleet(folder, prometheus=url, day=day) as fleet:
        fleet.go_to(Level.BUSY)
        assert fleet.run("run").code == 0
        assert fleet.pull_requests()[0].state == "open"

Commands run as a user's would, through `reconciler.cli.main.invoke`, at the fleet's own time.
"""

import contextlib
import io
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from enum import Enum
from pathlib import Path

from reconciler.cli.main import invoke
from reconciler.forge.local import parse_pull_request
from tests.servers.forge_server import ForgeServer
from tests.servers.git_http import GitServer, serve_git
from tests.servers.git_workshop import Workshop, empty_workshop, run_git
from tests.servers.github import serve_github
from tests.servers.gitlab import serve_gitlab
from tests.servers.halted_run import HaltedRun, start
from tests.servers.prometheus import History, Points
from tests.servers.speeds import FIRST_TOKEN_S, GRANITE_A100, LLAMA_H100, NEMO_H100, OUTPUT_TOKENS, QWEN_L4, Speed

HOUR_S = 3600.0
STEP_S = 30.0
FULL_NAME = "acme/fleet"
SERVED: Mapping[str, Callable[[], AbstractContextManager[ForgeServer]]] = {
    "github": serve_github,
    "gitlab": serve_gitlab,
}
AUTHOR_OF_GITHUB = "99+reconciler-bot@users.noreply.127.0.0.1"

CHAT_DEPLOYMENT = b"""\
# The assistant. Ask in #inference before you touch it.\r
apiVersion: apps/v1\r
kind: Deployment\r
metadata: {name: llama, namespace: chat}\r
spec:\r
  replicas:   2     # since June\r
  selector: {matchLabels: {app: llama}}\r
  template:\r
    metadata: {labels: {app: llama, llm-d.ai/variant: llama}}\r
    spec:\r
      nodeSelector: {nvidia.com/gpu.product: NVIDIA-H100-80GB-HBM3}\r
      containers:\r
        - name: vllm\r
          image: vllm/vllm-openai:v0.11.0\r
          args: [--model=meta-llama/Llama-3.1-8B-Instruct, --served-model-name=llama]\r
          resources: {limits: {nvidia.com/gpu: "1"}}\r
"""
CHAT_VARIANT = """\
apiVersion: llmd.ai/v1alpha1
kind: VariantAutoscaling
metadata: {name: llama, namespace: chat}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: llama}
  modelID: meta-llama/Llama-3.1-8B-Instruct
"""
CODE = """\
apiVersion: llmd.ai/v1alpha1
kind: VariantAutoscaling
metadata:
  name: granite
  namespace: code
  labels: {inference.optimization/acceleratorName: A100}
spec:
  modelID: ibm/granite-13b
  sloClassRef: {name: service-classes-config, key: standard}
  modelProfile:
    accelerators:
      - acc: A100
        accCount: 1
        alpha: "20.58"
        beta: "0.41"
        atTokens: 128
        maxBatchSize: 32
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: granite, namespace: code}
spec:
  replicas: 1
  selector: {matchLabels: {app: granite}}
  template:
    metadata: {labels: {app: granite}}
    spec:
      containers:
        - {name: vllm, image: "vllm/vllm-openai:v0.11.0", resources: {limits: {nvidia.com/gpu: "1"}}}
"""
BATCH = """\
apiVersion: llmd.ai/v1alpha1
kind: VariantAutoscaling
metadata: {name: qwen, namespace: batch}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: qwen}
  modelID: Qwen/Qwen2.5-7B-Instruct
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: qwen, namespace: batch}
spec:
  replicas: 1
  template:
    spec:
      nodeSelector: {nvidia.com/gpu.product: NVIDIA-L4}
      containers: [{name: vllm, image: vllm, resources: {limits: {nvidia.com/gpu: "1"}}}]
"""
SETTINGS = """\
apiVersion: reconciler.io/v1alpha1
kind: Configuration
clusters:
  - {name: prod, paths: {include: ["clusters/prod/**"]}}
accelerators:
  - {name: H100, nodeSelector: {nvidia.com/gpu.product: NVIDIA-H100-80GB-HBM3}, costPerHour: 6.88}
  - {name: A100, nodeSelector: {nvidia.com/gpu.product: NVIDIA-A100-SXM4-80GB}, costPerHour: 3.97}
  - {name: L4, nodeSelector: {nvidia.com/gpu.product: NVIDIA-L4}, costPerHour: 0.70}
serviceClasses:
  - {name: standard, ttft: 2s, itl: 60ms}
models:
  - id: meta-llama/Llama-3.1-8B-Instruct
    profiles: [{accelerator: H100, alpha: 6.958ms, beta: 0.042ms, maxBatchSize: 64}]
    accelerator: keep  # or an A100 would be tried
  - id: ibm/granite-13b
    profiles: [{accelerator: A100, alpha: 20.58ms, beta: 0.41ms, maxBatchSize: 32}]
  - id: Qwen/Qwen2.5-7B-Instruct
    profiles: [{accelerator: L4, alpha: 20ms, beta: 0.5ms, maxBatchSize: 32}]
defaults: {serviceClass: standard}
pullRequests: {labels: [reconciler]}
"""
MANIFESTS: Mapping[str, bytes] = {
    "README.md": b"# Fleet\n",
    "clusters/prod/chat/deployment.yaml": CHAT_DEPLOYMENT,
    "clusters/prod/chat/variant.yaml": CHAT_VARIANT.encode(),
    "clusters/prod/code/granite.yaml": CODE.encode(),
    "clusters/prod/batch/qwen.yaml": BATCH.encode(),
}


class Level(Enum):
    """How busy the chat model is in an hour of the day, in requests a second."""

    QUIET = 45.0
    BUSY = 110.0
    PEAK = 170.0


LEVELS = tuple(Level)


@dataclass(frozen=True, slots=True, kw_only=True)
class Day:
    """Some hours of metrics around a moment that lies in a busy hour."""

    start_s: float
    hours: float = 24

    def level_of(self, hour: int) -> Level:
        """Quiet, busy, peak, and again."""
        return LEVELS[hour % len(LEVELS)]

    def rate_at(self, at_s: float) -> float:
        """Requests a second of the chat model."""
        return self.level_of(int((at_s - self.start_s) // HOUR_S)).value

    def middle_of(self, hour: int) -> float:
        """The middle of an hour: every window of a query lies in it."""
        return self.start_s + (hour + 0.5) * HOUR_S


def day_around(now_s: float) -> Day:
    """22 hours back and two ahead of `now_s`, which lies in the middle of a busy hour."""
    return Day(start_s=float(int(now_s)) - 22.5 * HOUR_S)


def history_of(day: Day) -> History:
    """What Prometheus scraped on that day: three models, each attributed in another way, and two on trial.

    The namespaces `trial`, `serving` and `notes` have no variants in Git until a test writes them: nobody measured the
    models of the first on a bench, metric targets scale the second, and llmaz runs the third.
    """
    history = History(end_s=day.start_s + day.hours * HOUR_S)
    for pod in ("llama-5d4c8b7f9-bcdfg", "llama-5d4c8b7f9-hjklm"):
        labels = {"namespace": "chat", "pod": pod, "model_name": "llama"}
        write_replica(history, day, labels, lambda at_s: day.rate_at(at_s) / 2)
        write_gauge(history, day, "kube_pod_labels", {**_pod(labels), "label_llm_d_ai_variant": "llama"})
    granite = {"namespace": "code", "pod": "granite-xyz-1", "model_name": "ibm/granite-13b"}
    write_replica(history, day, granite, lambda _at_s: 12.0, GRANITE_A100)
    owner = {"owner_kind": "ReplicaSet", "owner_name": "granite-xyz"}
    write_gauge(history, day, "kube_pod_owner", {**_pod(granite), **owner})
    replica_set = {"namespace": "code", "replicaset": "granite-xyz"}
    write_gauge(
        history,
        day,
        "kube_replicaset_owner",
        {**replica_set, "owner_kind": "Deployment", "owner_name": "granite"},
    )
    qwen = {"namespace": "batch", "pod": "qwen-6c9d8b7f54-x2v4k", "model_name": "Qwen/Qwen2.5-7B-Instruct"}
    write_replica(history, day, qwen, lambda _at_s: 1.0, QWEN_L4)
    for index in range(3):
        entry = {"namespace": "serving", "pod": f"phi-{index}-server-0-0"}
        waiting = [(at_s, day.rate_at(at_s) / 6) for at_s in _times(day)]
        history.series("gauge", "vllm:num_requests_waiting", {**entry, "model_name": "phi"}, waiting, "")
        write_gauge(history, day, "vllm:num_requests_running", {**entry, "model_name": "phi"}, 8.0)
        write_gauge(history, day, "kube_pod_status_ready", {**entry, "condition": "true"})
        named = {"label_modelserving_volcano_sh_name": "phi", "label_modelserving_volcano_sh_entry": "true"}
        write_gauge(history, day, "kube_pod_labels", {**entry, **named})
    for pod in ("mistral-0", "mistral-1"):
        labels = {"namespace": "notes", "pod": pod, "model_name": "mistral"}
        write_replica(history, day, labels, lambda at_s: day.rate_at(at_s) / 2)
    for pod in ("starcoder-7f9c6b5d84-bcdfg", "starcoder-7f9c6b5d84-hjklm"):
        labels = {"namespace": "trial", "pod": pod, "model_name": "starcoder"}
        write_replica(history, day, labels, lambda at_s: day.rate_at(at_s) / 50)
        write_cache(history, day, labels, lambda at_s: min(day.rate_at(at_s) / 118, 0.98))
    for pod in ("nemo-6b8d7c9f54-bcdfg", "nemo-6b8d7c9f54-hjklm"):
        labels = {"namespace": "trial", "pod": pod, "model_name": "nemo"}
        write_replica(history, day, labels, lambda at_s: day.rate_at(at_s) / 10, NEMO_H100)
        write_cache(history, day, labels, lambda _at_s: 0.4)
    return history


def write_cache(history: History, day: Day, labels: Mapping[str, str], usage_at: Callable[[float], float]) -> None:
    """A replica's KV cache: memory for 80,000 tokens, and how full it is (0-1)."""
    points = [(at_s, usage_at(at_s)) for at_s in _times(day)]
    history.series("gauge", "vllm:kv_cache_usage_perc", labels, points, "")
    size = {"block_size": "16", "num_gpu_blocks": "5000"}
    write_gauge(history, day, "vllm:cache_config_info", {**_pod(labels), **size})


def _pod(labels: Mapping[str, str]) -> dict[str, str]:
    return {name: labels[name] for name in ("namespace", "pod")}


def write_replica(
    history: History,
    day: Day,
    labels: Mapping[str, str],
    rate_at: Callable[[float], float],
    speed: Speed = LLAMA_H100,
) -> None:
    """The counters and gauges of one vLLM replica: who comes to it in vain waits, and leaves at the end of the hour."""
    finished = _counted(day, lambda at_s: speed.served_per_s(rate_at(at_s)))
    _counter(history, "vllm:request_success", {**labels, "finished_reason": "stop"}, finished, 1.0)
    running = [(at_s, speed.running(rate_at(at_s))) for at_s in _times(day)]
    waiting = [
        (at_s, (rate_at(at_s) - speed.served_per_s(rate_at(at_s))) * ((at_s - day.start_s) % HOUR_S))
        for at_s in _times(day)
    ]
    history.series("gauge", "vllm:num_requests_running", labels, running, "")
    history.series("gauge", "vllm:num_requests_waiting", labels, waiting, "")
    means: tuple[tuple[str, float, Callable[[float], float]], ...] = (
        ("request_generation_tokens", 1.0, lambda _per_s: OUTPUT_TOKENS),
        ("request_prompt_tokens", 1.0, lambda _per_s: 512.0),
        ("request_queue_time_seconds", 1.0, speed.wait_s),
        ("time_to_first_token_seconds", 1.0, lambda per_s: speed.wait_s(per_s) + FIRST_TOKEN_S),
        ("inter_token_latency_seconds", OUTPUT_TOKENS, speed.itl_s),
    )
    for metric, per_request, mean in means:
        summed = _counted(day, _weighted(mean, rate_at, speed))
        _counter(history, f"vllm:{metric}", labels, summed, per_request, kind="histogram", suffix="_sum")
        _counter(history, f"vllm:{metric}", labels, finished, per_request, kind="histogram", suffix="_count")


def _weighted(
    mean: Callable[[float], float], rate_at: Callable[[float], float], speed: Speed
) -> Callable[[float], float]:
    """What a histogram's sum grows by in a second."""
    return lambda at_s: speed.served_per_s(rate_at(at_s)) * mean(rate_at(at_s))


def _times(day: Day) -> list[float]:
    return [day.start_s + index * STEP_S for index in range(int(day.hours * HOUR_S / STEP_S) + 1)]


def _counted(day: Day, rate_at: Callable[[float], float]) -> Points:
    points, value = [], 0.0
    for at_s in _times(day):
        points.append((at_s, value))
        value += rate_at(at_s) * STEP_S
    return points


def _counter(
    history: History,
    metric: str,
    labels: Mapping[str, str],
    points: Points,
    factor: float,
    *,
    kind: str = "counter",
    suffix: str = "_total",
) -> None:
    scaled = [(at_s, value * factor) for at_s, value in points]
    history.series(kind, metric, labels, scaled, suffix)


def write_gauge(history: History, day: Day, metric: str, labels: Mapping[str, str], value: float = 1.0) -> None:
    history.series("gauge", metric, labels, [(at_s, value) for at_s in _times(day)], "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a command left behind."""

    code: int
    out: str
    err: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownPullRequest:
    """A pull request as its forge shows it."""

    number: int
    state: str
    head: str
    base: str
    title: str
    body: str
    labels: tuple[str, ...]


@dataclass(kw_only=True, repr=False)
class Fleet:
    """The company's repository, its forge and its clock; `git` and `forge` are None on the local forge."""

    folder: Path
    workshop: Workshop
    prometheus: str
    day: Day
    git: GitServer | None = None
    forge: ForgeServer | None = None
    hour: int = 0
    environment: dict[str, str] = field(default_factory=dict)
    arguments: tuple[str, ...] = ()

    @property
    def now_s(self) -> float:
        """The fleet's time."""
        return self.day.middle_of(self.hour)

    @property
    def repo(self) -> str:
        """What a user gives as `--repo`."""
        return self.git.url if self.git else str(self.workshop.remote)

    @property
    def token(self) -> str:
        """The forge's token."""
        return self.forge.token if self.forge else "no-token"

    # What a user does.

    def go_to(self, level: Level) -> None:
        """Let hours pass until the chat model is at `level`."""
        self.hour += 1
        while self.day.level_of(self.hour) is not level:
            self.hour += 1
        if self.forge:
            self.forge.now_s = max(self.forge.now_s, self.now_s)

    def command(self, name: str, *arguments: str) -> list[str]:
        """A whole command line."""
        prometheus = ("--prometheus", self.prometheus) if self.prometheus else ()
        return [name, "--repo", self.repo, *prometheus, *self.arguments, *arguments]

    def invoke(self, name: str, *arguments: str) -> Outcome:
        """Run a command in this process."""
        return run_here(self.command(name, *arguments))

    def run(self, *arguments: str) -> Outcome:
        """Run `run`."""
        return self.invoke("run", *arguments)

    def start(self, halt: str, *arguments: str, command: str = "run", later_s: float = 0.0) -> HaltedRun:
        """Start a command as a process of its own that is stopped, `later_s` after the fleet's time."""
        return start(halt, self.now_s + later_s, self.command(command, *arguments), self.folder)

    def configure(self, settings: str) -> None:
        """Commit the repository's configuration, on top of what the clone holds."""
        self.workshop.write("reconciler.yaml", settings.encode())
        self.workshop.commit("A person's change")

    def write(self, path: str, content: str | bytes, message: str = "A person's change") -> str:
        """Commit a file to the base branch, as a person."""
        self.workshop.git("fetch", "-q", "origin", "main")
        self.workshop.git("reset", "-q", "--hard", "FETCH_HEAD")
        self.workshop.write(path, content.encode() if isinstance(content, str) else content)
        return self.workshop.commit(message)

    def rearrange(self, files: Mapping[str, str | bytes], *removed: str) -> str:
        """Commit several files to the base branch, and remove others."""
        self.workshop.git("fetch", "-q", "origin", "main")
        self.workshop.git("reset", "-q", "--hard", "FETCH_HEAD")
        for path in removed:
            self.workshop.git("rm", "-q", path)
        for path, content in files.items():
            self.workshop.write(path, content.encode() if isinstance(content, str) else content)
        return self.workshop.commit("A person's change")

    def changed_lines(self, branch: str) -> dict[str, list[str]]:
        """The lines that a head branch takes from each file and gives to it, marked with - and +."""
        text = run_git_bytes(self.workshop.remote, "diff", "-U0", "--no-color", f"main...{branch}").decode()
        lines: dict[str, list[str]] = {}
        for part in text.split("diff --git ")[1:]:
            head, *rest = part.splitlines()
            body = [line for line in rest if line[:1] in "+-" and not line.startswith(("+++ ", "--- "))]
            lines[head.rpartition(" b/")[2]] = body
        return lines

    def read(self, path: str, branch: str = "main") -> bytes:
        """A file as a branch holds it."""
        return run_git_bytes(self.workshop.remote, "show", f"{branch}:{path}")

    def push_to(self, branch: str, path: str, content: str) -> str:
        """Commit on top of a head branch, as a person."""
        self.workshop.git("fetch", "-q", "origin", branch)
        self.workshop.git("reset", "-q", "--hard", "FETCH_HEAD")
        self.workshop.write(path, content.encode())
        commit = self.workshop.commit("A person's own", branch)
        self.workshop.git("fetch", "-q", "origin", "main")
        self.workshop.git("reset", "-q", "--hard", "FETCH_HEAD")
        return commit

    def close(self, number: int) -> None:
        """Close without merging."""
        if self.forge:
            self.forge.close(FULL_NAME, number)
            return
        self._edit(number, "state: open", "state: closed")
        os.utime(self._file(number), (self.now_s, self.now_s))

    def label(self, number: int, label: str) -> None:
        """Add a label."""
        if self.forge:
            self.forge.repositories[FULL_NAME].pull_requests[number].labels.append(label)
            return
        self._edit(number, 'labels: ["reconciler"]', f'labels: ["reconciler", "{label}"]')

    def merge(self, number: int) -> None:
        """Merge with a merge commit and delete the branch."""
        shown = next(each for each in self.pull_requests() if each.number == number)
        if self.forge:
            self.forge.merge(FULL_NAME, number)
        else:
            self.workshop.git("fetch", "-q", "origin", "main:refs/remotes/origin/main", shown.head)
            self.workshop.git("reset", "-q", "--hard", "origin/main")
            self.workshop.git("merge", "-q", "--no-ff", "-m", f"Merge {number}", "FETCH_HEAD")
            self.workshop.git("push", "-q", "origin", "HEAD:refs/heads/main")
            self._edit(number, "state: open", "state: merged")
            os.utime(self._file(number), (self.now_s, self.now_s))
        run_git(self.workshop.remote, "update-ref", "-d", f"refs/heads/{shown.head}")

    # What can be seen.

    def pull_requests(self) -> list[ShownPullRequest]:
        """All of them, by number."""
        if self.forge is None:
            return [self._local(path) for path in sorted(self._pulls.glob("*.md"), key=lambda path: int(path.stem))]
        stored = self.forge.repositories[FULL_NAME].pull_requests.values()
        return [
            ShownPullRequest(
                number=each.number,
                state="merged" if each.merged_s else each.state,
                head=each.head,
                base=each.base,
                title=each.title,
                body=each.body or "",
                labels=tuple(each.labels),
            )
            for each in stored
        ]

    def branches(self) -> dict[str, str]:
        """Branch -> commit of the remote."""
        lines = run_git(self.workshop.remote, "for-each-ref", "--format=%(refname) %(objectname)", "refs/heads/")
        pairs = (line.split() for line in lines.splitlines())
        return {name.removeprefix("refs/heads/"): commit for name, commit in pairs}

    def show(self, what: str, *arguments: str) -> str:
        """What `git show -s --format` says of a commit."""
        return run_git(self.workshop.remote, "show", "-s", f"--format={what}", *arguments)

    @contextmanager
    def writes(self) -> Iterator[list[str]]:
        """Every write to the remote and the forge while this is open."""
        seen: list[str] = []
        before = self._state()
        asked = len(self.git.requests) if self.git else 0
        written = len(self.forge.writes) if self.forge else 0
        yield seen
        if self.git and self.forge:
            pushed = [each for each in self.git.requests[asked:] if "git-receive-pack" in each.path]
            seen += [f"{each.method} {each.path}" for each in pushed]
            seen += [f"{each.method} {each.path}" for each in self.forge.writes[written:]]
        after = self._state()
        seen += [name for name in sorted({*before, *after}) if before.get(name) != after.get(name)]

    def _state(self) -> dict[str, str]:
        files = {path.name: f"{path.stat().st_mtime_ns} {path.read_text()}" for path in self._pulls.glob("*")}
        return {**self.branches(), **files}

    @property
    def _pulls(self) -> Path:
        return self.workshop.remote / "reconciler" / "pulls"

    def _file(self, number: int) -> Path:
        return self._pulls / f"{number}.md"

    def _local(self, path: Path) -> ShownPullRequest:
        read = parse_pull_request(path.read_bytes(), path)
        return ShownPullRequest(
            number=read.number,
            state=read.state.value,
            head=read.head_branch,
            base=read.base_branch,
            title=read.title,
            body=read.body,
            labels=read.labels,
        )

    def _edit(self, number: int, old: str, new: str) -> None:
        path = self._file(number)
        text = path.read_text(encoding="utf-8")
        assert old in text
        path.write_text(text.replace(old, new, 1), encoding="utf-8")


def run_here(arguments: list[str]) -> Outcome:
    """Run a command line in this process, with its output caught."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = invoke(arguments)
    return Outcome(code=int(code), out=out.getvalue(), err=err.getvalue())


def run_git_bytes(directory: Path, *arguments: str) -> bytes:
    """What git printed, byte for byte."""
    return subprocess.run(["git", *arguments], cwd=directory, capture_output=True, check=True).stdout


def make_template(folder: Path) -> Workshop:
    """The fleet repository with its manifests, to be copied for each test."""
    owner = folder / "acme"
    owner.mkdir()
    workshop = empty_workshop(owner)
    for path, content in MANIFESTS.items():
        workshop.write(path, content)
    workshop.write("reconciler.yaml", SETTINGS.encode())
    workshop.commit("The fleet")
    return workshop


@contextmanager
def open_fleet(
    template: Workshop, folder: Path, *, forge: str, prometheus: str, day: Day, settings: str = ""
) -> Iterator[Fleet]:
    """A fleet of its own in `folder`, on the forge github, gitlab or local; `settings` end its reconciler.yaml."""
    shutil.copytree(template.remote.parent, folder / "acme", symlinks=True)
    copied = Workshop(remote=folder / "acme" / template.remote.name, clone=folder / "acme" / template.clone.name)
    fleet = Fleet(folder=folder, workshop=copied, prometheus=prometheus, day=day)
    if forge == "local":
        fleet.configure(SETTINGS + settings)
        yield fleet
        return
    with SERVED[forge]() as server:
        server.now_s = day.start_s
        server.add_repository(FULL_NAME, copied.remote)
        with serve_git(copied.remote, root=folder, token=server.token) as git:
            fleet = replace(fleet, git=git, forge=server)
            fleet.configure(f'{SETTINGS}forge: {{kind: {forge}, url: "{server.url}"}}\n{settings}')
            fleet.environment = {
                "RECONCILER_FORGE_TOKEN": server.token,
                "RECONCILER_TRUSTED_ORIGINS": server.host,
            }
            yield fleet
