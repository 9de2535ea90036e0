"""The pictures of the documentation are of the demo as it is, small, and shown somewhere."""

import re
from pathlib import Path

import pytest

from reconciler.cli.sample import run_demo
from tests.tools.make_documentation_pictures import FOLDER, digest, source_of, sources

ROOT = Path(__file__).parents[2]
PICTURES = sorted(FOLDER.iterdir())
LARGEST = 150_000


@pytest.fixture(scope="module")
def made_of(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return {name: digest(text) for name, text in sources(run_demo(tmp_path_factory.mktemp("demo"))).items()}


def test_every_picture_is_made_of_the_demo(made_of: dict[str, str]) -> None:
    assert {each.name for each in PICTURES} == set(made_of)


@pytest.mark.parametrize("picture", PICTURES, ids=lambda each: each.name)
def test_a_picture_shows_the_demo_as_it_is(picture: Path, made_of: dict[str, str]) -> None:
    assert source_of(picture) == made_of[picture.name], "draw it again: make pictures"


@pytest.mark.parametrize("picture", PICTURES, ids=lambda each: each.name)
def test_a_picture_is_small_and_loads_nothing(picture: Path) -> None:
    content = picture.read_bytes()
    assert len(content) <= LARGEST
    if picture.suffix == ".svg":
        assert not re.search(rb"@import|url\(\s*[\"']?http|<script|href=", content)


@pytest.mark.parametrize("picture", PICTURES, ids=lambda each: each.name)
def test_a_picture_is_shown_with_words_for_who_cannot_see_it(picture: Path) -> None:
    pages = [ROOT / "README.md", *(ROOT / ".github/docs").rglob("*.md")]
    texts = [page.read_text() for page in pages]
    assert any(f"pictures/{picture.name}" in text for text in texts)
    images = [each for text in texts for each in re.findall(r"<img[^>]*pictures/[^>]*>", text)]
    assert images
    assert all(re.search(r'alt="[^"]{20,}"', each) for each in images)
    marked = [each for text in texts for each in re.findall(r"!\[([^\]]*)\]\([^)]*pictures/", text)]
    assert all(len(each) > 20 for each in marked)
