"""What replicas cost before, from real repositories: a month is priced as it was paid."""

from collections.abc import Callable
from pathlib import Path

import pytest

from reconciler.config.environment import Environment, Flags
from reconciler.config.loading import load_settings
from reconciler.domain.recording import PaidPrices
from reconciler.domain.settings import Settings
from reconciler.forge.pull_requests import NEUTRAL_IDENTITY
from reconciler.git.clone import clone_base
from reconciler.git.repository import Repository, open_directory
from reconciler.pipeline.files import read_files
from reconciler.pipeline.observe import read_paid
from reconciler.pipeline.session import Doors
from reconciler.snapshot.declarations import fold
from reconciler.snapshot.variants import declared_variants
from tests.servers.desk import RENDERER
from tests.servers.git_workshop import Workshop, empty_workshop, run_git

HOUR_S, DAY_S = 3600.0, 86_400.0
NOW_S = 1_790_000_000.0
BEGAN_S = 1_788_220_800.0
"""The beginning of its month, 20.6 days before."""
CONFIGURATION = """\
apiVersion: reconciler.io/v1alpha1
kind: Configuration
clusters: [{name: prod}]
accelerators:
- {name: H100, costPerHour: 6.88, nodeSelector: {gpu: h100}}
- {name: A100, costPerHour: 3.5, nodeSelector: {gpu: a100}}
policies: [budget.yaml]
"""
BUDGET = """\
apiVersion: reconciler.io/v1alpha1
kind: Policy
rules: [{name: money, budget: {amount: 1, per: month}}]
"""
VARIANT = """\
apiVersion: llmd.ai/v1alpha1
kind: VariantAutoscaling
metadata: {name: NAME, namespace: llm}
spec:
  modelID: NAME
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: NAME}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: NAME, namespace: llm}
spec:
  replicas: 3
  template:
    spec:
      nodeSelector: {gpu: h100}
      containers: [{name: vllm, image: vllm, resources: {limits: {nvidia.com/gpu: "2"}}}]
"""
PRICES = """\
apiVersion: v1
kind: ConfigMap
metadata: {name: accelerator-unit-costs, namespace: workload-variant-autoscaler-system}
data:
  L40S: |
    {"device": "NVIDIA-L40S", "cost": "150.00"}
"""
Person = tuple[Workshop, Callable[[float, str, str], None]]


