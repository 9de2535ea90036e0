"""What our edits change of the objects that the real tool renders: the wanted fields, and nothing else."""

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from reconciler.domain.identity import ResourceKey
from reconciler.domain.written import FieldPath
from reconciler.manifests.documents import Value, parse_documents, parse_readable
from reconciler.placement.kustomize_build import find_used
from reconciler.placement.repository import ManifestRepository
from tests.integration.test_kustomize import UNBUILDABLE, render
from tests.tools.sample_clusters import CASES, case_names, change, read_files
from tests.tools.sample_moves import move, move_names

pytestmark = pytest.mark.integration

Name = tuple[Value, Value, Value]
KUSTOMIZATION = "kustomization.yaml"
DEPLOYED = "move-deployers"
"""What it moves is decided by deployers, too, which the tool knows nothing of."""


def rendered_cases() -> list[str]:
    """The samples that are Kustomize's alone: what a chart or a deployer makes of its objects nobody renders here."""
    return [
        name
        for name in case_names()
        if name not in UNBUILDABLE
        and any(path.endswith(KUSTOMIZATION) for path in read_files(name))
        and b"helmValues" not in (CASES / name / "expected.yaml").read_bytes()
    ]


def _rendered(folder: Path, files: Mapping[str, bytes]) -> dict[str, dict[Name, dict[str, Value]]]:
    """The objects of every kustomization that no other one enters, by its path; none where it does not build."""
    for path, body in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(body)
    found: dict[str, dict[Name, dict[str, Value]]] = {}
    readable = {path: parse_readable(path, body)[0] for path, body in files.items()}
    entered = find_used(ManifestRepository(files=readable)).directories
    for path in sorted(files):
        is_root = path.endswith(KUSTOMIZATION) and path.rpartition("/")[0] not in entered
        if is_root and b"kind: Component" not in files[path]:
            result = render((folder / path).parent)
            documents = parse_documents(path, result.stdout.encode()) if result.returncode == 0 else ()
            found[path] = {_name(each.value): each.value for each in documents if isinstance(each.value, dict)}
    return found


def _name(value: dict[str, Value]) -> Name:
    metadata = value.get("metadata")
    names = metadata if isinstance(metadata, dict) else {}
    return value.get("kind"), names.get("namespace"), names.get("name")


def _counts(fields: dict[str, Value], count: Value) -> dict[str, Value]:
    """The object with another count."""
    spec = fields.get("spec")
    assert isinstance(spec, dict), "only what has a spec has replicas"
    return {**fields, "spec": {**spec, "replicas": count}}


@pytest.mark.parametrize("case", rendered_cases())
def test_the_render_differs_in_the_wanted_counts_and_in_nothing_else(case: str, tmp_path: Path) -> None:
    sample = change(case, read_files(case))
    before, after = _rendered(tmp_path / "before", sample.before), _rendered(tmp_path / "after", sample.after)
    for path, objects in before.items():
        assert after[path].keys() == objects.keys()
        for (kind, namespace, name), fields in objects.items():
            changed = after[path][kind, namespace, name]
            if changed != fields:
                # A deployer, or an overlay, may give this object the namespace that it has in the cluster.
                counts = {
                    count
                    for key, count in sample.changed.items()
                    if (key.kind, key.name) == (kind, name) and namespace in (None, key.namespace)
                }
                assert changed in [_counts(fields, count) for count in counts], f"{kind} {namespace}/{name}"


def _leaves(value: Value, path: FieldPath = ()) -> Iterator[tuple[FieldPath, Value]]:
    members = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    if not members or not value:
        yield path, value
    for part, member in members:
        yield from _leaves(member, (*path, part))


def _moved(fields: dict[str, Value], wanted: Mapping[FieldPath, str]) -> dict[FieldPath, Value]:
    """The leaves of an object with those that were wanted; no requests are added to limits."""
    leaves = dict(_leaves(fields))
    kept = {path: value for path, value in wanted.items() if path in leaves or "requests" not in path}
    return {path: value for path, value in leaves.items() if path not in kept} | kept


def _in_cluster(root: str, key: ResourceKey) -> bool:
    """The samples keep each cluster's kustomizations in a folder of its name."""
    return root.split("/")[-2] == key.cluster


@pytest.mark.parametrize("case", [name for name in rendered_cases() if name in move_names() and name != DEPLOYED])
def test_the_render_differs_in_what_a_move_is_about_and_in_nothing_else(case: str, tmp_path: Path) -> None:
    sample = move(case, read_files(case))
    before, after = _rendered(tmp_path / "before", sample.before), _rendered(tmp_path / "after", sample.after)
    unseen = set(sample.moved)
    for root, objects in before.items():
        assert after[root].keys() == objects.keys()
        for (kind, namespace, name), fields in objects.items():
            keys = [
                key
                for key in sample.moved
                if (key.kind, key.namespace, key.name) == (kind, namespace, name) and _in_cluster(root, key)
            ]
            wanted = {path: value for key in keys for path, value in sample.moved[key].items()}
            unseen -= set(keys)
            found = {path: str(value) for path, value in _leaves(after[root][kind, namespace, name])}
            assert found == {path: str(value) for path, value in _moved(fields, wanted).items()}, f"{root}: {name}"
    assert not unseen, "every move must show"
