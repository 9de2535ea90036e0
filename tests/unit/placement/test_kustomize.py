"""What Kustomize builds, found without running it."""

import pytest

from reconciler.domain.identity import ResourceKey
from reconciler.manifests.documents import parse_documents
from reconciler.placement.fleet import Fleet
from reconciler.placement.kustomize_build import BuildBudget, Builder
from reconciler.placement.objects import BuiltObject, OriginKind
from reconciler.placement.repository import ManifestRepository
from tests.unit.placement.conftest import Build

DEPLOYMENT = """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: llama, labels: {tier: gold}}
spec:
  replicas: 2
  template:
    spec:
      containers:
        - {name: vllm, image: "vllm:1", resources: {limits: {nvidia.com/gpu: 1}}}
        - {name: proxy, image: envoy}
"""
SCALER = "HorizontalPodAutoscaler"
BASE = "resources: [deployment.yaml]\n"


def only(fleet: Fleet, kind: str = "Deployment") -> BuiltObject:
    (found,) = (built for built in fleet.clusters["prod"].objects if built.key.kind == kind)
    return found


def overlay(text: str, **more: str) -> dict[str, str]:
    base = {"base/deployment.yaml": DEPLOYMENT, "base/kustomization.yaml": BASE}
    return {
        **base,
        "prod/kustomization.yaml": text,
        **{f"{path.replace('__', '/')}.yaml": body for path, body in more.items()},
    }


def patched(build: Build, patch: str, target: str = "") -> BuiltObject:
    lines = "".join(f"      {line}\n" for line in patch.splitlines())
    return only(build(overlay(f"resources: [../base]\npatches:\n  - {target}patch: |\n{lines}")))


MERGE = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: llama}\n"


def merged_items(build: Build, field: str, old: str, patch: str) -> list[object]:
    """The names of the items of a container's list after a patch."""
    deployment = DEPLOYMENT.replace("{name: proxy, image: envoy}", f"{{name: proxy, {field}: [{old}]}}")
    text = f"spec: {{template: {{spec: {{containers: [{{name: proxy, {field}: [{patch}]}}]}}}}}}"
    lines = "".join(f"      {line}\n" for line in (MERGE + text).splitlines())
    files = overlay(f"resources: [../base]\npatches:\n  - patch: |\n{lines}")
    found = only(build({**files, "base/deployment.yaml": deployment}))
    items = found.value_at("spec", "template", "spec", "containers", 0, field)
    assert isinstance(items, list)
    return [each.get("name") for each in items if isinstance(each, dict)]


@pytest.mark.parametrize(
    ("field", "old", "patch", "names"),
    [
        ("ports", "{containerPort: 80, name: a}", "{containerPort: 80, name: b}", ["b"]),
        ("ports", "{containerPort: 80, name: a}", "{containerPort: 81, name: b}", ["b", "a"]),
        (
            "ports",
            "{containerPort: 80, protocol: TCP, name: a}",
            "{containerPort: 80, protocol: UDP, name: b}",
            ["b", "a"],
        ),
        ("volumeMounts", "{mountPath: /a, name: a}", "{mountPath: /a, name: b}", ["b"]),
        ("volumeMounts", "{mountPath: /a, name: a}", "{mountPath: /b, name: a}", ["a", "a"]),
        ("volumeDevices", "{devicePath: /a, name: a}", "{devicePath: /a, name: b}", ["b"]),
        ("env", "{name: A, value: x}, {name: B, value: x}", "{name: B, value: y}", ["B", "A"]),
        ("envFrom", "{prefix: a, name: a}", "{prefix: a, name: b}", ["b"]),
        ("envFrom", "{prefix: a, name: a}", "{prefix: b, name: b}", ["b"]),
    ],
)
def test_a_list_merges_by_its_own_keys_or_is_replaced(
    build: Build, field: str, old: str, patch: str, names: list[object]
) -> None:
    assert merged_items(build, field, old, patch) == names


