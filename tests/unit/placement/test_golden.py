"""Whole repositories: which numbers their clusters get, and where each of them is written."""

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from reconciler.domain.identity import ResourceKey
from reconciler.manifests.documents import Value, parse_documents
from reconciler.placement.fleet import Fleet
from reconciler.placement.helm import helm_place
from reconciler.placement.ownership import owners_of
from reconciler.placement.places import EffectivePlace, NoPlace, effective_place

Build = Callable[..., Fleet]
FOLDER = Path(__file__).parents[2] / "testdata" / "clusters"
SCALED = ("Deployment", "StatefulSet", "LeaderWorkerSet")
WORDS = {"replicas": "replicas", "minReplicas": "min-replicas", "maxReplicas": "max-replicas"}


def _texts(folder: Path) -> dict[str, str]:
    return {path.relative_to(folder).as_posix(): path.read_text() for path in sorted(folder.rglob("*.yaml"))}


def _expected(case: Path) -> Mapping[str, Value]:
    value = parse_documents("expected.yaml", (case / "expected.yaml").read_bytes())[0].value
    assert isinstance(value, dict)
    return value


def describe(fleet: Fleet, key: ResourceKey, setting: Value) -> dict[str, Value]:
    """What is found about the numbers of one target, as `expected.yaml` says it."""
    if isinstance(setting, dict) and key not in fleet.objects:
        places = {name: helm_place(fleet, key, str(path), word=WORDS[name]) for name, path in setting.items()}
        return {"target": str(key), **{name: _described(found, "value") for name, found in places.items()}}
    is_built = key in fleet.objects or not isinstance(setting, str)
    found = effective_place(fleet, key) if is_built else helm_place(fleet, key, str(setting))
    entry = {"target": str(key), **_described(found, "replicas")}
    owners: list[Value] = [str(owner) for owner in owners_of(fleet, key, ("spec", "replicas"))]
    return {**entry, "owners": owners} if owners else entry


def _described(found: EffectivePlace | NoPlace, name: str) -> dict[str, Value]:
    if isinstance(found, NoPlace):
        entry: dict[str, Value] = {"held": str(found)}
    else:
        entry = {"written": f"{found.origin}", name: found.value}
    return {**entry, "considered": [f"{each.kind}: {each} = {each.value}" for each in found.considered]}


def targets_of(fleet: Fleet, asked: Value) -> list[ResourceKey]:
    """Every workload that is built, and those that only a chart makes."""
    built = {key for key in fleet.objects if key.kind in SCALED}
    named = {_key(each) for each in asked if isinstance(each, str)} if isinstance(asked, list) else set()
    return sorted(built | named)


def _key(text: str) -> ResourceKey:
    cluster, namespace, kind, name = text.split("/")
    return ResourceKey(cluster=cluster, namespace=namespace, kind=kind, name=name)


@pytest.mark.parametrize("name", sorted(path.name for path in FOLDER.iterdir()))
def test_every_number_is_found_where_it_is_written(name: str, build: Build) -> None:
    expected = _expected(FOLDER / name)
    fleet = build(_texts(FOLDER / name / "before"), expected.get("clusters"))
    targets = targets_of(fleet, expected.get("asked"))
    found = [describe(fleet, key, expected.get("helmValues")) for key in targets]
    assert found == expected["targets"]
    assert [str(finding) for finding in fleet.findings] == expected.get("findings", [])
