"""What init finds in a repository, what it writes of that, and what it leaves alone."""

import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from reconciler.config.environment import Environment, Flags
from reconciler.config.loading import check_settings
from reconciler.domain.settings import FILL_IN
from reconciler.errors import ConfigurationError
from reconciler.pipeline.addresses import is_loopback
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
    result = asked(desk, prometheus="http://10.9.9.9:9")
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
    assert cluster == {"name": "prod", "prometheus": {"url": "http://10.9.9.9:9"}}
    assert b"A100" in content


SERVICE = """\
apiVersion: v1
kind: Service
metadata: {name: prometheus, namespace: monitoring}
spec: {selector: {app: prometheus}, ports: [{port: 80}, {port: 9090}]}
---
kind: Service
metadata: {name: prometheus-node-exporter, namespace: monitoring}
spec: {selector: {app: node-exporter}, ports: [{port: 9100}]}
"""
OPERATED = """\
apiVersion: monitoring.coreos.com/v1
kind: Prometheus
metadata: {name: k8s, namespace: observability}
"""
CHART = """\
apiVersion: helm.toolkit.fluxcd.io/v2
kind: HelmRelease
metadata: {name: stack, namespace: flux-system}
spec: {targetNamespace: metrics, chart: {spec: {chart: kube-prometheus-stack}}}
"""
MONITOR = "apiVersion: monitoring.coreos.com/v1\nkind: ServiceMonitor\nmetadata: {name: vllm, namespace: monitoring}\n"


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize(
    ("manifest", "url"),
    [
        (SERVICE, "http://prometheus.monitoring:9090"),
        (OPERATED, "http://prometheus-operated.observability:9090"),
        (CHART, "http://prometheus-operated.metrics:9090"),
        (MONITOR, "http://prometheus-operated.monitoring:9090"),
        (MONITOR + "---\n" + OPERATED, "http://prometheus-operated.observability:9090"),
        (OPERATED + "---\n" + OPERATED.replace("observability", "other"), FILL_IN),
        ("kind: ConfigMap\n", FILL_IN),
    ],
    ids=["service", "operator", "chart", "monitor", "the surest", "several", "nothing"],
)
def test_no_loopback_address_is_written(desk: Desk, manifest: str, url: str) -> None:
    root = unconfigured(desk)
    desk.write("monitoring.yaml", manifest)
    desk.workshop.git("remote", "set-url", "origin", "https://git.example.com/acme/fleet.git")
    result = asked(
        desk, prometheus="http://127.0.0.1:9", wishes=Wishes(github_action=True, gitlab_ci=True, cronjob=True)
    )
    (cluster,) = yaml.safe_load((root / "reconciler.yaml").read_bytes())["clusters"]
    assert cluster["prometheus"]["url"] == url
    assert result.address is not None
    assert result.address.is_found == (url != FILL_IN)
    written = {file.path: (root / file.path).read_text() for file, _ in result.files}
    assert not [path for path, text in written.items() if "127.0.0.1" in text]
    workflow = yaml.safe_load(written[".github/workflows/reconciler.yml"])
    assert workflow["jobs"]["run"]["runs-on"] == ["self-hosted", "linux"]
    assert workflow["concurrency"]["group"].endswith("&& github.ref || 'run' }}"), "a dispatch waits for the schedule"


@pytest.mark.usefixtures("impatient")
def test_a_job_gets_the_addresses_that_an_existing_configuration_has(desk: Desk) -> None:
    root = unconfigured(desk)
    desk.workshop.git("remote", "set-url", "origin", "https://git.example.com/acme/fleet.git")
    told = 'prometheus: {url: "http://prometheus.monitoring:9091"}'
    head = "apiVersion: reconciler.io/v1alpha1\nkind: Configuration\n"
    (root / "reconciler.yaml").write_text(f"{head}clusters:\n  - name: prod\n    {told}\n")
    asked(desk, prometheus="http://127.0.0.1:9", wishes=Wishes(cronjob=True))
    (overlay,) = (root / "reconciler").glob("kustomization.yaml")
    text = overlay.read_text()
    assert "RECONCILER_TRUSTED_ORIGINS" in text
    assert '"http://prometheus.monitoring:9091"' in text
    assert "port: 9091" in text
    assert "127.0.0.1" not in text


