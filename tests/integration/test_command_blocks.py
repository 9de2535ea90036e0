"""Every block of shell commands of every page runs, in the order of the page, as a newcomer types it.

Only addresses are others: the forge is a server of the tests, Prometheus is a real one. There is no cluster, so kubectl
is a stand-in that looks whether the files that it is given are there. What `make` does is run by the gate.
"""

import re
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.servers.examples import FAMILIES, example_files, history_of_example
from tests.servers.fleet import Fleet
from tests.servers.newcomer import Newcomer, blocks_of
from tests.servers.prometheus import ABSENT, prometheus_over

pytestmark = [pytest.mark.integration, pytest.mark.skipif(bool(ABSENT), reason=ABSENT)]

ROOT = Path(__file__).parents[2]
START = ".github/docs/start"
APART = {
    ".github/docs/backtest.md": "tests/unit/cli/test_backtest.py",
    ".github/docs/workloads.md": "tests/integration/test_adoption.py",
}
"""Pages whose commands need more than hours of history, and the test that runs them."""
PAGES = sorted(
    str(path.relative_to(ROOT))
    for folder in (ROOT, ROOT / ".github", ROOT / "policies", ROOT / "templates")
    for path in (folder.glob("*.md") if folder == ROOT else folder.rglob("*.md"))
    if any(re.search(r"^(?!make )\S", block, flags=re.MULTILINE) for block in blocks_of(path.read_text()))
)
PAGES = [page for page in PAGES if page not in APART]
KUBECTL = """#!/bin/sh
previous=
for word in "$@"; do
    case "$previous" in -f|-k) test -e "$word" || { echo "no $word" >&2; exit 1; };; esac
    previous=$word
done
"""


def script_of(page: str) -> str:
    """The commands of a page in their order; a configuration that it shows is saved."""
    blocks = re.findall(r'^```(sh|yaml title="reconciler.yaml")\n(.*?)^```', page, flags=re.DOTALL | re.MULTILINE)
    return "\n".join(
        re.sub(r"^make .*$", "", text, flags=re.MULTILINE)
        if kind == "sh"
        else f"cat >reconciler.yaml <<'END'\n{text}END"
        for kind, text in blocks
    )


def family_of(page: str) -> str:
    """The repository that a page is read with."""
    name = Path(page).stem
    return name if name in FAMILIES else "llm-d"


@pytest.fixture
def newcomer(make_fleet: Callable[..., Fleet], tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Newcomer]:
    """Somebody with the family's example as it is before the reconciler."""
    family = family_of(request.param)
    fleet = make_fleet("github")
    files = {path: content for path, content in example_files(family).items() if path != "reconciler.yaml"}
    old = [path for path in fleet.workshop.git("ls-files").splitlines() if path not in files]
    fleet.rearrange(files, *old)
    (tmp_path / "prometheus").mkdir()
    (tmp_path / "newcomer").mkdir()
    with prometheus_over(history_of_example(family, time.time()), tmp_path / "prometheus") as url:
        person = Newcomer(fleet=replace(fleet, prometheus=url), directory=tmp_path / "newcomer")
        person.type(f"git clone -q {fleet.repo} fleet")
        binaries = person.directory / "bin"
        (binaries / "kubectl").write_text(KUBECTL)
        (binaries / "kubectl").chmod(0o755)
        yield person


@pytest.mark.parametrize("newcomer", PAGES, indirect=True)
def test_every_block_of_a_page_runs(newcomer: Newcomer, request: pytest.FixtureRequest) -> None:
    page = request.node.callspec.params["newcomer"]
    shown = newcomer.type(newcomer.with_addresses(script_of((ROOT / page).read_text())))
    if page.startswith(f"{START}/") and not page.endswith("README.md"):
        titles = [each.title for each in newcomer.fleet.pull_requests()]
        assert [title for title in titles if title.startswith("Scale up chat")], (titles, shown)


@pytest.mark.parametrize(("page", "test"), APART.items())
def test_commands_of_other_pages_have_a_test_of_their_own(page: str, test: str) -> None:
    commands = {line.split()[1] for block in blocks_of((ROOT / page).read_text()) for line in block.splitlines()}
    text = (ROOT / test).read_text()
    assert Path(page).name in text or all(f'"{command}"' in text for command in commands)