def test_containers_merge_by_name_and_the_patch_comes_first(build: Build) -> None:
    patch = "spec: {template: {spec: {containers: [{name: proxy, image: envoy:2}, {name: new, image: x}]}}}"
    built = patched(build, MERGE + patch)
    containers = built.value_at("spec", "template", "spec", "containers")
    assert isinstance(containers, list)
    assert [each.get("image") for each in containers if isinstance(each, dict)] == ["envoy:2", "x", "vllm:1"]


def test_a_merged_container_still_knows_where_its_other_fields_stand(build: Build) -> None:
    patch = "spec: {template: {spec: {containers: [{name: vllm, image: vllm:2}]}}}"
    built = patched(build, MERGE + patch)
    container = ("spec", "template", "spec", "containers", 0)
    (image, before) = built.origin_of((*container, "image"))
    (limit,) = built.origin_of((*container, "resources", "limits", "nvidia.com/gpu"))
    assert (image.kind, image.place.path, image.value) == (OriginKind.PATCH, "prod/kustomization.yaml", "vllm:2")
    assert (before.place.path, before.value) == ("base/deployment.yaml", "vllm:1")
    assert (limit.place.path, limit.place.line, limit.kind) == ("base/deployment.yaml", 9, OriginKind.BASE)


def test_null_deletes_and_the_place_of_the_deletion_is_known(build: Build) -> None:
    built = patched(build, MERGE + "spec: {replicas: null}")
    assert built.value_at("spec", "replicas") is None
    assert built.origin_of(("spec", "replicas"))[0].place.path == "prod/kustomization.yaml"


def test_patch_replace_replaces_a_whole_mapping(build: Build) -> None:
    built = patched(build, MERGE + "spec: {template: {$patch: replace, spec: {nodeSelector: {a: b}}}}")
    assert built.value_at("spec", "template") == {"spec": {"nodeSelector": {"a": "b"}}}


def test_patch_delete_removes_an_object(build: Build) -> None:
    patch = "$patch: delete\n" + MERGE
    assert not build(overlay("resources: [../base]\npatchesStrategicMerge: [gone.yaml]\n", prod__gone=patch)).objects


def test_operations_move_containers_and_their_places_move_along(build: Build) -> None:
    insertion = "- {op: add, path: /spec/template/spec/containers/0, value: {name: first}}"
    removal = "- {op: remove, path: /spec/template/spec/containers/2}"
    built = patched(build, f"{insertion}\n{removal}", "target: {kind: Deployment}\n    ")
    containers = ("spec", "template", "spec", "containers")
    assert [origin.place.path for origin in built.origin_of((*containers, 0, "name"))] == ["prod/kustomization.yaml"]
    assert built.value_at(*containers, 1, "name") == "vllm"
    assert built.value_at(*containers, 2) is None
    assert built.origin_of((*containers, 1, "image"))[0].place.line == 9


def test_a_merged_item_and_its_neighbour_keep_places_of_their_own(build: Build) -> None:
    built = patched(build, MERGE + "spec: {template: {spec: {containers: [{name: proxy, image: envoy:2}]}}}")
    containers = ("spec", "template", "spec", "containers")
    assert [origin.kind for origin in built.origin_of((*containers, 0, "image"))] == [OriginKind.PATCH, OriginKind.BASE]
    assert [origin.kind for origin in built.origin_of((*containers, 1, "image"))] == [OriginKind.BASE]
    assert [origin.place.line for origin in built.origin_of((*containers, 1, "name"))] == [9]


@pytest.mark.parametrize(
    ("target", "is_hit"),
    [
        ("kind: Deploy.*", True),
        ("kind: Deploy", False),
        ("name: x|llama", True),
        ("{kind: Deployment, group: apps, version: v1}", True),
        ("group: batch", False),
        ("labelSelector: 'tier in (gold,silver), !beta'", True),
        ("labelSelector: tier!=gold", False),
        ("namespace: default", True),
        ("namespace: llm", False),
        ("annotationSelector: a=b", False),
    ],
)
def test_a_target_selects_as_kustomize_does(build: Build, target: str, is_hit: bool) -> None:
    target = target if target.startswith("{") else f"{{{target}}}" if "'" in target or "in (" not in target else target
    built = patched(build, "- {op: replace, path: /spec/replicas, value: 9}", f"target: {target}\n    ")
    assert (built.value_at("spec", "replicas") == 9) is is_hit


