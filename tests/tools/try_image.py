"""What of the Dockerfile runs without an engine: the build stage's own commands, literally, and how large they make it.

With a network, as root or with sudo: `make image-test`. A container of it is what `tests/servers/container.py` runs.
"""

import re
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.servers.container import NAMESPACE, ROOT, why_absent

BASE_BYTES = 45_000_000
"""The layers of python:3.13-slim-bookworm for amd64, compressed: nothing here can ask a registry."""
MAX_BYTES = 200_000_000

# /opt is new and gone with the process; `python` and `pip` are the base image's there, a new environment's here.
SCRIPT = """
set -eu
mount -t tmpfs -o mode=755 tmpfs /opt
"$2" -m venv "$1/base"
export PATH="$1/base/bin:$PATH" PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1 PIP_ROOT_USER_ACTION=ignore
mkdir "$1/source"
git -C "$3" archive HEAD | tar -x -C "$1/source"
cd "$1/source"
COMMANDS
test ! -e /opt/reconciler/bin/pip
PATH=/opt/reconciler/bin:$PATH reconciler --version >&2
tar -C /opt -c reconciler | gzip -6 | wc -c
"""


def build_commands(scratch: Path) -> str:
    """Every RUN of the build stage, one a line; /wheel is below `scratch`."""
    stage = (ROOT / "Dockerfile").read_text().replace("\\\n", " ").rpartition("\nFROM ")[0]
    return "\n".join(re.findall(r"^RUN (.*)$", stage, flags=re.MULTILINE)).replace(" /wheel", f" {scratch}/wheel")


def package_bytes() -> int:
    """At most what the last stage's packages are, compressed: with all they need, though the base has some of it."""
    (line,) = re.findall(r"apt-get install (.*?) \\\n", (ROOT / "Dockerfile").read_text())
    packages = [word for word in line.split() if not word.startswith("-")]
    nothing = ["-o", "Dir::State::status=/dev/null", "-o", "Debug::NoLocking=1", "--no-install-recommends"]
    command = ["apt-get", "-qq", "install", "--print-uris", *nothing, *packages]
    listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return sum(int(row.split()[2]) for row in listed.splitlines())


def main() -> None:
    """Print what each layer is; fail beyond the limit."""
    if why_absent():
        sys.exit(why_absent())
    with tempfile.TemporaryDirectory() as name:
        script = SCRIPT.replace("COMMANDS", build_commands(Path(name)))
        arguments = ["bash", "-c", script, "bash", name, sys.executable, str(ROOT)]
        done = subprocess.run([*NAMESPACE, *arguments], stdout=subprocess.PIPE, text=True, check=True)
    ours = int(done.stdout.split()[-1])
    layers = {"base (as stated)": BASE_BYTES, "packages (at most)": package_bytes(), "/opt/reconciler": ours}
    for layer, size in {**layers, "all": sum(layers.values())}.items():
        print(f"{size / 1e6:6.1f} MB  {layer}")
    if sum(layers.values()) > MAX_BYTES:
        sys.exit(f"more than {MAX_BYTES / 1e6:.0f} MB")


if __name__ == "__main__":
    main()
