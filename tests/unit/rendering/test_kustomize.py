"""The tool on the PATH, and what is made of its complaints."""

import os
import shutil
import time
from pathlib import Path

import pytest

from reconciler.errors import ConfigurationError, InputError
from reconciler.rendering import kustomize
from reconciler.rendering.kustomize import find_kustomize


def install(folder: Path, name: str, script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make a tool of a shell script the only program on the PATH."""
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(f"#!{os.path.realpath('/bin/sh')}\n{script}\n")
    (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(folder))


@pytest.mark.parametrize(("name", "first"), [("kustomize", "build"), ("kubectl", "kustomize")])
def test_either_tool_builds_a_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, first: str) -> None:
    install(tmp_path / "bin", name, 'echo "$@"', monkeypatch)
    kustomize = find_kustomize()
    assert kustomize.name == name
    assert kustomize.build(tmp_path, "apps/chat") == f"{first} {tmp_path}/apps/chat\n".encode()


def test_without_a_tool_the_option_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ConfigurationError, match="--prove: expected kustomize or kubectl"):
        find_kustomize()


def test_what_does_not_build_says_why_without_folder_secret_or_control_characters(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = 'echo one >&2; printf "Error: $2/base: no https://bob:canary@host/x \\033[31m\\n" >&2; exit 1'
    install(tmp_path / "bin", "kustomize", script, monkeypatch)
    with pytest.raises(InputError) as refused:
        find_kustomize().build(tmp_path, "apps")
    said = "apps: kustomize does not render it: Error: /apps/base: no https://***@host/x  [31m"
    assert str(refused.value) == said


def test_a_tool_that_does_not_start_is_a_matter_of_configuration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path / "bin", "kubectl", "", monkeypatch)
    kustomize = find_kustomize()
    (tmp_path / "bin" / "kubectl").unlink()
    with pytest.raises(ConfigurationError, match=r"--prove: kubectl did not render \."):
        kustomize.build(tmp_path, "")


def test_a_tool_that_takes_too_long_is_ended_with_all_that_it_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sleep = os.path.realpath(shutil.which("sleep") or "")
    install(tmp_path / "bin", "kustomize", f'{sleep} 60 & echo $! > "{tmp_path}/child"; wait', monkeypatch)
    monkeypatch.setattr(kustomize, "TIMEOUT_S", 0.5)
    with pytest.raises(ConfigurationError, match=r"--prove: kustomize did not render apps: .* timed out"):
        find_kustomize().build(tmp_path, "apps")
    child = int((tmp_path / "child").read_text())
    status = Path(f"/proc/{child}/stat")
    deadline = time.monotonic() + 10
    while status.exists() and status.read_text().rpartition(")")[2].split()[0] != "Z":
        assert time.monotonic() < deadline, "the child of the tool goes on"
        time.sleep(0.01)
