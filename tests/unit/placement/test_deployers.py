"""Who deploys what: each of them is followed once, under the name that it has in the cluster."""

from tests.unit.placement.conftest import Build

DEPLOYMENT = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: llama}\nspec: {replicas: 1}\n"


def flux(name: str, path: str, more: str = "") -> str:
    """A Flux Kustomization of this repository."""
    head = f"apiVersion: kustomize.toolkit.fluxcd.io/v1\nkind: Kustomization\nmetadata: {{name: {name}}}\n"
    return f"{head}spec:\n  path: {path}\n  sourceRef: {{kind: GitRepository, name: flux-system}}\n{more}"


def test_a_second_one_of_a_name_is_told(build: Build) -> None:
    files = {
        "east/apps.yaml": flux("apps", "./apps/east"),
        "west/apps.yaml": flux("apps", "./apps/west"),
        "apps/east/llama.yaml": DEPLOYMENT,
        "apps/west/llama.yaml": DEPLOYMENT,
    }
    (finding,) = build(files).findings
    assert finding.place.path == "west/apps.yaml"
    assert finding.message == (
        "Kustomization default/apps is there already with another path: what this one deploys is not read"
    )


def test_what_a_patch_is_made_of_deploys_nothing(build: Build) -> None:
    files = {
        "cluster/kustomization.yaml": "namespace: flux-system\nresources: [apps.yaml]\npatches: [{path: patch.yaml}]\n",
        "cluster/apps.yaml": flux("apps", "./none"),
        "cluster/patch.yaml": flux("apps", "./apps"),
        "apps/llama.yaml": DEPLOYMENT,
    }
    fleet = build(files)
    assert [str(built.root) for found in fleet.objects.values() for built in found if built.key.name == "llama"] == [
        "apps (Kustomization flux-system/apps)"
    ]


def test_the_path_of_a_deployer_may_be_filled_in(build: Build) -> None:
    files = {
        "cluster/all.yaml": flux("all", "./fleet", "  postBuild: {substitute: {APP: llama}}\n"),
        "fleet/kustomization.yaml": "resources: [app.yaml]\n",
        "fleet/app.yaml": flux("'${APP}'", "./apps/${APP}"),
        "apps/llama/llama.yaml": DEPLOYMENT,
    }
    (built,) = (each for found in build(files).objects.values() for each in found if each.key.kind == "Deployment")
    assert str(built.root) == "apps/llama (Kustomization default/llama)"
