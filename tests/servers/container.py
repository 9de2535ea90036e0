"""The container of our image without an engine: what the Dockerfile says, around the wheel that it would install."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
SCRIPT = Path(__file__).with_name("container.sh")
SYSTEM_PATH = "/usr/local/bin:/usr/bin:/bin"
PRIVILEGE = [] if os.geteuid() == 0 else ["sudo", "-n"]
NAMESPACE = [*PRIVILEGE, "unshare", "--mount", "--propagation=private"]


def why_absent() -> str:
    """Why no container can be run here; empty where one can."""
    for tool in (*PRIVILEGE[:1], "unshare", "setpriv"):
        if shutil.which(tool) is None:
            return f"needs {tool}"
    done = subprocess.run([*NAMESPACE, "true"], capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 else f"needs root, or sudo without a password: {done.stderr.strip()}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """What the last stage of the Dockerfile says; `installed` is where the wheel was."""

    installed: Path

    @property
    def environment(self) -> Mapping[str, str]:
        """`ENV`, beside what the base image has."""
        words = (each for line in _lines("ENV") for each in line.split())
        given = dict(word.split("=", 1) for word in words)
        return {name: value.replace("$PATH", SYSTEM_PATH) for name, value in given.items()}

    @property
    def user(self) -> str:
        """`USER`: its number."""
        return _lines("USER")[-1].partition(":")[0]

    @property
    def entry_point(self) -> Sequence[str]:
        """`ENTRYPOINT`."""
        words: list[str] = json.loads(_lines("ENTRYPOINT")[-1])
        return words

    def run(
        self, command: Sequence[str], environment: Mapping[str, str], secrets: Mapping[str, str], scratch: Path
    ) -> subprocess.CompletedProcess[str]:
        """What a command does in a root of its own, below `scratch`; `secrets` are the files of the mounted one."""
        root, kept = scratch / "root", scratch / "secrets"
        root.mkdir(parents=True)
        kept.mkdir()
        for name, text in secrets.items():
            (kept / name).write_text(text)
        given = {**self.environment, "PYTHONPATH": ":".join(("/opt/reconciler", *_site_packages())), **environment}
        return subprocess.run(
            [
                *(*NAMESPACE, "bash", str(SCRIPT), str(root), str(self.installed), str(kept), self.user),
                *(*_python(), "--"),
                *(f"{name}={value}" for name, value in given.items()),
                *command,
            ],
            capture_output=True,
            text=True,
            check=False,
            timeout=600,
        )


def build_image(scratch: Path) -> Image:
    """The wheel as the Dockerfile builds and installs it, but for the libraries, which are those of the tests."""
    wheels, installed = scratch / "wheel", scratch / "installed"
    build = ["-m", "build", "--wheel", "--no-isolation", "--outdir", str(wheels), str(ROOT)]
    subprocess.run([sys.executable, *build], check=True, capture_output=True)
    (wheel,) = wheels.glob("*.whl")
    install = ["-m", "pip", "--quiet", "--disable-pip-version-check", "install", "--no-index", "--no-deps"]
    target = [f"--target={installed}", str(wheel)]
    subprocess.run([sys.executable, *install, *target], check=True, capture_output=True)
    return Image(installed=installed)


def _lines(instruction: str) -> list[str]:
    """What follows an instruction in the last stage."""
    last = (ROOT / "Dockerfile").read_text().rpartition("\nFROM ")[2]
    return [line.partition(" ")[2] for line in last.splitlines() if line.startswith(f"{instruction} ")]


def _python() -> Iterator[str]:
    """The folders of this interpreter and its libraries, where /usr does not hold them."""
    for folder in dict.fromkeys((sys.prefix, sys.base_prefix)):
        if not Path(folder).is_relative_to("/usr"):
            yield folder


def _site_packages() -> list[str]:
    return [each for each in sys.path if each.endswith("site-packages")]