@pytest.mark.parametrize("host", ["127.0.0.1", "127.9.9.9", "localhost", "LOCALHOST.", "[::1]", "a.localhost"])
def test_loopback_is_known_in_every_spelling(host: str) -> None:
    assert is_loopback(f"http://{host}:9090/x")
    assert not is_loopback("http://prometheus.monitoring:9090")


@pytest.mark.usefixtures("impatient")
def test_an_address_to_fill_in_is_refused_with_its_line_and_a_flag_gives_another_for_now(desk: Desk) -> None:
    root = unconfigured(desk)
    asked(desk, prometheus="http://127.0.0.1:9")
    content = (root / "reconciler.yaml").read_bytes()

    def findings(**flags: str) -> list[str]:
        found = check_settings(
            repository_file=content,
            read_repository_file=lambda _: None,
            flags=Flags(**flags),  # type: ignore[arg-type]  # texts alone
            environment=Environment(),
        )
        return [str(each) for each in found]

    (found,) = findings()
    assert found.startswith("reconciler.yaml:")
    assert "expected the address that a job reaches it by, got http://fill-in.invalid: fill it in" in found
    assert findings(prometheus="http://127.0.0.1:9") == []


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize(
    ("owners", "line"),
    [
        ("", "# 3 namespaces have no owners in CODEOWNERS: where all merges by itself, one pull request a cluster"),
        ("* @acme/sre", "# 3 namespaces have the same owners: where all merges by itself, one pull request a cluster"),
        (
            "*  @acme/sre # all\n/clusters/prod/chat/ @acme/chat\n",
            "  groupBy: [cluster, namespace] # CODEOWNERS gives batch to @acme/sre and chat to @acme/chat",
        ),
    ],
)
def test_groups_follow_the_owners_of_files(desk: Desk, owners: str, line: str) -> None:
    root = unconfigured(desk)
    if owners:
        (root / "CODEOWNERS").write_text(owners, encoding="utf-8")
        desk.workshop.commit("Say who owns what")
    asked(desk, prometheus="http://127.0.0.1:9")
    assert line in (root / "reconciler.yaml").read_text(encoding="utf-8")


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


DIGEST = f"sha256:{'5' * 64}"
OWN = "registry.example.com:5000/ml/reconciler"


@pytest.mark.parametrize(
    ("image", "name", "kept"),
    [
        (f"{OWN}@{DIGEST}", OWN, {"digest": DIGEST}),
        ("localhost:5000/reconciler:dev", "localhost:5000/reconciler", {"newTag": "dev"}),
        (f"mirror/reconciler:1.2@{DIGEST}", "mirror/reconciler", {"digest": DIGEST}),
        ("mirror/reconciler", "mirror/reconciler", {"newTag": "latest"}),
    ],
)
def test_a_mirror_is_named_in_every_file(desk: Desk, image: str, name: str, kept: dict[str, str]) -> None:
    unconfigured(desk)
    desk.workshop.git("remote", "set-url", "origin", "https://git.example.com/acme/fleet.git")
    action = f"acme/reconciler@{'a' * 40}"
    wishes = Wishes(github_action=True, gitlab_ci=True, cronjob=True, image=image, action=action)
    asked(desk, wishes=wishes)
    root = desk.workshop.clone
    (entry,) = yaml.safe_load((root / "reconciler/kustomization.yaml").read_text())["images"]
    assert entry == {"name": "reconciler", "newName": name, **kept}
    workflow = yaml.safe_load((root / ".github/workflows/reconciler.yml").read_text())
    used = [step["uses"] for job in workflow["jobs"].values() for step in job["steps"]]
    assert used.count(action) == 3
    assert not [each for each in used if "inference-reconciler" in each]
    pipeline = yaml.safe_load((root / ".gitlab/reconciler.yml").read_text())
    assert pipeline[".reconciler"]["image"]["name"].startswith(name)


@pytest.mark.parametrize(
    ("wishes", "words"),
    [
        (Wishes(image="reconciler@sha256:12"), "--image: expected NAME@sha256:DIGEST"),
        (Wishes(image="re conciler"), "--image"),
        (Wishes(action="reconciler@v1"), "--action: expected OWNER/REPOSITORY@REF"),
        (Wishes(action="a/b"), "--action"),
        (Wishes(action="a/b@v1\n      - run: evil"), "--action"),
    ],
)
def test_what_names_no_mirror_is_refused(desk: Desk, wishes: Wishes, words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        asked(desk, wishes=wishes)
