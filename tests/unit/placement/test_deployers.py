"""Who deploys what: each of them is followed once, under the name that it has in the cluster."""

import pytest

from reconciler.placement.fleet import Fleet
from tests.unit.placement.conftest import Build

DEPLOYMENT = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: llama}\nspec: {replicas: 1}\n"


def flux(name: str, path: str, more: str = "") -> str:
    """A Flux Kustomization of this repository."""
    head = f"apiVersion: kustomize.toolkit.fluxcd.io/v1\nkind: Kustomization\nmetadata: {{name: {name}}}\n"
    return f"{head}spec:\n  path: {path}\n  sourceRef: {{kind: GitRepository, name: flux-system}}\n{more}"


def test_a_second_one_of_a_name_is_reported(build: Build) -> None:
    files = {
        "east/apps.yaml": flux("apps", "./apps/east"),
        "west/apps.yaml": flux("apps", "./apps/west"),
        "apps/east/llama.yaml": DEPLOYMENT,
        "apps/west/llama.yaml": DEPLOYMENT,
    }
    (finding,) = build(files).findings
    assert finding.place.path == "west/apps.yaml"
    assert finding.message == ("Kustomization default/apps exists already with another path: this one is not followed")


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


def source(name: str, url: str, kind: str = "GitRepository") -> str:
    """What Flux deploys from."""
    head = f"apiVersion: source.toolkit.fluxcd.io/v1\nkind: {kind}\n"
    return f"{head}metadata: {{name: {name}, namespace: flux-system}}\nspec: {{url: {url}}}\n"


def roots_of(fleet: Fleet) -> set[str]:
    """What builds the Deployments of a fleet."""
    return {str(each.root) for each in fleet.of_kinds("prod", ("Deployment",))}


OURS = "https://github.com/acme/fleet"
LLAMA = {"apps/llama/llama.yaml": DEPLOYMENT}
FREE = {"apps/llama/llama.yaml"}
DEPLOYED = {"apps/llama (Kustomization default/llama)"}


@pytest.mark.parametrize(
    ("reference", "url", "remote", "expected"),
    [
        ("kind: GitRepository, name: flux-system", "", "", DEPLOYED),
        ("name: flux-system", "", "", DEPLOYED),
        ("kind: GitRepository, name: fleet", OURS, OURS, DEPLOYED),
        ("kind: GitRepository, name: fleet", "ssh://git@github.com/acme/fleet.git", OURS, DEPLOYED),
        ("kind: GitRepository, name: fleet", "https://mirror.example.com/git/fleet", OURS, DEPLOYED),
        ("kind: GitRepository, name: fleet", "https://github.com/acme/fleet", "/srv/git/fleet.git", DEPLOYED),
        ("kind: GitRepository, name: fleet", "", "", DEPLOYED),
        ("kind: GitRepository, name: flux-system", "https://github.com/acme/other", OURS, FREE),
        ("kind: GitRepository, name: podinfo", "https://github.com/stefanprodan/podinfo", OURS, FREE),
        ("kind: OCIRepository, name: flux-system", "", "", DEPLOYED),
        ("kind: OCIRepository, name: all", "oci://ghcr.io/acme/fleet/manifests", OURS, DEPLOYED),
        ("kind: OCIRepository, name: podinfo", "oci://ghcr.io/stefanprodan/podinfo", OURS, FREE),
        ("kind: Bucket, name: minio", "", "", FREE),
    ],
)
def test_only_what_is_deployed_from_here_is_followed(
    build: Build, reference: str, url: str, remote: str, expected: set[str]
) -> None:
    deployer = flux("llama", "./apps/llama").replace("kind: GitRepository, name: flux-system", reference)
    kind, name = ("GitRepository", *reference.replace("kind: ", "").replace("name: ", "").split(", "))[-2:]
    declared = {"sources.yaml": source(name, url, kind)} if url else {}
    fleet = build({**LLAMA, **declared, "llama.yaml": deployer}, remote=remote)
    assert roots_of(fleet) == expected
    told = " is another repository: its apps/llama is not the one here"
    assert any(told in str(each) for each in fleet.findings) == (expected == FREE)


