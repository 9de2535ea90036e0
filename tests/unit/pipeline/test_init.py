"""What init finds in a repository, what it writes of that, and what it leaves alone."""

import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from reconciler.config.environment import Environment, Flags
from reconciler.config.loading import check_settings
from reconciler.errors import ConfigurationError
from reconciler.pipeline.edits import is_untouched
from reconciler.pipeline.init import Fate, GeneratedFile, InitRequest, InitResult, Wishes, infer_clusters, init, look
from tests.servers.desk import NOW_S, Desk

ROOT = Path(__file__).parents[3]
APPLICATION = b"""\
apiVersion: argoproj.io/v1alpha1
kind: Application
metadata: {name: chat, namespace: argocd}
spec:
  source: {repoURL: https://github.com/acme/fleet, path: apps/chat}
  destination: {name: us-east, namespace: chat}
"""
FLUX = b"""\
apiVersion: kustomize.toolkit.fluxcd.io/v1
kind: Kustomization
metadata: {name: apps, namespace: flux-system}
spec: {path: ./apps/code, sourceRef: {kind: GitRepository, name: fleet}}
"""


def asked(desk: Desk, *, checks: bool = False, wishes: Wishes | None = None, **flags: str) -> InitResult:
    """Init in a person's clone, without a Prometheus."""
    return init(
        InitRequest(
            flags=Flags(repo=str(desk.workshop.clone), **flags),  # type: ignore[arg-type]  # texts alone are given
            environment=Environment(),
            wishes=wishes or Wishes(),
            now_s=NOW_S,
            checks=checks,
        )
    )


def unconfigured(desk: Desk) -> Path:
    """A clone in which nobody has written a configuration."""
    desk.workshop.git("rm", "-q", "reconciler.yaml")
    desk.workshop.commit("Nothing is configured")
    return desk.workshop.clone


def fates(result: InitResult) -> dict[str, Fate]:
    return {file.path: fate for file, fate in result.files}


def test_what_deploys_is_found() -> None:
    files = {"argo/chat.yaml": APPLICATION, "clusters/a/apps.yaml": FLUX, "apps/chat/kustomization.yaml": b"{}\n"}
    found = look({**files, "apps/code/a.yaml": b"a: 1\n"})
    assert [(each.name, each.directory, each.destination) for each in found.applications] == [
        ("chat", "apps/chat", "us-east")
    ]
    assert [(each.name, each.directory, each.source_name) for each in found.flux] == [("apps", "apps/code", "fleet")]
    assert found.overlays == ("apps/chat",)


def test_directories_of_clusters_are_clusters_with_what_they_deploy() -> None:
    files = {"clusters/a/apps.yaml": FLUX, "clusters/b/x.yaml": b"a: 1\n", "apps/code/a.yaml": b"a: 1\n"}
    first, second = infer_clusters(look(files))
    assert (first.name, [each.glob for each in first.include]) == ("a", ["clusters/a/**", "apps/code/**"])
    assert first.include[1].reason == "Kustomization apps deploys it (clusters/a/apps.yaml)"
    assert (second.name, [each.glob for each in second.include]) == ("b", ["clusters/b/**"])


def test_destinations_of_argo_cd_are_clusters() -> None:
    other = APPLICATION.replace(b"us-east", b"eu west").replace(b"apps/chat", b"apps/code")
    files = {"argo/a.yaml": APPLICATION, "argo/b.yaml": other, "apps/chat/a.yaml": b"", "apps/code/a.yaml": b""}
    clusters = infer_clusters(look(files))
    assert [(each.name, each.include[0].glob) for each in clusters] == [
        ("eu-west", "apps/code/**"),
        ("us-east", "apps/chat/**"),
    ]


def test_one_cluster_is_called_as_somebody_calls_it() -> None:
    assert [each.name for each in infer_clusters(look({}), "prod")] == ["prod"]
    assert [each.name for each in infer_clusters(look({}))] == ["default"]
    assert [each.name for each in infer_clusters(look({"argo/a.yaml": APPLICATION, "apps/chat/a.yaml": b""}))] == [
        "us-east"
    ]


