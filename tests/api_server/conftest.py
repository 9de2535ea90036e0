"""One API server for all tests of a worker, and a fleet of its own for each."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.servers.desk import Desk, open_desk
from tests.servers.fleet import make_template
from tests.servers.git_workshop import Workshop
from tests.servers.kubernetes import KubernetesServer, serve_kubernetes


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KubernetesServer]:
    """With the namespaces of the fleet."""
    with serve_kubernetes(tmp_path_factory.mktemp("kubernetes")) as running:
        for namespace in ("chat", "code"):
            assert running.kubectl("create", "namespace", namespace).returncode == 0
        yield running


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> Workshop:
    """The repository that every fleet starts from."""
    return make_template(tmp_path_factory.mktemp("template"))


@pytest.fixture
def desk(template: Workshop, tmp_path: Path) -> Desk:
    """A fleet of its own."""
    return open_desk(template, tmp_path)
