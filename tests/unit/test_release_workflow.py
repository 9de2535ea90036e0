"""The release workflow's own commands, run as a runner runs them; what would leave this machine is recorded instead."""

import json
import os
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
RELEASE: Mapping[Any, Any] = yaml.safe_load((ROOT / ".github" / "workflows" / "release.yml").read_text())
VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
DIGEST = "sha256:" + "a" * 64
STUB = """\
#!{python}
import json, pathlib, sys
with open({log!r}, "a") as log:
    print(json.dumps([{name!r}, *sys.argv[1:]]), file=log)
if "inspect" in sys.argv:
    print('{{"digest": "{digest}"}}')
if {name!r} == "jq":
    print(json.loads(pathlib.Path(sys.argv[-1]).read_text())[json.loads(sys.argv[-2].removeprefix("."))])
"""


def script_of(job: str, beginning: str) -> str:
    """The commands of the job's step that begin like this."""
    (found,) = (step["run"] for step in RELEASE["jobs"][job]["steps"] if step.get("run", "").startswith(beginning))
    return str(found)


def run(script: str, cwd: Path, *, stubs: tuple[str, ...] = (), **environment: str) -> tuple[int, list[list[str]]]:
    """The exit code, and each call of a program that is only recorded."""
    binaries, log = cwd / "bin", cwd / "calls"
    binaries.mkdir(exist_ok=True)
    for name in stubs:
        text = STUB.format(python=sys.executable, log=str(log), name=name, digest=DIGEST)
        (binaries / name).write_text(text)
        (binaries / name).chmod(0o755)
    done = subprocess.run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script],
        cwd=cwd,
        env={"PATH": f"{binaries}:{Path(sys.executable).parent}:{os.environ['PATH']}", "HOME": str(cwd), **environment},
        capture_output=True,
        check=False,
        timeout=120,
    )
    calls = log.read_text().splitlines() if log.exists() else []
    return done.returncode, [json.loads(line) for line in calls]


@pytest.mark.parametrize(
    ("tag", "code"), [(f"v{VERSION}", 0), (VERSION, 1), (f"v{VERSION}.1", 1), ("v99.0.0", 1), (f"v{VERSION} -o x", 1)]
)
def test_a_tag_that_is_not_the_version_is_no_release(tmp_path: Path, tag: str, code: int) -> None:
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    assert run(script_of("gate", "test "), tmp_path, GITHUB_REF_NAME=tag)[0] == code


def test_the_wheel_that_is_built_is_the_one_that_is_signed_and_uploaded(tmp_path: Path) -> None:
    for name in ("reconciler", "templates", "policies", "tests/testdata/examples"):
        shutil.copytree(ROOT / name, tmp_path / name)
    for name in ("pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md", "Makefile"):
        shutil.copy(ROOT / name, tmp_path)
    assert run(script_of("wheel", "python -m build"), tmp_path)[0] == 0
    wheel = f"inference_reconciler-{VERSION}-py3-none-any.whl"
    assert [path.name for path in (tmp_path / "dist").iterdir()] == [wheel]
    for beginning in ("python -m twine check", "python -m pypi_attestations", "python -m twine upload"):
        script = script_of("wheel", beginning).replace("python -m ", "recorded ")  # neither is installed here
        assert run(script, tmp_path, stubs=("recorded",))[0] == 0
    calls = [json.loads(line) for line in (tmp_path / "calls").read_text().splitlines()]
    assert [(call[1], call[2], call[-1]) for call in calls] == [
        ("twine", "check", f"dist/{wheel}"),
        ("pypi_attestations", "sign", f"dist/{wheel}"),
        ("twine", "upload", f"dist/{wheel}"),
    ]
    assert "--attestations" in calls[-1]


def test_the_images_that_are_pushed_are_joined_in_one_that_is_signed(tmp_path: Path) -> None:
    repository = {"GITHUB_REPOSITORY": "Acme/Reconciler", "GITHUB_REF_NAME": "v1.2.3"}
    of_each = RELEASE["jobs"]["image"]["strategy"]["matrix"]["runner"]
    assert [each.endswith("-arm") for each in of_each] == [False, True]
    name, pushed = "ghcr.io/acme/reconciler", []
    for architecture in ("amd64", "arm64"):
        runner = tmp_path / architecture
        (runner / "bin").mkdir(parents=True)
        (runner / "bin" / "dpkg").write_text(f"#!/bin/sh\necho {architecture}\n")
        (runner / "bin" / "dpkg").chmod(0o755)
        code, calls = run(script_of("image", "image="), runner, stubs=("docker",), **repository)
        assert code == 0
        (build,) = (call for call in calls if call[:3] == ["docker", "buildx", "build"])
        assert {"--push", "--sbom=true", "--provenance=mode=max"} <= set(build)
        pushed.append(build[build.index("--tag") + 1])
    assert pushed == [f"{name}:1.2.3-amd64", f"{name}:1.2.3-arm64"]
    code, calls = run(script_of("index", "image="), tmp_path, stubs=("docker", "cosign", "jq"), **repository)
    assert code == 0
    (joined,) = (call for call in calls if call[:4] == ["docker", "buildx", "imagetools", "create"])
    assert joined[joined.index("--tag") + 1 :] == [f"{name}:1.2.3", *pushed]
    assert ["cosign", "sign", "--yes", "--recursive", f"{name}@{DIGEST}"] in calls


def test_nothing_is_released_before_the_gate_and_no_job_may_more_than_it_says() -> None:
    assert RELEASE["permissions"] == {}
    assert list(RELEASE[True]["push"]) == ["tags"], "YAML reads `on` as true"
    jobs = RELEASE["jobs"]
    assert {name: job.get("needs") for name, job in jobs.items()} == {
        "gate": None,
        "wheel": "gate",
        "image": "gate",
        "index": "image",
    }
    assert all("permissions" in job and "timeout-minutes" in job for job in jobs.values())
    assert [name for name, job in jobs.items() if "write" in str(job["permissions"])] == ["wheel", "image", "index"]


def test_what_a_release_installs_is_locked_by_hash() -> None:
    scripts = [step["run"] for job in RELEASE["jobs"].values() for step in job["steps"] if "pip install" in str(step)]
    lines = [line for script in scripts for line in script.splitlines() if "pip install" in line]
    assert lines
    for line in lines:
        assert "--require-hashes --only-binary :all:" in line
        assert "--hash=sha256:" in (ROOT / line.split()[-1]).read_text()
