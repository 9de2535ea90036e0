"""An image of one's own: built, pushed, named by its digest, and what the job that `init` writes pulls."""

import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from filecmp import dircmp
from pathlib import Path

import pytest

from tests.servers.container import PRIVILEGE, ROOT, Image, build_image, why_absent
from tests.servers.fleet import Fleet
from tests.servers.manifests import build, pod_spec_of
from tests.servers.newcomer import newcomer_on
from tests.servers.prometheus import free_port, wait_until_ready

TOOLS = ("buildah", "docker-registry")
ABSENT = f"needs Debian's {' and '.join(TOOLS)}" if not all(map(shutil.which, TOOLS)) else why_absent()
pytestmark = [pytest.mark.integration, pytest.mark.skipif(bool(ABSENT), reason=ABSENT)]

CONFIGURATION = """\
version: 0.1
storage: {filesystem: {rootdirectory: FOLDER}}
http: {addr: "127.0.0.1:PORT"}
"""
SAID = ("ENV ", "WORKDIR ", "USER ", "ENTRYPOINT ", "CMD ")


@contextmanager
def serve_images(folder: Path) -> Iterator[str]:
    """Where a registry is served that keeps its images below `folder`."""
    folder.mkdir()
    port = free_port()
    configuration = folder / "config.yml"
    configuration.write_text(CONFIGURATION.replace("FOLDER", str(folder / "kept")).replace("PORT", str(port)))
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(["docker-registry", "serve", str(configuration)], stdout=log, stderr=log)
        try:
            wait_until_ready(f"http://127.0.0.1:{port}/v2/", process)
            yield f"127.0.0.1:{port}"
        finally:
            process.terminate()
            process.wait(timeout=30)


@dataclass(frozen=True, slots=True, kw_only=True)
class Builder:
    """What builds, pushes and pulls images, with a storage of its own, which belongs to root."""

    folder: Path

    def run(self, *arguments: str) -> str:
        """What it prints."""
        storage = (
            "--root",
            str(self.folder / "root"),
            "--runroot",
            str(self.folder / "run"),
            "--storage-driver",
            "vfs",
        )
        return as_root("buildah", *storage, *arguments)


@contextmanager
def open_builder(folder: Path) -> Iterator[Builder]:
    """One that leaves nothing."""
    try:
        yield Builder(folder=folder)
    finally:
        as_root("rm", "-rf", str(folder))


def as_root(*command: str) -> str:
    """What a command prints."""
    done = subprocess.run([*PRIVILEGE, *command], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_the_job_pulls_by_digest_what_was_built_and_pushed(make_fleet: Callable[..., Fleet], tmp_path: Path) -> None:
    """The base image is on the internet: of the last stage of the Dockerfile nothing is built but what it copies."""
    built, context = build_image(tmp_path / "wheel"), tmp_path / "context"
    context.mkdir()
    built.installed.rename(context / "reconciler")
    last = (ROOT / "Dockerfile").read_text().rpartition("\nFROM ")[2].splitlines()
    lines = ("FROM scratch", "COPY reconciler /opt/reconciler", *(line for line in last if line.startswith(SAID)))
    (context / "Dockerfile").write_text("\n".join(lines))
    person = newcomer_on(make_fleet("github"), tmp_path / "newcomer")
    name, digest = "platform/reconciler", tmp_path / "digest"
    with serve_images(tmp_path / "registry") as host, open_builder(tmp_path / "ours") as ours:
        ours.run("build", "-t", f"{host}/{name}:dev", str(context))
        ours.run("push", "--tls-verify=false", "--digestfile", str(digest), f"{host}/{name}:dev")
        image = f"{host}/{name}@{digest.read_text()}"
        person.type(f"reconciler init --prometheus {person.fleet.prometheus} --cronjob --image {image}")
        (pod,) = filter(None, map(pod_spec_of, build(person.clone / "reconciler")))
        (container,) = pod["containers"]
        assert container["image"] == image
        with open_builder(tmp_path / "theirs") as theirs:
            pulled = theirs.run("from", "--tls-verify=false", image)
            told = theirs.run("inspect", "--format", "{{.OCIv1.Config.User}} {{.OCIv1.Config.Entrypoint}}", pulled)
            as_root("cp", "-r", f"{theirs.run('mount', pulled)}/opt/reconciler", str(tmp_path))
    as_root("chmod", "-R", "a+rX", str(tmp_path / "reconciler"))
    assert told == f"65532:65532 [{built.entry_point[0]}]"
    found = Image(installed=tmp_path / "reconciler")
    compared = dircmp(context / "reconciler", found.installed)
    assert (compared.left_only, compared.right_only, compared.diff_files) == ([], [], [])
    done = found.run([*found.entry_point, "--version"], {}, {"forge-token": ""}, tmp_path / "container")
    assert done.returncode == 0, done.stderr
