"""The image's container: whose it is and what it may write, and what is installed in it."""

import sys
from pathlib import Path

import pytest

from reconciler import __version__
from tests.servers.container import Image, build_image, why_absent

pytestmark = pytest.mark.integration

SECRETS = {"forge-token": "t"}
LOOK = """
import os, pathlib, sys
import reconciler
lines = pathlib.Path("/proc/self/status").read_text().splitlines()
status = dict(line.split(":\\t", 1) for line in lines if ":\\t" in line)
print("user", os.getuid(), os.getgid(), os.getgroups())
print("rights", status["CapEff"], status["CapBnd"], status["NoNewPrivs"])
print("package", reconciler.__file__)
for place in ("/", "/opt/reconciler", "/usr", "/etc", "/var/run/secrets/reconciler", "/tmp"):
    try:
        (pathlib.Path(place) / "mine").write_text("x")
        print("written", place)
    except OSError:
        pass
print("home", os.environ["HOME"], sorted(os.environ))
"""


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Image:
    if why_absent():
        pytest.skip(why_absent())
    return build_image(tmp_path_factory.mktemp("image"))


def test_it_is_nobody_and_may_write_its_tmp_alone(image: Image, tmp_path: Path) -> None:
    done = image.run([sys.executable, "-c", LOOK], {}, SECRETS, tmp_path / "scratch")
    assert done.returncode == 0, done.stderr
    lines = dict(line.split(" ", 1) for line in done.stdout.splitlines())
    assert lines["user"] == "65532 65532 []"
    assert lines["rights"] == "0000000000000000 0000000000000000 1"
    assert lines["package"].startswith("/opt/reconciler/")
    assert [line for line in done.stdout.splitlines() if line.startswith("written")] == ["written /tmp"]
    assert lines["home"].startswith("/tmp ")


def test_it_starts(image: Image, tmp_path: Path) -> None:
    done = image.run([*image.entry_point, "--version"], {}, SECRETS, tmp_path / "scratch")
    assert done.returncode == 0, done.stderr
    assert __version__ in done.stdout
