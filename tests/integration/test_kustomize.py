"""Every object of the sample repositories, built by the real tool and by us."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from reconciler.manifests.documents import Value, parse_documents, parse_readable
from reconciler.placement.kustomize_build import Builder
from reconciler.placement.repository import ManifestRepository

FOLDER = Path(__file__).parents[1] / "testdata" / "clusters"
TOOLS = (("kustomize", ["kustomize", "build"]), ("kubectl", ["kubectl", "kustomize"]))
# It names a remote base, which nobody fetches here.
UNBUILDABLE = {"remote-base"}

# What stands behind the names of generated objects, which we leave out.
_HASH = re.compile(r"-[0-9a-z]{10}$")

pytestmark = pytest.mark.integration


def _command() -> list[str]:
    for name, command in TOOLS:
        if shutil.which(name):
            return command
    pytest.skip("kustomize: neither kustomize nor kubectl is installed")


def render(directory: str | Path) -> "subprocess.CompletedProcess[str]":
    """What the real tool makes of a directory."""
    return subprocess.run([*_command(), str(directory)], capture_output=True, text=True, check=False, timeout=60)


def _directories() -> list[tuple[str, str]]:
    return [
        (path.relative_to(FOLDER).parts[0], path.parent.as_posix())
        for path in sorted(FOLDER.glob("*/before/**/kustomization.yaml"))
        if path.relative_to(FOLDER).parts[0] not in UNBUILDABLE and "kind: Component" not in path.read_text()
    ]


def _by_name(objects: list[Value]) -> dict[tuple[Value, ...], Value]:
    named: dict[tuple[Value, ...], Value] = {}
    for each in objects:
        metadata = each.get("metadata") if isinstance(each, dict) else None
        if isinstance(each, dict) and isinstance(metadata, dict):
            name = _HASH.sub("", str(metadata.get("name"))) if each.get("kind") == "ConfigMap" else metadata.get("name")
            named[each.get("apiVersion"), each.get("kind"), metadata.get("namespace"), name] = each
    return named


def _read(root: Path) -> ManifestRepository:
    files = {path.relative_to(root).as_posix(): path.read_bytes() for path in root.rglob("*.yaml")}
    return ManifestRepository(files={path: parse_readable(path, body)[0] for path, body in files.items()})


@pytest.mark.parametrize(("case", "directory"), _directories(), ids=lambda text: Path(text).name)
def test_every_object_is_built_as_the_real_tool_builds_it(case: str, directory: str) -> None:
    result = render(directory)
    root = FOLDER / case / "before"
    builder = Builder(_read(root))
    gathering = builder.build(builder.read(Path(directory).relative_to(root).as_posix()))
    if result.returncode:
        assert gathering.failures, result.stderr
        return
    assert not gathering.failures
    built = _by_name([draft.fields for draft in gathering.drafts])
    expected = _by_name([document.value for document in parse_documents("stdout", result.stdout.encode())])
    assert built.keys() == expected.keys()
    # What is generated is known by its name alone.
    readable = _by_name([draft.fields for draft in gathering.drafts if not draft.obstacles])
    assert readable == {name: expected[name] for name in readable}
