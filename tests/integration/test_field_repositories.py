"""Many numbers changed at once in whole repositories: what the real tools render differs in these and nowhere else."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from reconciler.domain.identity import ResourceKey
from tests.integration.test_render_proof import rendered_cases
from tests.tools.deployed import Fields, Name, find_tool, has_helm, render
from tests.tools.field_repositories import REPOSITORIES, FieldRepository
from tests.tools.sample_clusters import Sample, change, read_files, rewrite

pytestmark = pytest.mark.integration

HOLDERS = {"HelmRelease", "Application", "ApplicationSet", "ConfigMap", "Kustomization"}
"""Kinds that hold numbers of other objects: that only theirs change is seen in what is made of them."""
COUNTS = {"replicas", "minReplicas", "maxReplicas", "minReplicaCount", "maxReplicaCount"}


def _bytes(files: Any) -> dict[str, bytes]:
    return {path: text.encode() for path, text in files.items()}


def _sample(repository: FieldRepository) -> Sample:
    return rewrite(repository.said, _bytes(repository.files))


def _differences(before: Any, after: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any, Any]]:
    if isinstance(before, dict) and isinstance(after, dict):
        for key in before.keys() | after.keys():
            yield from _differences(before.get(key), after.get(key), (*path, key))
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for index, (old, new) in enumerate(zip(before, after, strict=True)):
            yield from _differences(old, new, (*path, index))
    elif before != after:
        yield path, before, after


def _target_of(kind: str, namespace: str, name: str, fields: Fields) -> tuple[str, str, str]:
    """What an object's count is a count of: itself, or what an autoscaler scales."""
    reference = fields["spec"].get("scaleTargetRef")
    return (reference.get("kind", "Deployment"), namespace, reference["name"]) if reference else (kind, namespace, name)


def _is_in(key: ResourceKey, root: str, said: Any) -> bool:
    """Whether a root is of the cluster of a target; a deployer's may be of any, and another cluster's is not."""
    others = [paths[0].removesuffix("**") for name, paths in said.get("clusters", {}).items() if name != key.cluster]
    return not any(f"{root}/".startswith(other) for other in others)


@pytest.mark.parametrize("name", REPOSITORIES)
def test_the_wanted_counts_change_and_nothing_else(name: str, tmp_path: Path) -> None:
    repository = REPOSITORIES[name]
    if not find_tool():
        pytest.skip("kustomize: neither kustomize nor kubectl is installed")
    if repository.needs_helm and not has_helm():
        pytest.skip("helm: it is not installed")
    sample = _sample(repository)
    assert (len(sample.changed), sample.held) == (repository.edits, {})
    charts = _bytes(repository.charts)
    before = render(tmp_path / "before", sample.before, charts)
    after = render(tmp_path / "after", sample.after, charts)
    assert after.keys() == before.keys()
    unseen = set(sample.changed)
    for place, fields in before.items():
        unseen -= set(_explain(place, fields, after[place], sample, repository))
    assert not unseen, "every change must show"


def _explain(
    place: Name, old: Fields, new: Fields, sample: Sample, repository: FieldRepository
) -> Iterator[ResourceKey]:
    """The targets that the differences of one object are about; AssertionError for any other."""
    root, kind, namespace, name = place
    for path, _, value in _differences(old, new):
        if kind in HOLDERS:
            assert isinstance(value, str) or value in sample.changed.values(), f"{place}: {path}"
            continue
        wanted = _target_of(kind, namespace, name, old)
        keys = [
            key
            for key in sample.changed
            if (key.kind, key.name) == (wanted[0], wanted[2])
            and (key.namespace == wanted[1] or not wanted[1])
            and _is_in(key, root, repository.said)
        ]
        assert path[:-1] == ("spec",), f"{place}: {path}"
        assert path[-1] in COUNTS, f"{place}: {path}"
        assert value in [sample.changed[key] for key in keys], f"{place}: {path} {value}"
        yield from keys


def test_a_hundred_edits_are_rendered() -> None:
    samples = [change(case, read_files(case)) for case in rendered_cases()]
    assert sum(len(sample.changed) for sample in samples) + sum(each.edits for each in REPOSITORIES.values()) >= 100
