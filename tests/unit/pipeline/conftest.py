"""A desk for each test."""

from pathlib import Path

import pytest

from tests.servers.desk import Desk, open_desk
from tests.servers.fleet import make_template
from tests.servers.git_workshop import Workshop


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> Workshop:
    """The repository that every desk starts from."""
    return make_template(tmp_path_factory.mktemp("template"))


@pytest.fixture
def desk(template: Workshop, tmp_path: Path) -> Desk:
    """A fleet that nobody has run on."""
    return open_desk(template, tmp_path)
