"""What is installed into image, action and release is locked, and the image is made as it should be."""

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
LOCKS = ROOT / ".github" / "requirements"
DOCKERFILE = (ROOT / "Dockerfile").read_text()


def locked(name: str) -> dict[str, list[str]]:
    """Package -> its versions; a file in which anything has no hash is none."""
    entries = re.split(r"\n(?=\S)", (LOCKS / name).read_text().strip())
    versions: dict[str, list[str]] = {}
    for entry in entries:
        head, *hashes = entry.split("\\\n")
        assert hashes, f"without a hash: {head}"
        assert all(re.fullmatch(r"\s+--hash=sha256:[0-9a-f]{64}\s*", each) for each in hashes), head
        requirement = Requirement(head)
        (specifier,) = requirement.specifier
        assert specifier.operator == "=="
        versions.setdefault(canonicalize_name(requirement.name), []).append(specifier.version)
    return versions


def test_every_dependency_is_locked_in_a_version_that_is_allowed() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    versions = locked("run.txt")
    for line in project["dependencies"]:
        requirement = Requirement(line)
        found = versions[canonicalize_name(requirement.name)]
        assert all(requirement.specifier.contains(version) for version in found), f"{line}: make requirements"


@pytest.mark.parametrize("name", sorted(path.name for path in LOCKS.iterdir()))
def test_everything_locked_has_its_hashes_and_names_no_index(name: str) -> None:
    assert locked(name)
    assert "://" not in (LOCKS / name).read_text()


def test_the_image_has_two_stages_of_one_base_pinned_by_digest() -> None:
    bases = re.findall(r"^FROM (\S+)", DOCKERFILE, flags=re.MULTILINE)
    assert len(bases) == 2
    assert len(set(bases)) == 1
    assert re.fullmatch(r"python:3\.\d+-slim-\w+@sha256:[0-9a-f]{64}", bases[0]), "glibc, and without a compiler"


def test_the_image_runs_as_nobody_and_installs_only_what_is_locked() -> None:
    last = DOCKERFILE.rpartition("\nFROM ")[2]
    assert re.search(r"^USER 65532:65532$", last, flags=re.MULTILINE)
    assert re.search(r'^ENTRYPOINT \["reconciler"\]$', last, flags=re.MULTILINE)
    assert not re.search(r"\bpip\b|gcc|build-essential", last)
    installs = re.findall(r"pip install ([^&\n]*)", DOCKERFILE)
    assert all("--require-hashes" in each or "--no-index" in each for each in installs)
