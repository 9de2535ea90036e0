"""The site of the documentation: built strictly, without a network, and whole by itself."""

import json
import os
import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import urldefrag, urljoin, urlsplit

import pytest
import yaml

ROOT = Path(__file__).parents[2]
OFFLINE = """
import socket, sys
def refuse(*_):
    raise AssertionError("the site is built without a network")
socket.socket.connect = socket.create_connection = socket.getaddrinfo = refuse
from mkdocs.__main__ import cli
cli(sys.argv[1:])
"""


class Page(HTMLParser):
    """What a page asks for and where it leads."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.loads: list[str] = []
        self.links: list[str] = []
        self.places: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        self.places |= {values[name] for name in ("id", "name") if values.get(name)}
        if tag == "a" and "href" in values:
            self.links.append(values["href"])
        elif tag in ("script", "img", "iframe", "source") and "src" in values:
            self.loads.append(values["src"])
        elif tag == "link" and values.get("rel") in ("stylesheet", "preload", "preconnect", "icon"):
            self.loads.append(values["href"])


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("site")
    command = [
        "build",
        "--strict",
        "--config-file",
        str(ROOT / ".github/site/mkdocs.yml"),
        "--site-dir",
        str(directory),
    ]
    finished = subprocess.run(
        [sys.executable, "-c", OFFLINE, *command],
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert finished.returncode == 0, finished.stdout + finished.stderr
    return directory


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[str, Page]:
    """By their path, such as `/rules/queueing/`."""
    return {
        "/" + str(path.relative_to(site)).removesuffix("index.html"): Page(path.read_text())
        for path in sorted(site.rglob("*.html"))
        if path.name != "404.html"
    }


def test_every_page_of_the_repository_is_part_of_the_site(pages: dict[str, Page]) -> None:
    sources = {str(path.relative_to(ROOT / ".github/docs")) for path in (ROOT / ".github/docs").rglob("*.md")}
    places = {"/" + re.sub(r"(^|/)README$", r"\1", source.removesuffix(".md")).rstrip("/") for source in sources}
    assert places <= {path.rstrip("/") or "/" for path in pages}
    assert {"/policies/", "/templates/", "/SECURITY/", "/CHANGELOG/"} <= set(pages)


def test_no_page_loads_anything_from_elsewhere(pages: dict[str, Page]) -> None:
    loaded = {(path, each) for path, page in pages.items() for each in page.loads if urlsplit(each).netloc}
    assert not loaded


def test_no_link_and_no_section_is_dead(site: Path, pages: dict[str, Page]) -> None:
    dead = []
    for path, page in pages.items():
        for link in page.links:
            target, section = urldefrag(urljoin(path, link))
            if urlsplit(target).scheme:
                continue
            if target in pages:
                if section and section not in pages[target].places and section != "__skip":
                    dead.append(f"{path}: {link}")
            elif not (site / target.lstrip("/")).is_file():
                dead.append(f"{path}: {link}")
    assert not dead


def test_links_to_the_repository_lead_to_files_of_it(pages: dict[str, Page]) -> None:
    home = re.compile(r"https://github\.com/inference-reconciler/reconciler/(?:blob|tree)/main/([^#?]*)")
    linked = {found[1] for page in pages.values() for link in page.links if (found := home.match(link))}
    assert linked
    assert [path for path in sorted(linked) if not (ROOT / path).exists()] == []


QUESTIONS = yaml.safe_load((ROOT / "tests/testdata/questions.yaml").read_text())
SHOWN = 5
"""Pages that a reader sees without scrolling."""


@pytest.fixture(scope="module")
def found(site: Path) -> dict[str, list[str]]:
    """By question the pages that the site's own script finds with its words, the best first."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("needs node, which comes with npm")
    command = [node, str(ROOT / "tests/tools/search_site.cjs"), str(site)]
    asked = json.dumps([each["asked"] for each in QUESTIONS])
    ran = subprocess.run(command, input=asked, capture_output=True, text=True, check=True)
    return dict(json.loads(ran.stdout))


def test_forty_questions_are_there() -> None:
    assert len(QUESTIONS) >= 40
    assert len({each["at"] for each in QUESTIONS}) == len(QUESTIONS)


@pytest.mark.parametrize("question", QUESTIONS, ids=lambda each: each["at"])
def test_a_question_of_others_finds_its_answer(
    found: dict[str, list[str]], pages: dict[str, Page], question: dict[str, Any]
) -> None:
    assert all(f"/{answer}/" in pages for answer in question["answered"]), "a page that is not there"
    shown = found[question["asked"]][:SHOWN]
    assert set(shown) & set(question["answered"]), shown