@pytest.fixture
def person(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Person:
    """Somebody who began a repository 40 days ago, and a way to have them commit a file days ago."""
    workshop = empty_workshop(tmp_path)

    def commit(days: float, path: str, text: str) -> None:
        monkeypatch.setenv("GIT_COMMITTER_DATE", f"{NOW_S - days * DAY_S:.0f} +0000")
        workshop.write(path, text.encode())
        workshop.commit()

    commit(42, "reconciler.yaml", CONFIGURATION)
    commit(41, "budget.yaml", BUDGET)
    commit(40, "chat.yaml", VARIANT.replace("NAME", "chat"))
    return workshop, commit


def settings_of(repository: Repository) -> Settings:
    return load_settings(
        repository_file=repository.read_file_at(repository.commit, "reconciler.yaml"),
        read_repository_file=lambda path: repository.read_file_at(repository.commit, path),
        list_repository_folder=repository.files_below,
        flags=Flags(),
        environment=Environment(),
    ).settings


def paid(repository: Repository) -> PaidPrices:
    """What the variant `chat` cost."""
    settings = settings_of(repository)
    doors = Doors(
        repository=repository,
        ask=lambda _cluster, _queries: (),
        forge=None,
        author=NEUTRAL_IDENTITY,
        renderer=RENDERER,
        settings_of=settings_of,
    )
    files = read_files(repository, settings, "fleet")
    variants = declared_variants(settings, fold(files.commit, settings))
    (found,) = (
        each for each in read_paid(doors, settings, variants, files, NOW_S, "fleet") if each.variant.name == "chat"
    )
    return found


def days(found: PaidPrices) -> list[tuple[float, float | None]]:
    """The changes since the month began, by how many days ago."""
    return [(round((NOW_S - at_s) / DAY_S, 2), price) for at_s, price in found.prices if at_s > BEGAN_S]


@pytest.mark.parametrize("is_cloned", [True, False])
def test_each_price_counts_from_its_commit(person: Person, is_cloned: bool) -> None:
    """Two accelerators a replica."""
    workshop, commit = person
    commit(10, "reconciler.yaml", CONFIGURATION.replace("6.88", "5"))
    commit(4, "reconciler.yaml", CONFIGURATION.replace("6.88", "4"))
    directory = workshop.remote.parent / "copy"
    repository = (
        clone_base(str(workshop.remote), base=None, credentials=None, directory=directory)
        if is_cloned
        else open_directory(workshop.clone)
    )
    found = paid(repository)
    assert days(found) == [(10, 10.0), (4, 8.0)]
    assert (found.at(NOW_S - 15 * DAY_S), found.at(NOW_S - 7 * DAY_S), found.at(NOW_S)) == (13.76, 10.0, 8.0)
    assert found.prices[0][0] <= BEGAN_S


def test_a_price_that_came_back_is_found_and_one_of_an_extended_file(person: Person) -> None:
    workshop, commit = person
    commit(12, "reconciler.yaml", CONFIGURATION.replace("6.88", "5"))
    commit(11, "reconciler.yaml", CONFIGURATION)
    listed = (
        "apiVersion: reconciler.io/v1alpha1\nkind: Configuration\naccelerators: [{name: H100, costPerHour: PRICE}]\n"
    )
    commit(9, "prices.yaml", listed.replace("PRICE", "7"))
    extends = CONFIGURATION.replace("clusters:", "extends: [prices.yaml]\nclusters:").replace("costPerHour: 6.88, ", "")
    commit(8, "reconciler.yaml", extends)
    commit(3, "prices.yaml", listed.replace("PRICE", "2"))
    found = days(paid(open_directory(workshop.clone)))
    assert found == [(12, 10.0), (11, 13.76), (8, 14.0), (3, 4.0)]


def test_a_price_of_a_config_map_counts_from_its_commit(person: Person) -> None:
    workshop, commit = person
    on_l40s = VARIANT.replace("NAME", "chat").replace("gpu: h100", "nvidia.com/gpu.product: NVIDIA-L40S")
    commit(30, "chat.yaml", on_l40s)
    commit(29, "prices.yaml", PRICES)
    commit(6, "prices.yaml", PRICES.replace("150.00", "120.00"))
    found = paid(open_directory(workshop.clone))
    assert (found.at(BEGAN_S), days(found)) == (3.0, [(6, 2.4)])


def test_a_move_by_hand_is_searched(person: Person) -> None:
    workshop, commit = person
    for day in range(19, 0, -1):
        moved = VARIANT.replace("replicas: 3", f"replicas: {day}").replace("NAME", "chat")
        commit(day, "chat.yaml", moved.replace("gpu: h100", "gpu: a100") if day <= 7 else moved)
    found = paid(open_directory(workshop.clone))
    assert (found.at(BEGAN_S), days(found)) == (13.76, [(7, 7.0)])


def test_a_move_there_and_back_is_found(person: Person) -> None:
    workshop, commit = person
    chat = VARIANT.replace("NAME", "chat")
    for day in (18, 12, 3):
        commit(
            day, "chat.yaml", chat.replace("gpu: h100", "gpu: a100" if day > 3 else "gpu: h100").replace("3", f"{day}")
        )
    found = paid(open_directory(workshop.clone))
    assert days(found) == [(18, 7.0), (3, 13.76)]


def test_of_many_prices_the_newest_are_known(
    person: Person, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    workshop, commit = person
    monkeypatch.setattr("reconciler.pipeline.observe.MOST_STATES", 6)
    for day in range(12, 0, -1):
        commit(day, "reconciler.yaml", CONFIGURATION.replace("6.88", f"{day}"))
    found = paid(open_directory(workshop.clone))
    assert [(round((NOW_S - at_s) / DAY_S), price) for at_s, price in found.prices] == [
        (day, 2.0 * day) for day in range(len(found.prices), 0, -1)
    ]
    assert 3 <= len(found.prices) <= 6
    assert "the oldest known ones count" in caplog.text


def test_what_is_not_about_prices_reads_only_the_oldest(person: Person, monkeypatch: pytest.MonkeyPatch) -> None:
    workshop, commit = person
    for day in range(15, 0, -1):
        commit(day, "reconciler.yaml", f"{CONFIGURATION}currency: EUR # {day}\n")
    repository = open_directory(workshop.clone)
    reads: list[str] = []

    def counted(*arguments: object, **fields: object) -> object:
        reads.append("read")
        return read_files(*arguments, **fields)  # type: ignore[arg-type]  # passed on as it came

    monkeypatch.setattr("reconciler.pipeline.observe.read_files", counted)
    assert (days(paid(repository)), len(reads)) == ([], 1)


def test_a_price_that_was_not_given_yet_is_the_oldest_known_one(person: Person) -> None:
    workshop, commit = person
    commit(25, "reconciler.yaml", CONFIGURATION.replace("costPerHour: 6.88, ", ""))
    commit(5, "reconciler.yaml", CONFIGURATION.replace("6.88", "5"))
    commit(2, "reconciler.yaml", CONFIGURATION)
    found = paid(open_directory(workshop.clone))
    assert days(found) == [(5, 10.0), (2, 13.76)]
    assert found.at(BEGAN_S) == 10.0


def test_a_version_that_cannot_be_read_counts_as_the_next(person: Person) -> None:
    workshop, commit = person
    commit(9, "reconciler.yaml", "kind: Nonsense\n")
    commit(5, "reconciler.yaml", CONFIGURATION.replace("6.88", "5"))
    found = paid(open_directory(workshop.clone))
    assert (found.at(NOW_S - 10 * DAY_S), found.at(NOW_S - 7 * DAY_S), found.at(NOW_S)) == (13.76, 10.0, 10.0)


def test_a_shallow_checkout_says_so_and_counts_the_oldest_known(
    person: Person, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    workshop, commit = person
    commit(10, "reconciler.yaml", CONFIGURATION.replace("6.88", "5"))
    commit(4, "reconciler.yaml", CONFIGURATION)
    run_git(tmp_path, "clone", "-q", "--depth=2", f"file://{workshop.remote}", "shallow")
    found = paid(open_directory(tmp_path / "shallow"))
    assert found.prices == ((NOW_S - 10 * DAY_S, 10.0), (NOW_S - 4 * DAY_S, 13.76))
    assert "the oldest known ones count" in caplog.text


def test_without_a_history_todays_prices_count(person: Person, caplog: pytest.LogCaptureFixture) -> None:
    workshop, _ = person
    clone = clone_base(str(workshop.remote), base=None, credentials=None, directory=workshop.remote.parent / "copy")
    workshop.remote.rename(workshop.remote.parent / "gone")
    assert paid(clone).prices == ((NOW_S, 13.76),)
    assert "at today's prices" in caplog.text