def test_a_pattern_that_is_not_followed_is_an_obstacle_and_no_guess(build: Build) -> None:
    built = patched(build, "- {op: replace, path: /spec/replicas, value: 9}", "target: {name: '(a+)+$'}\n    ")
    obstacle = built.obstacle_at(("spec", "replicas"))
    assert obstacle is not None
    assert "not followed" in obstacle.reason


def test_replicas_find_a_workload_by_any_name_it_ever_had(build: Build) -> None:
    for name in ("llama", "prod-llama"):
        text = f"namePrefix: prod-\nresources: [../base]\nreplicas: [{{name: {name}, count: 8}}]\n"
        assert only(build(overlay(text))).value_at("spec", "replicas") == 8


def test_replicas_without_a_workload_fail_the_build_and_hold_its_objects(build: Build) -> None:
    fleet = build(overlay("resources: [../base]\nreplicas: [{name: nobody, count: 8}]\n"))
    obstacle = only(fleet).obstacle_at(("spec", "replicas"))
    assert obstacle is not None
    assert "nobody" in obstacle.reason
    assert [finding.place.line for finding in fleet.findings] == [2]


def test_the_target_may_be_behind_an_address(build: Build) -> None:
    text = "resources: [../base, 'https://example.com/x']\nreplicas: [{name: nobody, count: 8}]\n"
    fleet = build(overlay(text))
    assert only(fleet).obstacles == ()
    assert "nothing is fetched" in fleet.findings[0].message


def test_an_unsupported_transformer_makes_what_it_touches_unreadable(build: Build) -> None:
    built = only(build(overlay("resources: [../base]\ntransformers: [t.yaml]\n")))
    assert built.obstacle_at(("spec", "replicas")) is not None


def test_a_variable_makes_what_names_it_unreadable(build: Build) -> None:
    files = overlay("resources: [../base]\nvars: [{name: X}]\n")
    files["base/deployment.yaml"] = DEPLOYMENT.replace("image: envoy", "image: envoy, args: ['--peer=$(X)']")
    built = only(build(files))
    assert built.obstacle_at(("spec", "replicas")) is None
    assert built.obstacle_at(("spec", "template", "spec", "containers", 1, "args", 0)) is not None


def test_its_own_schema_makes_what_was_merged_unreadable(build: Build) -> None:
    schema = "resources: [../base]\nopenapi: {path: schema.json}\n"
    assert only(build(overlay(schema))).obstacles == ()
    merge = f"{schema}patches: [{{patch: '{{kind: Deployment, apiVersion: apps/v1, metadata: {{name: llama}}, "
    assert only(build(overlay(f"{merge}spec: {{paused: true}}}}'}}]\n"))).obstacles != ()


@pytest.mark.parametrize(
    ("setting", "is_readable"),
    [
        ("namePrefix: [{path: metadata/name, kind: Deployment}]", False),
        ("namePrefix: [{path: metadata/name, kind: Rollout}]", True),
        ("commonLabels: [{path: spec/replicas, kind: Deployment}]", False),
        ("commonLabels: [{path: spec/extra/labels, create: true, kind: Deployment}]", True),
        ("images: [{path: spec/image, kind: Rollout}]", True),
        ("other: {}", False),
    ],
)
def test_a_configuration_makes_what_it_is_for_unreadable(build: Build, setting: str, is_readable: bool) -> None:
    files = overlay("resources: [../base]\nconfigurations: [c.yaml]\n", prod__c=f"{setting}\n")
    assert (only(build(files)).obstacle_at(("spec", "replicas")) is None) is is_readable


