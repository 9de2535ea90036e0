"""Any kustomization: a build ends, reports what is wrong, and never loses the place of a number."""

import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from reconciler.manifests.documents import Value, value_at
from reconciler.placement.places import EffectivePlace, NoPlace, effective_place
from tests.unit.placement.conftest import Build

names = st.sampled_from(["a", "b", "p-a", "a-s"])
kinds = st.sampled_from(["Deployment", "StatefulSet", "LeaderWorkerSet", "ConfigMap"])
scalars = st.one_of(st.integers(0, 9), st.text("ab$ {}/*", max_size=4), st.none(), st.booleans())
anything = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=2),
        st.dictionaries(st.sampled_from(["name", "$patch", "spec", "x"]), inner, max_size=2),
    ),
    max_leaves=5,
)
pointers = st.sampled_from(
    ["/spec/replicas", "/spec", "/spec/list/0", "/spec/list/-", "/spec/list/1/name", "", "x", "/spec/list/9"]
)
items = st.lists(st.fixed_dictionaries({"name": st.sampled_from("xyz")}, optional={"v": scalars}), max_size=3)
objects = st.fixed_dictionaries(
    {
        "apiVersion": st.sampled_from(["apps/v1", "v1"]),
        "kind": kinds,
        "metadata": st.fixed_dictionaries({"name": names}),
    },
    optional={"spec": st.fixed_dictionaries({}, optional={"replicas": scalars, "containers": items, "list": items})},
)
operations = st.lists(
    st.fixed_dictionaries(
        {"op": st.sampled_from(["add", "remove", "replace", "copy", "move", "test"]), "path": pointers},
        optional={"value": anything, "from": pointers},
    ),
    max_size=3,
)
targets = st.fixed_dictionaries(
    {}, optional={"kind": kinds, "name": st.sampled_from(["a", ".*", "(", "a|b"]), "labelSelector": scalars.map(str)}
)
patches = st.fixed_dictionaries(
    {"patch": st.one_of(operations, objects, anything).map(yaml.safe_dump)}, optional={"target": targets}
)
entries = st.sampled_from(
    ["a.yaml", "../one", "../two", "../three", "../nowhere", "https://example.com/x", "../../..", "."]
)
kustomizations = st.fixed_dictionaries(
    {"resources": st.lists(entries, max_size=3)},
    optional={
        "components": st.lists(entries, max_size=1),
        "kind": st.sampled_from(["Kustomization", "Component"]),
        "namespace": names,
        "namePrefix": st.just("p-"),
        "nameSuffix": st.just("-s"),
        "commonLabels": st.dictionaries(st.sampled_from("xy"), scalars, max_size=1),
        "replicas": st.lists(st.fixed_dictionaries({"name": names, "count": scalars}), max_size=2),
        "patches": st.lists(patches, max_size=2),
        "images": anything,
        "transformers": anything,
        "labels": anything,
    },
)
flux = st.fixed_dictionaries(
    {
        "apiVersion": st.just("kustomize.toolkit.fluxcd.io/v1"),
        "kind": st.just("Kustomization"),
        "metadata": st.fixed_dictionaries({"name": names}),
        "spec": st.fixed_dictionaries(
            {"path": st.sampled_from(["one", "two", "four", ".", "x"])},
            optional={"targetNamespace": names, "patches": anything, "postBuild": anything},
        ),
    }
)
repositories = st.fixed_dictionaries(
    {f"{name}/kustomization.yaml": kustomizations for name in ("one", "two", "three")}
    | {f"{name}/a.yaml": objects for name in ("one", "two", "three", "four")},
    optional={"four/flux.yaml": flux},
)


@settings(max_examples=120, deadline=None)
@given(repositories)
def test_every_build_ends_and_tells(build: Build, repository: dict[str, Value]) -> None:
    fleet = build({path: yaml.safe_dump(value) for path, value in repository.items()})
    for key, found in fleet.objects.items():
        assert all(built.key == key for built in found)
        assert isinstance(effective_place(fleet, key), EffectivePlace | NoPlace)
        for built in found:
            assert built.place.path in repository


@settings(max_examples=120, deadline=None)
@given(repositories)
def test_the_first_link_of_a_chain_says_what_was_built(build: Build, repository: dict[str, Value]) -> None:
    fleet = build({path: yaml.safe_dump(value) for path, value in repository.items()})
    for found in fleet.objects.values():
        for built in found:
            value = value_at(dict(built.fields), ("spec", "replicas"))
            chain = built.origin_of(("spec", "replicas"))
            if chain and not isinstance(value, dict | list):
                assert value == chain[0].value or (value, chain[0].value) == (0, None)
            elif not chain:
                assert value is None
