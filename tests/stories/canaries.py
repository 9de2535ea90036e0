"""Stories of canaries: a namespace of its own for each, one Prometheus that remembers what their replicas did.

with remembered(TALES, folder) as url, opened(TALES[0], url, folder) as team:
    start(team, TALES[0])
    look(team, 26)
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.servers.fleet import HOUR_S, Day, write_gauge, write_replica
from tests.servers.prometheus import History, serve_blocks, write_blocks
from tests.servers.speeds import Speed
from tests.stories.stage import MINUTE_S, Moment, Phase, Replacements, Served, Team, at_work

LLAMA = "meta-llama/Llama-3.1-8B-Instruct"
BEGIN = Moment(at="2026-09-07T10:00+00:00", served=())
A100 = Speed(alpha_s=0.0135, beta_s=0.00012, max_batch=128)
GOOD = Speed(alpha_s=0.0085, beta_s=0.00006, max_batch=128)
REPLICAS, PER_S = 4, 75.0
MUCH_LATER_H = 240
"""Prometheus' answers reach back a week: a canary of the first days is not in them any more."""
LETTERS = "bcdfghjklm"
CANARY = "chat-canary-h100"
FILE = f"{CANARY}.yaml"
SETTINGS: Replacements = (
    ("      - {accelerator: H100, alpha: 6.958ms, beta: 0.042ms, maxBatchSize: 64}\n", ""),
    ("alpha: 20.58ms, beta: 0.41ms, maxBatchSize: 32", "alpha: 13.5ms, beta: 0.12ms, maxBatchSize: 128"),
    ("accelerator: keep", "accelerator: choose"),
    ("costPerHour: 6.00", "costPerHour: 3.00"),
    ("policies: [.reconciler/policies/]", "policies: [default]"),
)


GROUPS = ("chat-{}", "chat-canary-h100-{}")
"""Of pods of LeaderWorkerSets, which llmaz makes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tale:
    """A namespace of its own: when people look (hours after the beginning), and what the canary does."""

    name: str
    looks: Sequence[float]
    speed: Speed | None = GOOD
    since_h: float = 0.0
    """What Prometheus remembers of the canary begins and ends so many hours after the beginning."""
    until_h: float = 27.0
    factors: Sequence[float] = ()
    """Hour by hour its pod is another one, so many times as slow."""
    cluster: str = ""
    """Of two, with a label of their series."""
    pending: bool = False
    scaled: int = 1
    """Replicas of the canary."""
    manifest: str = ""
    """Of the team's own replicas, where that is no VariantAutoscaling with a target."""
    model: str = LLAMA
    pods: tuple[str, str] = ("chat-5d4c8b7f9-bcd{}2", "chat-canary-h100-6f5d9c8b7-zxc{}2")
    """The names of the team's pods, and of the canary's."""

    @property
    def served(self) -> Served:
        """The team's own replicas."""
        phases = (Phase(replicas=REPLICAS, per_s=PER_S),)
        return Served(name="chat", namespace=self.name, model=self.model, accelerator="A100", phases=phases)

    @property
    def path(self) -> str:
        """The file of its canary."""
        return f"{self.cluster or 'prod'}/{self.name}/{FILE}"

    def write(self, history: History) -> None:
        """What Prometheus scraped of it: the team's replicas when somebody looks, the canary all the time."""
        for look in self.looks:
            day = Day(start_s=BEGIN.at_s + look * HOUR_S - 75 * MINUTE_S, hours=1.5)
            if look == MUCH_LATER_H:  # half of the fleet has moved
                for number, (which, speed) in enumerate([(0, A100), (0, A100), (1, GOOD), (1, GOOD)]):
                    self._pod(history, day, self._named(which, number % 2), PER_S / 4, speed)
                continue
            is_served = self.speed is not None or bool(self.factors)
            sharing = REPLICAS + (self.scaled if look and is_served and look < self.until_h else 0)
            for number in range(REPLICAS):
                self._pod(history, day, self._named(0, number), PER_S / sharing, A100)
        for hour, factor in enumerate(self.factors):
            slower = Speed(alpha_s=GOOD.alpha_s * factor, beta_s=GOOD.beta_s * factor, max_batch=GOOD.max_batch)
            day = Day(start_s=BEGIN.at_s + (hour + 1) * HOUR_S, hours=0.98)
            name = self.pods[1].format(LETTERS[hour // 10] + LETTERS[hour % 10])[:-1]
            self._pod(history, day, name, PER_S / (REPLICAS + 1), slower)
        begin_s = BEGIN.at_s + 10 * MINUTE_S + self.since_h * HOUR_S
        day = Day(start_s=begin_s, hours=self.until_h - self.since_h)
        for number in range(self.scaled):
            name = self._named(1, number)
            if self.speed is not None:
                self._pod(history, day, name, PER_S / (REPLICAS + self.scaled), self.speed)
            if self.pending:
                write_gauge(history, day, "kube_pod_status_unschedulable", {"namespace": self.name, "pod": name})

    def _named(self, which: int, number: int) -> str:
        return self.pods[which].format(number if self.pods is GROUPS else "fghj"[number])

    def _pod(self, history: History, day: Day, name: str, per_s: float, speed: Speed) -> None:
        labels = {"namespace": self.name, "pod": name, "model_name": self.model}
        labels |= {"cluster": self.cluster} if self.cluster else {}
        write_replica(history, day, labels, lambda _at_s: per_s, speed)


@contextmanager
def remembered(tales: Sequence[Tale], folder: Path) -> Iterator[str]:
    """The base URL of one Prometheus that remembers all of them."""
    history = History(end_s=BEGIN.at_s + 250 * HOUR_S)
    for tale in tales:
        tale.write(history)
    write_blocks(history, folder / "canaries.om", folder / "blocks", block_h=54)
    with serve_blocks(folder / "blocks", folder) as url:
        yield url


@contextmanager
def opened(tale: Tale, prometheus: str, folder: Path, *rules: str, settings: Replacements = ()) -> Iterator[Team]:
    """A team with the repository of one tale, before anything is proposed."""
    moment = Moment(at=BEGIN.at, served=(tale.served,))
    with at_work(moment, prometheus, folder, rules=rules, settings=(*SETTINGS, *settings)) as team:
        if tale.manifest:
            team.write(tale.served.path, tale.manifest.replace("SPACE", tale.name).encode())
        yield team


def start(team: Team, tale: Tale) -> Team:
    """Have a team merge the canary."""
    assert team.run().code == 0
    (opened,) = team.pull_requests()
    assert opened.title.startswith("Try H100 with chat-canary-h100")
    assert ("Nothing of it is proven" in opened.body, "Proven to be" in opened.body) == (True, False)
    assert (opened.labels, tale.path in team.changed_lines(opened.head)) == (("reconciler", "canary"), True)
    assert team.replicas_of("chat", opened.head) == REPLICAS
    team.merge_all()
    return team


def look(team: Team, hours: float) -> dict[str, str]:
    """The words of what is open so many hours after the merge."""
    team.go_back(BEGIN.at_s + hours * HOUR_S)
    outcome = team.run()
    assert outcome.code == 0, outcome.err
    return team.proposed()


def canary_of(team: Team, tale: Tale, branch: str = "main") -> int:
    """How many replicas a branch gives it."""
    lines = team.read(tale.path, branch).decode().splitlines()
    return next(int(line.split(":")[1]) for line in lines if line.strip().startswith("replicas:"))