@pytest.mark.usefixtures("impatient")
def test_the_configuration_is_valid_and_every_line_has_its_reason(desk: Desk) -> None:
    root = unconfigured(desk)
    result = asked(desk, prometheus="http://127.0.0.1:9")
    assert fates(result) == {"reconciler.yaml": Fate.CREATED}
    content = (root / "reconciler.yaml").read_bytes()
    found = check_settings(
        repository_file=content, read_repository_file=lambda _: None, flags=Flags(), environment=Environment()
    )
    assert found == ()
    facts = [line for line in content.decode().splitlines() if line.startswith((" ", "-")) and not line.endswith(":")]
    assert facts
    assert all(" # " in line for line in facts), facts
    (cluster,) = yaml.safe_load(content)["clusters"]
    assert cluster == {"name": "prod", "prometheus": {"url": "http://127.0.0.1:9"}}
    assert b"A100" in content


def test_what_somebody_configured_is_kept(desk: Desk) -> None:
    before = (desk.workshop.clone / "reconciler.yaml").read_bytes()
    assert fates(asked(desk)) == {}
    assert (desk.workshop.clone / "reconciler.yaml").read_bytes() == before


def test_a_second_init_changes_nothing(desk: Desk) -> None:
    unconfigured(desk)
    wishes = Wishes(github_action=True, gitlab_ci=True)
    asked(desk, wishes=wishes)
    again = asked(desk, wishes=wishes)
    assert set(fates(again).values()) == {Fate.UNCHANGED}
    assert not again.changes


def test_a_check_writes_nothing_and_says_what_it_would(desk: Desk) -> None:
    root = unconfigured(desk)
    result = asked(desk, checks=True, wishes=Wishes(github_action=True))
    assert set(fates(result).values()) == {Fate.CREATED}
    assert result.changes
    assert not (root / "reconciler.yaml").exists()
    assert not (root / ".github").exists()


def test_a_file_is_ours_until_somebody_changes_it(tmp_path: Path) -> None:
    file = GeneratedFile(path="a/b.yaml", text="x: 1\n")
    newer = GeneratedFile(path="a/b.yaml", text="x: 2\n")
    assert file.write(tmp_path) is Fate.CREATED
    assert is_untouched((tmp_path / "a/b.yaml").read_bytes())
    assert newer.write(tmp_path) is Fate.UPDATED
    assert newer.write(tmp_path) is Fate.UNCHANGED
    (tmp_path / "a/b.yaml").write_bytes((tmp_path / "a/b.yaml").read_bytes() + b"y: 1\n")
    assert GeneratedFile(path="a/b.yaml", text="x: 3\n").write(tmp_path) is Fate.KEPT
    assert (tmp_path / "a/b.yaml").read_bytes().endswith(b"x: 2\ny: 1\n")


def test_nothing_is_written_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("/tmp")
    with pytest.raises(ConfigurationError, match="a is a symbolic link, which is never written to"):
        GeneratedFile(path="a/b.yaml", text="x: 1\n").write(tmp_path)


@pytest.mark.parametrize(
    "wishes", [Wishes(argocd=True), Wishes(flux=True), Wishes(cronjob=True, argocd=True, flux=True)]
)
def test_wishes_that_do_not_go_together_are_refused(desk: Desk, wishes: Wishes) -> None:
    with pytest.raises(ConfigurationError, match="--argocd, --flux"):
        asked(desk, wishes=wishes)


def test_the_workflow_is_valid_and_has_no_hole(desk: Desk) -> None:
    root = unconfigured(desk)
    asked(desk, wishes=Wishes(github_action=True))
    workflow = root / ".github/workflows/reconciler.yml"
    run_tool("check-jsonschema", "--builtin-schema", "vendor.github-workflows", workflow)
    run_tool("zizmor", "--offline", "--strict-collection", "--quiet", workflow)


def test_the_pipeline_is_valid(desk: Desk) -> None:
    root = unconfigured(desk)
    asked(desk, wishes=Wishes(gitlab_ci=True))
    arguments = ("--builtin-schema", "vendor.gitlab-ci", "--data-transform", "gitlab-ci")
    run_tool("check-jsonschema", *arguments, root / ".gitlab/reconciler.yml")


def run_tool(name: str, *arguments: str | Path) -> None:
    """A tool of this environment must find nothing wrong."""
    command = [str(Path(sys.executable).parent / name), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
