"""The manifests that run the job, built by the real Kustomize and judged as a cluster would."""

from pathlib import Path

import pytest
import yaml

from reconciler import __version__
from reconciler.config.environment import Environment, Flags
from reconciler.domain.shards import Shard
from reconciler.pipeline.init import InitRequest, Wishes, init
from tests.servers.desk import open_desk
from tests.servers.git_workshop import Workshop
from tests.servers.manifests import Manifest, build, objections, pod_spec_of, violations

BASE = Path(__file__).parents[2] / "templates" / "deploy" / "base"
PAGE = Path(__file__).parents[2] / ".github" / "docs" / "running.md"

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def objects() -> dict[str, Manifest]:
    """Kind -> object."""
    return {each["kind"]: each for each in build(BASE)}


def test_every_version_of_kubernetes_takes_what_is_built(objects: dict[str, Manifest]) -> None:
    assert set(objects) == {"Namespace", "ServiceAccount", "NetworkPolicy", "CronJob"}
    assert [words for each in objects.values() for words in objections(each)] == []


def test_a_wrong_manifest_is_found() -> None:
    wrong = {"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "a"}, "spec": {"schedule": 5}}
    assert len(objections(wrong)) == 10


def test_the_pod_keeps_to_the_restricted_standard(objects: dict[str, Manifest]) -> None:
    pod = pod_spec_of(objects["CronJob"])
    assert pod is not None
    assert list(violations(pod)) == []
    assert objects["Namespace"]["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"


def test_violations_are_found() -> None:
    container = {"name": "a", "securityContext": {"privileged": True}, "ports": [{"hostPort": 80}]}
    pod = {"containers": [container], "hostNetwork": True, "volumes": [{"name": "h", "hostPath": {"path": "/"}}]}
    words = ["hostNetwork", "volume h", "privileged", "allowPrivilegeEscalation"]
    assert list(violations(pod)) == [*words, "capabilities", "runAsNonRoot", "seccompProfile", "hostPort"]


def test_the_job_runs_alone_for_a_limited_time_and_cannot_touch_the_cluster(objects: dict[str, Manifest]) -> None:
    spec = objects["CronJob"]["spec"]
    pod = pod_spec_of(objects["CronJob"])
    assert pod is not None
    assert spec["concurrencyPolicy"] == "Forbid"
    assert 0 < spec["startingDeadlineSeconds"] < 600
    assert 0 < spec["jobTemplate"]["spec"]["activeDeadlineSeconds"] < 600, "shorter than the time between two runs"
    assert pod["automountServiceAccountToken"] is False
    assert objects["ServiceAccount"]["automountServiceAccountToken"] is False
    (container,) = pod["containers"]
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    assert {"cpu", "memory"} <= container["resources"]["requests"].keys()
    assert "memory" in container["resources"]["limits"]


def test_only_names_git_and_prometheus_can_be_reached(objects: dict[str, Manifest]) -> None:
    spec = objects["NetworkPolicy"]["spec"]
    assert set(spec["policyTypes"]) == {"Ingress", "Egress"}
    assert "ingress" not in spec
    ports = [(port["protocol"], port["port"]) for rule in spec["egress"] for port in rule["ports"]]
    assert ports == [("UDP", 53), ("TCP", 53), ("TCP", 443), ("TCP", 9090)]
    assert spec["egress"][-1]["to"] == [{"namespaceSelector": {}}], "Prometheus inside the cluster alone"


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("tool", ["", "argocd", "flux"])
def test_what_init_writes_is_built_and_taken(tool: str, template: Workshop, tmp_path: Path) -> None:
    desk = open_desk(template, tmp_path)
    desk.workshop.git("remote", "set-url", "origin", "git@github.com:acme/fleet.git")
    wishes = Wishes(cronjob=True, argocd=tool == "argocd", flux=tool == "flux")
    prometheus = "" if tool else "http://prometheus.monitoring.svc:9"  # not reached from here
    flags = Flags(repo=str(desk.workshop.clone), prometheus=prometheus)
    init(InitRequest(flags=flags, environment=Environment(), wishes=wishes, now_s=desk.now_s))
    folder = desk.workshop.clone / "reconciler"
    built = build(folder)
    assert [words for each in built for words in objections(each)] == []
    pods = {each["kind"]: pod for each in built if (pod := pod_spec_of(each)) is not None}
    assert list(pods) == ["CronJob"]
    assert list(violations(pods["CronJob"])) == []
    (container,) = pods["CronJob"]["containers"]
    environment = {each["name"]: each.get("value") for each in container["env"]}
    assert environment["RECONCILER_REPO"] == "https://github.com/acme/fleet.git"
    assert environment.get("RECONCILER_TRUSTED_ORIGINS") == (None if tool else "http://prometheus.monitoring.svc:9")
    assert container["image"].endswith(f"reconciler:{__version__}")
    (policy,) = (each for each in built if each["kind"] == "NetworkPolicy")
    own_port = [{"ports": [{"protocol": "TCP", "port": 9}]}]
    assert policy["spec"]["egress"][3:] == ([] if tool else own_port)
    if tool:
        (deployer,) = yaml.safe_load_all((folder / tool / "reconciler.yaml").read_text())
        spec = deployer["spec"]
        assert (spec["source"] if tool == "argocd" else spec)["path"] == "reconciler"


def patched(section: str, template: Workshop, tmp_path: Path) -> Manifest:
    """The CronJob of an overlay with the patches of a section of the page."""
    desk = open_desk(template, tmp_path)
    desk.workshop.git("remote", "set-url", "origin", "git@github.com:acme/fleet.git")
    flags = Flags(repo=str(desk.workshop.clone))
    init(InitRequest(flags=flags, environment=Environment(), wishes=Wishes(cronjob=True), now_s=desk.now_s))
    folder = desk.workshop.clone / "reconciler"
    patches = PAGE.read_text().partition(f"### {section}\n")[2].partition("```yaml\n")[2].partition("```")[0]
    overlay = folder / "kustomization.yaml"
    before = overlay.read_text()
    assert "patches:\n" in before
    overlay.write_text(before.replace("patches:\n", f"patches:\n{patches}"))
    return next(each for each in build(folder) if each["kind"] == "CronJob")


@pytest.mark.usefixtures("impatient")
def test_the_page_gives_the_job_a_github_app_in_place_of_a_token(template: Workshop, tmp_path: Path) -> None:
    pod = pod_spec_of(patched("A GitHub App", template, tmp_path))
    assert pod is not None
    names = {each["name"]: each.get("value") for each in pod["containers"][0]["env"]}
    assert "RECONCILER_FORGE_TOKEN_FILE" not in names
    assert names["RECONCILER_GITHUB_APP_KEY_FILE"] == "/var/run/secrets/reconciler/app-key"
    assert names["RECONCILER_GITHUB_APP_ID"] == "123456"


@pytest.mark.usefixtures("impatient")
def test_the_page_runs_a_shard_in_each_pod_of_an_indexed_job(template: Workshop, tmp_path: Path) -> None:
    made = patched("Several jobs for one fleet", template, tmp_path)
    assert objections(made) == []
    job, pod = made["spec"]["jobTemplate"]["spec"], pod_spec_of(made)
    assert pod is not None
    assert (job["completionMode"], job["backoffLimitPerIndex"]) == ("Indexed", 0)
    assert "backoffLimit" not in job
    arguments = pod["containers"][0]["args"]
    for index in range(job["completions"]):
        text = arguments[arguments.index("--shard") + 1].replace("$(JOB_COMPLETION_INDEX)", str(index))
        assert Shard.parse(text) == Shard(index=index, count=job["parallelism"])
