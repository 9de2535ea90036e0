"""Layouts that few teams have: who builds a file, who owns a number, what is fetched."""

import pytest

from reconciler.domain.identity import ResourceKey
from reconciler.placement.deployers import may_be
from reconciler.placement.fleet import Fleet
from reconciler.placement.helm import helm_place
from reconciler.placement.ownership import owners_of, possible_owners
from reconciler.placement.places import EffectivePlace, effective_place
from tests.unit.placement.conftest import Build

LLAMA = ResourceKey(cluster="prod", namespace="llm", kind="Deployment", name="llama")
DEPLOYMENT = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: llama}\nspec: {replicas: 1}\n"
REPLICAS = ("spec", "replicas")
REMOTE = "https://github.com/acme/fleet.git"
PROD = {"prod": ["prod/**"]}
BASE = {"base/kustomization.yaml": "resources: [llama.yaml]\n", "base/llama.yaml": DEPLOYMENT}
OVERLAY = {"prod/kustomization.yaml": "namespace: llm\nresources: [../base]\n"}


def held(fleet: Fleet, key: ResourceKey = LLAMA) -> str:
    """Why a count has no place; empty where it has."""
    found = effective_place(fleet, key)
    return "" if isinstance(found, EffectivePlace) else str(found)


@pytest.mark.parametrize(
    "address",
    [
        "https://github.com/acme/fleet//base",
        "https://github.com/acme/fleet//base?ref=main",
        "git@github.com:acme/fleet.git//base",
        "github.com/acme/fleet/base?ref=v1",
        "https://raw.githubusercontent.com/acme/fleet/main/base/llama.yaml",
    ],
)
def test_a_base_that_is_fetched_from_this_very_repository_is_built_of_it(build: Build, address: str) -> None:
    other = {"trial/kustomization.yaml": f"namespace: trial\nresources: ['{address}']\n"}
    assert held(build({**BASE, **OVERLAY}, PROD, remote=REMOTE)) == ""
    fleet = build({**BASE, **OVERLAY, **other}, PROD, remote=REMOTE)
    assert held(fleet).startswith("base/llama.yaml is also built into trial")
    assert not fleet.findings


def test_another_commit_of_this_repository_is_not_what_is_here(build: Build) -> None:
    text = "namespace: llm\nresources: ['https://github.com/acme/fleet//base?ref=v1.2.0']\n"
    fleet = build({**BASE, "prod/kustomization.yaml": text}, PROD, remote=REMOTE)
    assert held(fleet).startswith('it is built of "v1.2.0" of this repository, and not of this commit')


def test_a_base_that_is_fetched_from_elsewhere_is_not_read(build: Build) -> None:
    text = "namespace: llm\nresources: ['https://github.com/other/fleets//base', ../base]\n"
    fleet = build({**BASE, "prod/kustomization.yaml": text}, PROD, remote=REMOTE)
    assert [each.message for each in fleet.findings] == [
        '"https://github.com/other/fleets//base" is not read: nothing is fetched'
    ]
    assert held(fleet) == ""


PATCHED = "namespace: llm\nresources: [../base]\n{}\n"
FETCHED = "https://example.com/patch.yaml"


@pytest.mark.parametrize(
    ("rule", "is_held"),
    [
        (f"patches: [{{path: '{FETCHED}'}}]", True),
        (f"patches: [{{path: '{FETCHED}', target: {{kind: Deployment}}}}]", True),
        (f"patches: [{{path: '{FETCHED}', target: {{kind: Service}}}}]", False),
        (f"patchesStrategicMerge: ['{FETCHED}']", True),
    ],
)
def test_a_patch_that_is_fetched_is_no_mistake_and_may_change_what_it_is_for(
    build: Build, rule: str, *, is_held: bool
) -> None:
    fleet = build({**BASE, "prod/kustomization.yaml": PATCHED.format(rule)}, PROD)
    assert [each.message for each in fleet.findings] == [f'the patch at "{FETCHED}" is not read: nothing is fetched']
    assert held(fleet).startswith("a patch that is not read may change it") is is_held


def test_a_patch_that_is_only_a_name_is_reported(build: Build) -> None:
    fleet = build({**BASE, "prod/kustomization.yaml": PATCHED.format("patches: [patch.yaml]")}, PROD)
    (finding,) = fleet.findings
    assert finding.message == 'expected a mapping with a path or a patch, got "patch.yaml"'


def test_of_two_equal_keys_in_a_kustomization_the_last_one_counts(build: Build) -> None:
    text = "namespace: other\nresources: [../base]\nnamespace: llm\n"
    assert held(build({**BASE, "prod/kustomization.yaml": text}, PROD)) == ""


SCALER = """\
apiVersion: KIND
metadata: {name: "${APP}"}
spec:
  minReplicaCount: ${LEAST:=0}
  scaleTargetRef: {name: "${APP}"}
"""
KEDA = SCALER.replace("KIND", "keda.sh/v1alpha1\nkind: ScaledObject")
AIBRIX = SCALER.replace("KIND", "autoscaling.aibrix.ai/v1alpha1\nkind: PodAutoscaler")
FLUX = """\
apiVersion: kustomize.toolkit.fluxcd.io/v1
kind: Kustomization
metadata: {name: NAME, namespace: flux-system}
spec:
  path: ./app
  targetNamespace: llm
  sourceRef: {kind: GitRepository, name: flux-system}
"""


