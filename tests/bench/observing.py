"""Observes the fleet as a run does: a real git repository, a Prometheus that counts what it is asked."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

from reconciler.config.environment import Environment, Flags
from reconciler.config.loading import load_settings
from reconciler.domain.answers import Answer, Query
from reconciler.domain.settings import ClusterSettings, Identity, Settings
from reconciler.git.repository import create_bare, open_directory
from reconciler.pipeline.observe import ObservedRun, observe
from reconciler.pipeline.session import Doors
from reconciler.rendering.renderer import Renderer
from tests.bench.answers import answers_to
from tests.bench.fleet import NOW_S, Fleet
from tests.bench.manifests import repository_files

AUTHOR = Identity(name="Reconciler", email="reconciler@example.com")


@dataclass(slots=True)
class FleetPrometheus:
    """Answers for a fleet and remembers the queries."""

    fleet: Fleet
    queries: list[Query] = field(default_factory=list)

    def ask(self, cluster: ClusterSettings, queries: Sequence[Query]) -> tuple[Answer, ...]:
        """The answers of the one cluster."""
        del cluster
        self.queries += queries
        return answers_to(self.fleet, queries)


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """What a run saw of a fleet, with the number of files it was written in and of queries that were asked."""

    observed: ObservedRun
    files: int
    queries: int


def observe_fleet(fleet: Fleet, directory: Path) -> Observation:
    """Write the fleet to a new repository at `directory` and observe it."""
    files = repository_files(fleet)
    create_bare(directory, branch="main", files=files, message="Add the fleet", author=AUTHOR, date_s=int(NOW_S) - 3600)
    prometheus = FleetPrometheus(fleet)
    doors = Doors(
        repository=open_directory(directory), ask=prometheus.ask, forge=None, author=AUTHOR, renderer=Renderer()
    )
    observed = observe(doors, fleet_settings(files["reconciler.yaml"]), NOW_S, "fleet")
    return Observation(observed=observed, files=len(files), queries=len(prometheus.queries))


def fleet_settings(configuration: bytes) -> Settings:
    """The settings of a fleet's own configuration file and nothing else."""
    return load_settings(
        repository_file=configuration,
        read_repository_file=_read_nothing,
        flags=Flags(),
        environment=Environment(),
    ).settings


def _read_nothing(path: str) -> NoReturn:
    raise AssertionError(f"the fleet's configuration names no other file, {path} was asked for")