def test_another_source_than_the_one_that_deploys_the_cluster_is_another_repository(build: Build) -> None:
    files = {
        **LLAMA,
        "cluster/all.yaml": flux("all", "./cluster").replace("flux-system}", "fleet}"),
        "cluster/llama.yaml": flux("llama", "./apps/llama").replace("flux-system}", "podinfo}"),
        "cluster/sources.yaml": source("podinfo", "https://github.com/stefanprodan/podinfo"),
    }
    assert roots_of(build(files)) == FREE
    own = files | {"cluster/own.yaml": source("fleet", "ssh://git@github.com/stefanprodan/podinfo")}
    assert roots_of(build(own)) == DEPLOYED


@pytest.mark.parametrize("url", ["https://github.com/stefanprodan/podinfo", ""])
def test_all_of_another_repository_is_not_built_as_this_one(build: Build, url: str) -> None:
    deployer = flux("podinfo", "./").replace("  path: ./\n", "").replace("flux-system}", "podinfo}")
    declared = {"sources.yaml": source("podinfo", url)} if url else {}
    fleet = build({**LLAMA, **declared, "podinfo.yaml": deployer}, remote=OURS)
    assert roots_of(fleet) == FREE
    untold = (
        "podinfo.yaml:5: note: spec.sourceRef: GitRepository podinfo would deploy all of this repository, "
        "if it is this one: it is not followed"
    )
    assert [str(each) for each in fleet.findings] == ([] if url else [untold])


def test_who_deploys_all_leaves_what_others_deploy_of_it(build: Build) -> None:
    everything = flux("all", "./").replace("  path: ./\n", "")
    fleet = build({**LLAMA, "all.yaml": everything, "llama.yaml": flux("llama", "./apps/llama")})
    assert roots_of(fleet) == DEPLOYED


GENERATOR = """\
apiVersion: source.extensions.fluxcd.io/v1beta1
kind: ArtifactGenerator
metadata: {name: flux-system, namespace: flux-system}
spec:
  sources: [{alias: monorepo, kind: GitRepository, name: flux-system}]
  artifacts: [{name: fleet, copy: [{from: "@monorepo/apps/base/**", to: "@artifact/base/"}, {from: FROM, to: TO}]}]
"""
ARTIFACT = flux("llama", "./llama", "  targetNamespace: llm\n").replace(
    "kind: GitRepository, name: flux-system", "kind: ExternalArtifact, name: fleet, namespace: flux-system"
)


@pytest.mark.parametrize(
    ("origin", "target"),
    [
        ("@monorepo/apps/llama/**", "@artifact/llama/"),
        ("@monorepo/apps/llama/", "@artifact/llama/"),
        ("@monorepo/apps/llama", "@artifact/"),
    ],
)
def test_an_artifact_is_followed_to_what_it_is_made_of(build: Build, origin: str, target: str) -> None:
    generator = GENERATOR.replace("FROM", f'"{origin}"').replace("TO", f'"{target}"')
    fleet = build({**LLAMA, "artifacts.yaml": generator, "llama.yaml": ARTIFACT})
    assert roots_of(fleet) == DEPLOYED
    assert not fleet.findings


def test_an_image_may_hold_a_directory_of_the_repository(build: Build) -> None:
    deployer = flux("llama", "./llama").replace("kind: GitRepository", "kind: OCIRepository")
    assert roots_of(build({**LLAMA, "llama.yaml": deployer})) == DEPLOYED


@pytest.mark.parametrize(
    "files",
    [
        {},
        {"artifacts.yaml": GENERATOR.replace("FROM", '"@monorepo/apps/*/llama.yaml"').replace("TO", '"@artifact/"')},
        {"artifacts.yaml": GENERATOR.replace("FROM", '"@monorepo/x/llama/**"').replace("TO", '"@artifact/llama"')},
    ],
)
def test_an_artifact_that_cannot_be_followed_is_reported(build: Build, files: dict[str, str]) -> None:
    (finding,) = build({**LLAMA, **files, "llama.yaml": ARTIFACT}).findings
    assert str(finding) == (
        "llama.yaml:6: warning: spec.sourceRef: the content of ExternalArtifact flux-system/fleet is not known here: "
        "deployments from it are not read"
    )


def test_an_application_of_another_repository_deploys_nothing_of_this_one(build: Build) -> None:
    application = (
        "apiVersion: argoproj.io/v1alpha1\nkind: Application\nmetadata: {name: llama}\n"
        "spec: {source: {repoURL: https://github.com/acme/other, path: apps/llama}, destination: {namespace: llm}}\n"
    )
    fleet = build({**LLAMA, "llama.yaml": application}, remote=OURS)
    assert roots_of(fleet) == FREE
    assert "its repoURL is another repository: its apps/llama is not the one here" in str(fleet.findings)
