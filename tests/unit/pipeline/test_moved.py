"""Which variants changed their accelerator or profiles lately, from real repositories."""

from collections.abc import Callable
from pathlib import Path

import pytest

from reconciler.config.environment import Environment, Flags
from reconciler.config.loading import load_settings
from reconciler.domain.settings import Settings
from reconciler.forge.pull_requests import NEUTRAL_IDENTITY
from reconciler.git.clone import clone_base
from reconciler.git.repository import Repository, open_directory
from reconciler.pipeline.files import read_files
from reconciler.pipeline.observe import read_moved
from reconciler.pipeline.session import Doors
from reconciler.snapshot.declarations import fold
from reconciler.snapshot.variants import declared_variants
from tests.servers.desk import RENDERER
from tests.servers.git_workshop import Workshop, empty_workshop

NOW_S = 1_790_000_000.0
CONFIGURATION = """\
apiVersion: reconciler.io/v1alpha1
kind: Configuration
clusters: [{name: prod}]
accelerators:
- {name: H100, costPerHour: 6.88, nodeSelector: {gpu: h100}}
- {name: A100, costPerHour: 3.4, nodeSelector: {gpu: a100}}
serviceClasses: [{name: standard, itl: 60ms}]
defaults: {serviceClass: standard}
"""
VARIANT = """\
apiVersion: llmd.ai/v1alpha1
kind: VariantAutoscaling
metadata: {name: NAME, namespace: llm}
spec:
  modelID: NAME
  sloClassRef: {name: service-classes-config, key: standard}
  modelProfile:
    accelerators:
    - {acc: H100, accCount: 1, alpha: "7", beta: "0.04", maxBatchSize: 64}
    - {acc: A100, accCount: 1, alpha: "12", beta: "0.08", maxBatchSize: 64}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: NAME, namespace: llm}
spec:
  replicas: 3
  template:
    spec:
      nodeSelector: {gpu: h100}
      containers: [{name: vllm, image: vllm, resources: {limits: {nvidia.com/gpu: "1"}}}]
"""


def settings_of(repository: Repository) -> Settings:
    return load_settings(
        repository_file=repository.read_file_at(repository.commit, "reconciler.yaml"),
        read_repository_file=lambda path: repository.read_file_at(repository.commit, path),
        flags=Flags(),
        environment=Environment(),
    ).settings


def moved(repository: Repository, *, age_s: float = 600.0) -> list[str] | None:
    """What changed, `age_s` after the newest commit."""
    settings = settings_of(repository)
    doors = Doors(
        repository=repository,
        ask=lambda _cluster, _queries: (),
        forge=None,
        author=NEUTRAL_IDENTITY,
        renderer=RENDERER,
        settings_of=settings_of,
    )
    variants = declared_variants(settings, fold(read_files(repository, settings, "fleet").commit, settings))
    found = read_moved(doors, settings, variants, NOW_S + age_s, "fleet")
    return None if found is None else [each.name for each in found]


@pytest.fixture
def workshop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workshop:
    """A repository that was begun a day ago; what is committed next is new."""
    made = empty_workshop(tmp_path)
    monkeypatch.setenv("GIT_COMMITTER_DATE", f"{NOW_S - 86400:.0f} +0000")
    made.write("reconciler.yaml", CONFIGURATION.encode())
    for name in ("chat", "code"):
        made.write(f"{name}.yaml", VARIANT.replace("NAME", name).encode())
    made.commit()
    monkeypatch.setenv("GIT_COMMITTER_DATE", f"{NOW_S:.0f} +0000")
    return made


def edit(path: str, old: str, new: str) -> Callable[[Workshop], None]:
    def change(workshop: Workshop) -> None:
        file = workshop.clone / path
        text = file.read_text() if file.exists() else ""
        assert old in text
        workshop.write(path, text.replace(old, new, 1).encode() if old else new.encode())

    return change


@pytest.mark.parametrize("is_cloned", [True, False])
@pytest.mark.parametrize(
    ("change", "expected"),
    [
        pytest.param(edit("NOTES.txt", "", "a note\n"), [], id="a note"),
        pytest.param(edit("chat.yaml", "replicas: 3", "replicas: 5"), [], id="replicas"),
        pytest.param(edit("chat.yaml", "gpu: h100", "gpu: a100"), ["chat"], id="accelerator"),
        pytest.param(edit("chat.yaml", 'alpha: "12"', 'alpha: "13"'), ["chat"], id="profile"),
        pytest.param(edit("chat.yaml", "spec:", "# learned in May\nspec:"), [], id="a comment"),
    ],
)
def test_only_a_change_of_its_accelerator_or_profiles_moves_a_variant(
    workshop: Workshop, change: Callable[[Workshop], None], expected: list[str], is_cloned: bool
) -> None:
    change(workshop)
    workshop.commit()
    repository = open_directory(workshop.clone)
    if is_cloned:
        directory = workshop.remote.parent / "copy"
        repository = clone_base(str(workshop.remote), base=None, credentials=None, directory=directory)
    assert moved(repository) == expected
    assert moved(repository, age_s=7200.0) == []


def test_what_ran_before_a_repository_began_is_not_known(workshop: Workshop) -> None:
    repository = open_directory(workshop.clone)
    assert moved(repository, age_s=600.0 - 86400.0) is None


def test_settings_of_then_that_cannot_be_read_leave_it_unknown(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_COMMITTER_DATE", f"{NOW_S - 80000:.0f} +0000")
    workshop.write("reconciler.yaml", b"kind: Nonsense\n")
    workshop.commit()
    monkeypatch.setenv("GIT_COMMITTER_DATE", f"{NOW_S:.0f} +0000")
    workshop.write("reconciler.yaml", CONFIGURATION.encode())
    workshop.commit()
    assert moved(open_directory(workshop.clone)) is None
