"""The stage of stories: one Prometheus that remembers every moment of them, and a fleet that lives at one.

with remembered(MOMENTS, folder) as url, at_work(MONDAY, url, folder, rules=[...]) as team:
    team.run()
    team.merge_all()
    team.later(minutes=10)
    assert "frozen until" in team.words()
"""

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from itertools import pairwise, repeat
from pathlib import Path

import pytest

from reconciler.domain.proposals import ProposedChange
from reconciler.forge.marker import read_marker
from reconciler.http.messages import Clock as DoorClock
from tests.servers.fleet import HOUR_S, STEP_S, Day, Fleet, Outcome, write_replica
from tests.servers.git_workshop import empty_workshop
from tests.servers.prometheus import History, serve_blocks, write_blocks
from tests.servers.speeds import GRANITE_A100, LLAMA_H100, Speed

Replacements = Sequence[tuple[str, str]]
"""Of texts in reconciler.yaml."""
MINUTE_S = 60.0
BEFORE_S = 75 * MINUTE_S
"""As far back as a plan asks: an hour of `payback`, and the window before it."""
TEAM_FILE = ".reconciler/policies/team.yaml"
HEADER = "apiVersion: reconciler.io/v1alpha1\nkind: Policy\nrules:\n"
SPEEDS: Mapping[str, Speed] = {"H100": LLAMA_H100, "A100": GRANITE_A100}
SETTINGS = """\
apiVersion: reconciler.io/v1alpha1
kind: Configuration
clusters:
  - name: prod
    paths: {include: ["prod/**"]}
    pools: []
accelerators:
  - {name: H100, nodeSelector: {nvidia.com/gpu.product: NVIDIA-H100-80GB-HBM3}, costPerHour: 6.00}
  - {name: A100, nodeSelector: {nvidia.com/gpu.product: NVIDIA-A100-SXM4-80GB}, costPerHour: 4.00}
serviceClasses:
  - {name: standard, ttft: 2s, itl: 60ms}
models:
MODELS
defaults: {serviceClass: standard, accelerator: keep}
policies: [.reconciler/policies/]
"""
MODEL = """\
  - id: NAME
    profiles:
      - {accelerator: H100, alpha: 6.958ms, beta: 0.042ms, maxBatchSize: 64LEARNED}
      - {accelerator: A100, alpha: 20.58ms, beta: 0.41ms, maxBatchSize: 32LEARNED}
"""
MANIFEST = """\
apiVersion: llmd.ai/v1alpha1
kind: VariantAutoscaling
metadata:
  name: NAME
  namespace: SPACE
  labels:
    team: TEAM
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: NAME}
  modelID: MODEL
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: NAME, namespace: SPACE}
spec:
  replicas: COUNT
  selector: {matchLabels: {app: NAME}}
  template:
    metadata: {labels: {app: NAME}}
    spec:
      nodeSelector:
        nvidia.com/gpu.product: NODE
      containers: [{name: vllm, image: "vllm/vllm-openai:v0.11.0", resources: {limits: {nvidia.com/gpu: "1"}}}]
"""
LEARNED = "samples: 300, error: 2%, batch: [1, 64], inputTokens: [400, 600], outputTokens: [100, 300]"
NODES = {"H100": "NVIDIA-H100-80GB-HBM3", "A100": "NVIDIA-A100-SXM4-80GB"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Phase:
    """From `minutes` after the moment on so many replicas run, and so many requests a second come to all of them."""

    minutes: float = -BEFORE_S / MINUTE_S
    replicas: int
    per_s: float
    accelerator: str = ""
    """Another than before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """A variant and what comes to it; the first phase's replicas stand in Git."""

    name: str
    phases: tuple[Phase, ...]
    namespace: str = "chat"
    model: str = ""
    accelerator: str = "H100"
    team: str = "search"

    @property
    def path(self) -> str:
        """Its file."""
        return f"prod/{self.namespace}/{self.name}.yaml"

    def manifest(self, replicas: int) -> bytes:
        """Its file with so many replicas."""
        texts = {
            "NAME": self.name,
            "SPACE": self.namespace,
            "TEAM": self.team,
            "MODEL": self.model or self.name,
            "COUNT": str(replicas),
            "NODE": NODES[self.accelerator],
        }
        text = MANIFEST
        for mark, value in texts.items():
            text = text.replace(mark, value)
        return text.encode()


def policy_of(rules: Sequence[str]) -> bytes:
    """A file of rules, one a line from the fourth on."""
    return (HEADER + "".join(f"  - {rule}\n" for rule in rules)).encode()


def served(name: str, replicas: int, per_s: float, *later: Phase, **other: str) -> Served:
    """A variant whose replicas have had this load for an hour, and what comes then."""
    return Served(name=name, phases=(Phase(replicas=replicas, per_s=per_s), *later), **other)


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """When a story begins (ISO 8601, with its zone), whom it is about, and how long it takes."""

    at: str
    served: tuple[Served, ...]
    hours: float = 1.0

    @property
    def at_s(self) -> float:
        """Unix seconds."""
        return datetime.fromisoformat(self.at).timestamp()

    def history(self) -> History:
        """What Prometheus scraped."""
        history = History(end_s=self.at_s + self.hours * HOUR_S)
        for each in self.served:
            for number in range(max(phase.replicas for phase in each.phases)):
                self._write_pod(history, each, number)
            named = {"namespace": each.namespace, "deployment": each.name}
            counts = [(time_s, float(self._phase(each, time_s).replicas)) for time_s in self._times()]
            history.series("gauge", "kube_deployment_spec_replicas", named, counts, "")
        return history

    def _write_pod(self, history: History, each: Served, number: int) -> None:
        """One replica for as long as it runs."""
        name = f"{each.name}-5d4c8b7f9-bcd{'fghjklmnpqrstvwxz'[number % 17]}{number // 17 + 2}"
        labels = {"namespace": each.namespace, "pod": name, "model_name": each.model or each.name}
        alive = [time_s for time_s in self._times() if self._phase(each, time_s).replicas > number]
        day = Day(start_s=alive[0], hours=(alive[-1] - alive[0]) / HOUR_S)
        accelerator = self._phase(each, alive[-1]).accelerator or each.accelerator

        def rate_at(at_s: float) -> float:
            phase = self._phase(each, at_s)
            return phase.per_s / max(phase.replicas, 1)

        write_replica(history, day, labels, rate_at, SPEEDS[accelerator])

    def _times(self) -> list[float]:
        first_s = self.at_s - BEFORE_S
        return [first_s + index * STEP_S for index in range(int((BEFORE_S + self.hours * HOUR_S) / STEP_S) + 1)]

    def _phase(self, each: Served, time_s: float) -> Phase:
        begun = [phase for phase in each.phases if self.at_s + phase.minutes * MINUTE_S <= time_s]
        return begun[-1]


@contextmanager
def remembered(moments: Sequence[Moment], folder: Path) -> Iterator[str]:
    """The base URL of one Prometheus that remembers all moments, which lie a day or more apart."""
    assert all(later.at_s - sooner.at_s > 24 * HOUR_S for sooner, later in pairwise(sorted(moments, key=_time_of)))
    blocks = folder / "blocks"
    with ThreadPoolExecutor() as pool:
        sources = [folder / f"{number}.om" for number in range(len(moments))]
        list(pool.map(write_blocks, [moment.history() for moment in moments], sources, repeat(blocks)))
    with serve_blocks(blocks, folder) as url:
        yield url


def _time_of(moment: Moment) -> float:
    return moment.at_s


@dataclass(kw_only=True, repr=False)
class Team(Fleet):
    """A fleet on the local forge whose clock stands still until somebody lets time pass."""

    moment: Moment
    at_s: float = 0.0
    patch: pytest.MonkeyPatch = field(default_factory=pytest.MonkeyPatch)

    @property
    def now_s(self) -> float:
        """The time, for commits as well."""
        return self.at_s

    def go_back(self, at_s: float) -> None:
        """Live at another time."""
        self.at_s = at_s
        self.patch.setenv("GIT_COMMITTER_DATE", f"{at_s:.0f} +0000")

    def later(self, minutes: float) -> None:
        """Let time pass."""
        self.go_back(self.at_s + minutes * MINUTE_S)

    def replicas_were(self, name: str, *told: tuple[str, int]) -> None:
        """What Git said of a variant from some times on (ISO 8601), each a commit; the time is the moment's again."""
        each = next(each for each in self.moment.served if each.name == name)
        for at, replicas in told:
            self.go_back(datetime.fromisoformat(at).timestamp())
            self.write(each.path, each.manifest(replicas))
        self.go_back(self.moment.at_s)

    def merge_all(self) -> None:
        """Merge what is open, as a person."""
        for each in self.pull_requests():
            if each.state == "open":
                self.merge(each.number)

    def proposed(self) -> dict[str, str]:
        """The words of every open pull request, by its head branch."""
        return {each.head: each.body for each in self.pull_requests() if each.state == "open"}

    def words(self) -> str:
        """The words of the only open pull request."""
        (body,) = self.proposed().values()
        return body

    def words_about(self, name: str) -> str:
        """The words of the open pull request that changes a variant."""
        return next(body for body in self.proposed().values() if self._changes(body, name))

    def merge_change_of(self, name: str) -> None:
        """Merge the pull request that changes a variant, as a person."""
        is_open = (each for each in self.pull_requests() if each.state == "open")
        self.merge(next(each.number for each in is_open if self._changes(each.body, name)))

    def set_rules(self, *rules: str) -> None:
        """Commit other rules, one a line."""
        self.write(TEAM_FILE, policy_of(rules))

    def replicas_of(self, name: str, branch: str = "main") -> int:
        """What a branch says of a variant."""
        path = next(each.path for each in self.moment.served if each.name == name)
        lines = self.read(path, branch).decode().splitlines()
        return next(int(line.split(":")[1]) for line in lines if line.strip().startswith("replicas:"))

    def proposes(self, name: str) -> int:
        """How many replicas open pull requests give a variant; as many as there are where none does."""
        found = (change.replicas_after for body in self.proposed().values() for change in self._changes(body, name))
        return next(found, self.replicas_of(name))

    def _changes(self, body: str, name: str) -> list[ProposedChange]:
        """What a pull request changes of a variant."""
        marker = read_marker(body)
        return [each for each in marker.changes if each.resource.endswith(f"/{name}")] if marker else []

    def plan(self, *arguments: str) -> Outcome:
        """What `plan` prints."""
        return self.invoke("plan", *arguments)


@contextmanager
def at_work(
    moment: Moment,
    prometheus: str,
    folder: Path,
    *,
    rules: Sequence[str],
    settings: Replacements = (),
    learned: str = "",
) -> Iterator[Team]:
    """A team at a moment, whose repository began two years ago with these rules."""
    owner = folder / "acme"
    owner.mkdir(parents=True)
    models = sorted({each.model or each.name for each in moment.served})
    told = f", learned: {{date: {learned}, {LEARNED}}}" if learned else ""
    listed = "".join(MODEL.replace("NAME", each).replace("LEARNED", told) for each in models)
    text = SETTINGS.replace("MODELS\n", listed)
    for old, new in settings:
        assert old in text
        text = text.replace(old, new)
    files = {each.path: each.manifest(each.phases[0].replicas) for each in moment.served}
    workshop = empty_workshop(owner)
    with pytest.MonkeyPatch.context() as patch:
        day = Day(start_s=moment.at_s)
        team = Team(folder=folder, workshop=workshop, prometheus=prometheus, day=day, moment=moment, patch=patch)
        team.go_back(moment.at_s - 730 * 86_400.0)
        for path, content in {**files, "reconciler.yaml": text.encode(), TEAM_FILE: policy_of(rules)}.items():
            workshop.write(path, content)
        workshop.commit("The fleet")
        team.go_back(moment.at_s)
        patch.setattr(DoorClock, "sleep", lambda _clock, _seconds: None)
        for module in ("run", "plan", "review"):
            patch.setattr(f"reconciler.cli.{module}.time", _Clock(team=team))
        yield team


@dataclass(frozen=True, slots=True, kw_only=True)
class _Clock:
    """Stands for module `time` in a command."""

    team: Team

    def time(self) -> float:
        return self.team.now_s