def test_what_generators_add_to_is_built_once(build: Build) -> None:
    base = "resources: [deployment.yaml]\nconfigMapGenerator: [{name: c, literals: [A=1]}]\n"
    more = "configMapGenerator: [{name: c, behavior: merge, literals: [B=2]}]\n"
    fleet = build(overlay(f"namespace: llm\nresources: [../base]\n{more}") | {"base/kustomization.yaml": base})
    assert only(fleet, "ConfigMap").value_at("data") == {"A": "1", "B": "2"}
    assert fleet.findings == ()


@pytest.mark.parametrize("behavior", ["merge", "replace"])
def test_a_generator_that_finds_nothing_to_add_to_fails(build: Build, behavior: str) -> None:
    fleet = build(overlay(f"resources: [../base]\nconfigMapGenerator: [{{name: c, behavior: {behavior}}}]\n"))
    assert f"there is no ConfigMap default/c to {behavior}" in str(fleet.findings)


def test_any_other_behavior_of_a_generator_creates(build: Build) -> None:
    fleet = build(overlay("resources: [../base]\nconfigMapGenerator: [{name: c, behavior: add, literals: [A=1]}]\n"))
    assert only(fleet, "ConfigMap").value_at("data") == {"A": "1"}
    assert fleet.findings == ()


def test_operations_on_what_is_generated_fail_nothing(build: Build) -> None:
    generator = "configMapGenerator: [{name: c, files: [app.conf]}]\n"
    patch = "patches:\n  - target: {kind: ConfigMap}\n    patch: |\n      - {op: replace, path: /data/a.b, value: x}\n"
    fleet = build(overlay(f"resources: [../base]\n{generator}{patch}"))
    assert fleet.findings == ()
    assert only(fleet).obstacles == ()


def test_images_of_containers_in_lists_are_replaced(build: Build) -> None:
    custom = "apiVersion: x.io/v1\nkind: Fleet\nmetadata: {name: f}\nspec:\n  image: vllm:1\n"
    custom += "  roles: [{containers: [{image: vllm:1}]}]\n"
    configuration = "images: [{path: spec/image, kind: Fleet}]\n"
    text = "resources: [f.yaml]\nimages: [{name: vllm, newTag: '2'}]\nconfigurations: [c.yaml]\n"
    built = only(build(overlay(text, prod__f=custom, prod__c=configuration)), "Fleet")
    assert built.value_at("spec") == {"image": "vllm:2", "roles": [{"containers": [{"image": "vllm:2"}]}]}


def test_generated_objects_are_known_by_name_alone(build: Build) -> None:
    fleet = build(overlay("namespace: llm\nresources: [../base]\nconfigMapGenerator: [{name: c, literals: [a=b]}]\n"))
    built = only(fleet, "ConfigMap")
    assert built.key == ResourceKey(cluster="prod", namespace="llm", kind="ConfigMap", name="c")
    assert built.obstacle_at(("data",)) is not None


def test_a_cycle_is_reported_and_ends(build: Build) -> None:
    fleet = build(
        {
            "a/kustomization.yaml": "resources: [../b]\n",
            "b/kustomization.yaml": "resources: [../c]\n",
            "c/kustomization.yaml": "resources: [../b]\n",
        }
    )
    assert "cycle" in fleet.findings[0].message


def test_every_doubling_of_bases_ends_within_the_budget() -> None:
    files = {"l0/deployment.yaml": DEPLOYMENT, "l0/kustomization.yaml": BASE}
    for level in range(1, 25):
        for side in "ab":
            below = "[../l0]" if level == 1 else f"[../l{level - 1}a, ../l{level - 1}b]"
            files[f"l{level}{side}/kustomization.yaml"] = f"namePrefix: {side}-\nresources: {below}\n"
    repository = ManifestRepository(files={path: parse_documents(path, body.encode()) for path, body in files.items()})
    builder = Builder(repository, BuildBudget(directories=500))
    failures = builder.build(builder.read("l24a")).failures
    assert "fewer directories" in failures[0].message


