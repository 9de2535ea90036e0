"""Whole repositories: which numbers their clusters get, and where each of them is written."""

import pytest

from reconciler.domain.identity import ResourceKey
from reconciler.manifests.documents import Value, parse_documents
from reconciler.placement.fleet import Fleet
from reconciler.placement.helm import helm_place
from reconciler.placement.ownership import owners_of
from reconciler.placement.places import EffectivePlace, NoPlace, effective_place
from tests.unit.placement.conftest import CASES, Build, texts_of

SCALED = ("Deployment", "StatefulSet", "LeaderWorkerSet")
WORDS = {"replicas": "replicas", "minReplicas": "min-replicas", "maxReplicas": "max-replicas"}


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


@pytest.mark.parametrize("name", sorted(path.name for path in CASES.iterdir()))
def test_every_number_is_found_where_it_is_written(name: str, build: Build) -> None:
    expected = parse_documents("expected.yaml", (CASES / name / "expected.yaml").read_bytes())[0].value
    assert isinstance(expected, dict)
    fleet = build(texts_of(name), expected.get("clusters"))
    listed = expected.get("asked")
    named = [each.split("/") for each in (listed if isinstance(listed, list) else ()) if isinstance(each, str)]
    keys = {ResourceKey(cluster=parts[0], namespace=parts[1], kind=parts[2], name=parts[3]) for parts in named}
    targets = sorted({key for key in fleet.objects if key.kind in SCALED} | keys)
    found = [describe(fleet, key, expected.get("helmValues")) for key in targets]
    assert found == expected["targets"]
    assert [str(finding) for finding in fleet.findings] == expected.get("findings", [])