@pytest.mark.parametrize("scaler", [KEDA, AIBRIX])
@pytest.mark.parametrize("source", ["{kind: ConfigMap, name: vars}", "{kind: Secret, name: vars}"])
def test_an_owner_whose_target_is_filled_in_from_elsewhere_may_own_all_of_its_namespace(
    build: Build, scaler: str, source: str
) -> None:
    files = {
        "app/llama.yaml": DEPLOYMENT,
        "app/scaler.yaml": scaler,
        "cluster/app.yaml": FLUX.replace("NAME", "app") + f"  postBuild: {{substituteFrom: [{source}]}}\n",
    }
    (owner,) = owners_of(build(files), LLAMA, REPLICAS)
    assert owner.reason.endswith("${APP}: its target is filled in by a template")
    assert not owner.is_autoscaler


@pytest.mark.parametrize(
    ("name", "is_owner"), [("${APP}", True), ("${APP}-decode", False), ("{{ .app }}", True), ("ll${X:=ama}", True)]
)
def test_an_owner_whose_target_is_a_template_may_own_what_its_name_may_become(
    build: Build, name: str, *, is_owner: bool
) -> None:
    files = {"prod/llama.yaml": DEPLOYMENT, "prod/scaler.yaml": KEDA.replace('"${APP}"', f'"{name}"')}
    key = ResourceKey(cluster="prod", namespace="default", kind="Deployment", name="llama")
    assert bool(list(possible_owners(build(files), key))) is is_owner


def test_an_owner_all_of_whose_target_is_filled_in_may_own_anything(build: Build) -> None:
    scaler = KEDA.replace('scaleTargetRef: {name: "${APP}"}', "scaleTargetRef: ${TARGET}")
    files = {"prod/llama.yaml": DEPLOYMENT, "prod/scaler.yaml": scaler}
    key = ResourceKey(cluster="prod", namespace="default", kind="Deployment", name="llama")
    assert len(list(possible_owners(build(files), key))) == 1


SET = """\
apiVersion: argoproj.io/v1alpha1
kind: ApplicationSet
metadata: {name: llama, namespace: argocd}
spec:
  goTemplate: true
  generators: GENERATORS
  template:
    metadata: {name: "{{ .path.basename }}"}
    spec:
      source: {repoURL: "https://github.com/acme/fleet", path: PATH, targetRevision: HEAD}
      destination: {server: "https://kubernetes.default.svc", namespace: llm}
"""
IGNORED = "ignoreDifferences: [{group: apps, kind: Deployment, jsonPointers: [/spec/replicas]}]"
GIT = "git: {repoURL: 'https://github.com/acme/fleet', directories: [{path: 'apps/*'}]}"


def made_by(generators: str, path: str = '"{{ .path.path }}"') -> str:
    """An ApplicationSet with these generators."""
    return SET.replace("GENERATORS", f"[{{{generators}}}]").replace("PATH", path)


@pytest.mark.parametrize(
    "text",
    [
        made_by("clusters: {}", "apps/llama") + f"      {IGNORED}\n",
        made_by(f"clusters: {{template: {{spec: {{{IGNORED}}}}}}}", "apps/llama"),
        made_by(f"{GIT[:-1]}, template: {{spec: {{{IGNORED}}}}}}}"),
        made_by(GIT) + f"  templatePatch: |\n    spec:\n      {IGNORED}\n",
        made_by(GIT) + f"  templatePatch: |\n    {{{{- if .x }}}}\n    spec:\n      {IGNORED}\n    {{{{- end }}}}\n",
        made_by(f"matrix: {{generators: [{{{GIT}}}, {{clusters: {{}}}}]}}") + f"      {IGNORED}\n",
    ],
    ids=["clusters", "clusters-override", "git-override", "patch", "patch-template", "matrix"],
)
def test_what_a_set_ignores_is_heeded_wherever_it_says_so(build: Build, text: str) -> None:
    fleet = build({"apps/llama/llama.yaml": DEPLOYMENT, "argocd/set.yaml": text})
    (key,) = (key for key in fleet.objects if key.kind == "Deployment")
    owners = [str(owner) for owner in owners_of(fleet, key, REPLICAS)]
    assert any("ignore" in owner for owner in owners), owners
    assert not list(owners_of(build({"apps/llama/llama.yaml": DEPLOYMENT}), key, REPLICAS))


def test_the_same_objects_of_two_deployers_are_built_once_and_reported(build: Build) -> None:
    files = {
        "app/llama.yaml": DEPLOYMENT,
        "cluster/a.yaml": FLUX.replace("NAME", "a"),
        "cluster/b.yaml": FLUX.replace("NAME", "b"),
    }
    fleet = build(files)
    assert held(fleet) == ""
    (finding,) = fleet.findings
    said = 'Kustomization flux-system/b deploys "app" just as Kustomization flux-system/a does: keep one'
    assert (finding.place.path, finding.message) == ("cluster/b.yaml", said)