def test_a_file_that_no_kustomization_lists_is_reported(build: Build) -> None:
    fleet = build(overlay("resources: [../base]\n") | {"prod/extra.yaml": DEPLOYMENT})
    assert "prod/extra.yaml" in fleet.clusters["prod"].unbuilt


def test_a_list_of_objects_is_its_items(build: Build) -> None:
    items = DEPLOYMENT.replace("\n", "\n    ")
    fleet = build({"list.yaml": f"apiVersion: v1\nkind: List\nitems:\n  - {items.rstrip()}\n"})
    (origin,) = only(fleet).origin_of(("spec", "replicas"))
    assert (origin.field, origin.place.line) == (("items", 0, "spec", "replicas"), 8)


def test_a_file_reaches_every_object_it_is_built_into(build: Build) -> None:
    files = overlay("resources: [../base]\nnamespace: a\n") | {
        "dev/kustomization.yaml": "resources: [../base]\nnamespace: b\n"
    }
    fleet = build(files)
    assert sorted(built.key.namespace for built in fleet.reaches("base/deployment.yaml")) == ["a", "b"]
    assert fleet.reaches("nowhere.yaml") == ()


def test_an_autoscaler_follows_the_new_name_of_its_target(build: Build) -> None:
    scaler = (
        "apiVersion: autoscaling/v2\nkind: HorizontalPodAutoscaler\nmetadata: {name: h}\n"
        "spec: {scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: llama}}\n"
    )
    built = only(build(overlay("namePrefix: p-\nresources: [../base, hpa.yaml]\n", prod__hpa=scaler)), SCALER)
    assert built.value_at("spec", "scaleTargetRef", "name") == "p-llama"


def test_copies_of_an_object_into_itself_end(build: Build) -> None:
    copy = "- {op: copy, from: /spec, path: /spec/template/again}\n"
    patch = "  - {path: p.yaml, target: {kind: Deployment}}\n"
    fleet = build(overlay(f"resources: [../base]\nimages: [{{name: x}}]\npatches:\n{patch * 60}", prod__p=copy * 4))
    assert "grows beyond" in fleet.findings[0].message


def test_copies_of_a_list_into_itself_end(build: Build) -> None:
    spec = "/spec/template/spec"
    copy = f"- {{op: copy, from: {spec}/containers, path: {spec}/containers/-}}\n"
    patch = "  - {path: p.yaml, target: {kind: Deployment}}\n"
    fleet = build(overlay(f"resources: [../base]\npatches:\n{patch}", prod__p=copy * 16))
    assert "grows beyond 20000 values" in fleet.findings[0].message
    assert not build(overlay(f"resources: [../base]\npatches:\n{patch}", prod__p=copy * 8)).findings


def test_a_copied_container_has_places_of_its_own(build: Build) -> None:
    copy = "- {op: copy, from: /spec/template/spec/containers/0, path: /spec/template/spec/containers/-}"
    change = "- {op: replace, path: /spec/template/spec/containers/2/image, value: other}"
    built = patched(build, f"{copy}\n{change}", "target: {kind: Deployment}\n    ")
    containers = ("spec", "template", "spec", "containers")
    assert built.origin_of((*containers, 0, "image"))[0].place.path == "base/deployment.yaml"
    assert built.origin_of((*containers, 2, "image"))[0].place.path == "prod/kustomization.yaml"


def test_a_replacement_hides_the_fields_that_it_fills_in_and_no_others(build: Build) -> None:
    target = "{select: {kind: Deployment}, fieldPaths: [spec.template.spec.nodeSelector.zone]}"
    built = only(
        build(overlay(f"resources: [../base]\nreplacements: [{{source: {{kind: X}}, targets: [{target}]}}]\n"))
    )
    assert built.obstacle_at(("spec", "replicas")) is None
    assert built.obstacle_at(("spec", "template", "spec", "nodeSelector")) is not None
