"""Manifests of every generation of Kthena, and reading them."""

from collections.abc import Callable
from pathlib import Path

import pytest

from reconciler.domain.metric_targets import TrackedTarget
from reconciler.resources.declaration import Declaration
from reconciler.resources.kthena.tracked_targets import tracked_targets

KTHENA = Path(__file__).parents[3] / "testdata" / "resources" / "kthena"

Follow = Callable[[str], dict[str, TrackedTarget]]


@pytest.fixture(scope="session")
def kthena() -> Path:
    """The folder of manifests and their findings."""
    return KTHENA


@pytest.fixture(scope="session")
def sample(declare: Callable[..., Declaration]) -> Callable[[str], Declaration]:
    """The declaration of a sample, by its generation."""
    return lambda generation: declare((KTHENA / "samples" / f"{generation}.yaml").read_text())


@pytest.fixture(scope="session")
def follow(sample: Callable[[str], Declaration]) -> Follow:
    """What the policies of a sample scale, by the label of each target's key."""
    return lambda generation: {each.key.label: each for each in tracked_targets(sample(generation).kthena)}
