"""What is installed is what was tested: the wheel carries its templates, samples and types."""

import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from reconciler.domain.plan import HOME

ADDRESS = re.compile(r"(?:github\.com/|ghcr\.io/|uses: )([a-z0-9-]+/reconciler)(?![a-z0-9-])")
"""An owner's repository of our name."""
ROOT = Path(__file__).parents[2]
RENDER = """
import pathlib, sys
import reconciler
from reconciler.rendering.renderer import shipped_templates

assert pathlib.Path(reconciler.__file__).is_relative_to(sys.argv[1]), reconciler.__file__
sys.stdout.write("\\n".join(shipped_templates()))
"""


def run_python(arguments: Sequence[str], cwd: Path, **environment: str) -> str:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "PYTEST"))}
    finished = subprocess.run(
        [sys.executable, *arguments], cwd=cwd, env={**kept, **environment}, capture_output=True, text=True, check=False
    )
    assert finished.returncode == 0, finished.stdout + finished.stderr
    return finished.stdout


def files_below(folder: str) -> set[str]:
    root = ROOT / folder
    return {str(path.relative_to(root)) for path in root.rglob("*") if path.is_file() and path.suffix != ".pyc"}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built of what the image's build gets: `.dockerignore` leaves out all but what it names."""
    directory, context = tmp_path_factory.mktemp("wheel"), tmp_path_factory.mktemp("context")
    for name in re.findall(r"^!(.*)$", (ROOT / ".dockerignore").read_text(), flags=re.MULTILINE):
        source, target = ROOT / name, context / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, target)
    run_python(["-m", "build", "--wheel", "--no-isolation", "--outdir", str(directory), str(context)], directory)
    (built,) = directory.glob("*.whl")
    return built


def names_in(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


def test_the_wheel_is_named_after_the_project(wheel: Path) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert wheel.name == f"{project['name'].replace('-', '_')}-{project['version']}-py3-none-any.whl"


def test_the_wheel_holds_everything_that_is_read_at_run_time(wheel: Path) -> None:
    expected = {
        "reconciler/py.typed",
        "reconciler/cli/demo_data/recording.zip",
        *(f"reconciler/_templates/{name}" for name in files_below("templates")),
        *(f"reconciler/_policies/{name}" for name in files_below("policies")),
        *(f"reconciler/_examples/{name}" for name in files_below("tests/testdata/examples")),
        *(f"reconciler/cli/demo_data/{name}" for name in files_below("reconciler/cli/demo_data")),
    }
    assert expected <= names_in(wheel)


def test_the_wheel_holds_no_tests(wheel: Path) -> None:
    assert {name.split("/")[0].partition("-")[0] for name in names_in(wheel)} == {"reconciler", "inference_reconciler"}


def test_an_installed_copy_runs_from_its_own_files(wheel: Path, tmp_path: Path) -> None:
    installed = tmp_path / "installed"
    quiet = ["--quiet", "--disable-pip-version-check", "--no-index", "--no-deps", "--no-compile"]
    run_python(["-m", "pip", "install", *quiet, "--target", str(installed), str(wheel)], tmp_path)
    shown = run_python(["-c", RENDER, str(installed)], tmp_path, PYTHONPATH=str(installed))
    assert set(shown.split()) == {name for name in files_below("templates") if name.endswith(".j2")}
    printed = run_python(["-m", "reconciler", "demo"], tmp_path, PYTHONPATH=str(installed), TMPDIR=str(tmp_path))
    assert "pull request" in printed


def test_every_place_that_names_the_project_names_its_address() -> None:
    """A fork changes `project.urls`, then what this names: code and pages; recorded texts follow by UPDATE_GOLDEN=1."""
    urls = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["urls"]
    assert list(urls) == ["Source"]
    owner = urls["Source"].removeprefix("https://github.com/")
    assert owner == HOME
    wrong = [
        f"{path.relative_to(ROOT)}:{number}: {found}"
        for path in sorted(pages())
        for number, line in enumerate(path.read_text().splitlines(), start=1)
        for found in ADDRESS.findall(line)
        if found != owner
    ]
    assert not wrong, f"these are not {owner}"


def pages() -> Iterator[Path]:
    """What a reader or a runner takes an address from."""
    yield from (ROOT / name for name in ("README.md", "CHANGELOG.md", "action.yml", "Dockerfile"))
    for folder in (".github", "templates", "policies", "reconciler"):
        yield from (
            path for path in (ROOT / folder).rglob("*") if path.suffix in (".md", ".yml", ".yaml", ".j2", ".py")
        )


def test_every_integration_test_is_marked_and_lies_where_the_gate_looks() -> None:
    marked = {path for path in (ROOT / "tests").rglob("test_*.py") if "pytest.mark.integration" in path.read_text()}
    marked.discard(Path(__file__))
    assert marked == set((ROOT / "tests" / "integration").rglob("test_*.py"))
