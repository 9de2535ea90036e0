"""Everything outside that a run touches, in one value, so that a demo or a test can replace it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from reconciler.domain.measured.answers import Answer, Query
from reconciler.domain.settings import ClusterSettings, Identity
from reconciler.forge.pull_requests import Forge
from reconciler.git.repository import Repository
from reconciler.rendering.renderer import Renderer

Ask = Callable[[ClusterSettings, Sequence[Query]], tuple[Answer, ...]]
"""Answers the queries of one cluster, in their order; failures are answers too."""

Progress = Callable[[str, int, int], None]
"""Called with what is being done, how much of it is done, and of how much; for people who wait."""


def no_progress(what: str, done: int, total: int) -> None:
    """Shows nothing."""
    del what, done, total


@dataclass(frozen=True, slots=True, kw_only=True)
class Doors:
    """The repository at its base commit, Prometheus, and the forge (None: a plan without one)."""

    repository: Repository
    ask: Ask
    forge: Forge | None
    author: Identity
    renderer: Renderer
    needs_forge: bool = True
    """Whether nothing may be decided while the forge does not answer; a plan that only reads goes on."""
    progress: Progress = no_progress