@pytest.mark.parametrize(
    "more",
    [
        "  kubeConfig: {secretRef: {name: west}}\n",
        "  patches: [{target: {kind: Deployment}, patch: '[{op: add, path: /metadata/labels, value: {a: b}}]'}]\n",
        "  ignore: [{paths: [/spec/replicas]}]\n",
    ],
)
def test_what_two_deployers_do_not_make_alike_is_built_by_both(build: Build, more: str) -> None:
    files = {
        "app/llama.yaml": DEPLOYMENT,
        "cluster/a.yaml": FLUX.replace("NAME", "a"),
        "cluster/b.yaml": FLUX.replace("NAME", "b") + more,
    }
    assert len(build(files).objects[LLAMA]) == 2


def test_one_directory_in_two_namespaces_is_two_sets_of_objects(build: Build) -> None:
    files = {
        "app/llama.yaml": DEPLOYMENT,
        "cluster/a.yaml": FLUX.replace("NAME", "a"),
        "cluster/b.yaml": FLUX.replace("NAME", "b").replace(": llm", ": trial"),
    }
    assert held(build(files)).startswith("a change here would also change prod/trial/Deployment/llama")


@pytest.mark.parametrize("clusters", [PROD, {"prod": ["**"]}])
@pytest.mark.parametrize(
    ("generators", "path"),
    [
        ("clusters: {}", "base"),
        ("clusters: {}", '"{{.values.folder}}ase"'),
        (f"matrix: {{generators: [{{{GIT.replace('apps/*', 'base')}}}, {{clusters: {{}}}}]}}", '"{{ .path.path }}"'),
    ],
)
def test_a_base_that_a_set_deploys_for_every_cluster_is_not_edited(
    build: Build, clusters: dict[str, list[str]], generators: str, path: str
) -> None:
    text = made_by(generators, path).replace("https://kubernetes.default.svc", "{{ .server }}")
    fleet = build({**BASE, **OVERLAY, "argocd/set.yaml": text}, clusters)
    assert "base/llama.yaml is also built into base (ApplicationSet argocd/llama, argocd/set.yaml)" in held(fleet)


def test_an_overlay_that_a_set_deploys_for_its_cluster_is_that_clusters_own(build: Build) -> None:
    text = made_by("clusters: {}", '"{{ .name }}"').replace("https://kubernetes.default.svc", "{{ .server }}")
    assert held(build({**BASE, **OVERLAY, "argocd/set.yaml": text}, PROD)) == ""
    named = text.replace('path: "{{ .name }}"', "path: prod")
    assert held(build({**BASE, **OVERLAY, "argocd/set.yaml": named}, PROD)) == ""
    inner = {f"clusters/prod/{path}": body for path, body in BASE.items()}
    inner["clusters/prod/kustomization.yaml"] = "namespace: llm\nresources: [base]\n"
    parted = text.replace('path: "{{ .name }}"', "path: 'clusters/{{ .name }}'")
    assert held(build({**inner, "argocd/set.yaml": parted})) == ""


def test_a_chart_that_is_not_rendered_is_named_where_no_release_is(build: Build) -> None:
    text = "namespace: llm\nhelmCharts: [{name: llama, releaseName: llama}]\n"
    found = helm_place(build({"prod/kustomization.yaml": text}), LLAMA, "replicas")
    reason = "the objects of a chart are not read: no chart is rendered"
    assert f"prod/kustomization.yaml:2 may generate it ({reason})" in str(found)


@pytest.mark.parametrize("entry", ["../prod", ".", "../other"])
def test_a_circle_of_kustomizations_is_reported(build: Build, entry: str) -> None:
    files = {
        "prod/kustomization.yaml": f"namespace: llm\nresources: [{entry}, llama.yaml]\n",
        "prod/llama.yaml": DEPLOYMENT,
        "other/kustomization.yaml": "resources: [../prod]\n",
    }
    fleet = build(files, {"prod": ["prod/**", "other/**"]})
    assert any("a cycle is never built" in str(finding) for finding in fleet.findings)
    assert "does not build" in held(fleet)


@pytest.mark.parametrize(
    ("text", "name", "expected"),
    [
        ("apps/llama", "apps/llama", True),
        ("./apps/llama/", "apps/llama", True),
        ("apps/llama", "apps/llama/x", False),
        ("apps/{{x}}", "apps/llama", True),
        ("apps/{{x}}/{{y}}", "apps/llama", False),
        ("{{x}}/llama", "apps/prod/llama", True),
        ("a{{x}}a", "a", False),
        ("${A}", "llama", True),
        ("", "llama", False),
        ("{{x}}a" * 1_000 + "b", "a" * 4_000, False),
    ],
)
def test_a_text_with_parameters_may_be_what_they_leave_room_for(text: str, name: str, *, expected: bool) -> None:
    assert may_be(text, name) is expected
