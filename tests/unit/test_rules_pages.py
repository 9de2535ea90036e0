"""The pages of rules: their examples are computed by the program, and what cites them finds its section."""

import doctest
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted((ROOT / ".github" / "docs" / "rules").glob("*.md"))
RULES = [page for page in PAGES if page.name != "README.md"]
SOURCES = sorted([*(ROOT / "reconciler").rglob("*.py"), *(ROOT / "tests").rglob("*.py")])
CITATION = re.compile(r"rules/(?P<page>[a-z_-]+\.md)(?:#(?P<section>[a-z0-9_-]+))?")
OUTSIDE = re.compile(r"(?<![\w/-])(?:allocation|autoscalers|gitops|inferno|kthena|llmaz-gie-metrics|priors|wva)\.md\b")
"""Notes on other programs, which are no part of the repository."""


def anchor(heading: str) -> str:
    """As GitHub makes it of a heading's text."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-")


def anchors_of(page: Path) -> set[str]:
    return {anchor(heading) for heading in re.findall(r"^#+ (.*)$", page.read_text(), flags=re.MULTILINE)}


@pytest.mark.parametrize("page", RULES, ids=lambda page: page.stem)
def test_examples_are_what_the_program_computes(page: Path) -> None:
    blocks = re.findall(r"```python\n(.*?)```", page.read_text(), flags=re.DOTALL)
    example = doctest.DocTestParser().get_doctest("\n".join(blocks), {}, page.name, str(page), 0)
    assert example.examples, "a rule has an example with numbers"
    told: list[str] = []
    found = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE).run(example, out=told.append)
    assert not found.failed, "".join(told)


def test_an_example_that_is_wrong_fails() -> None:
    example = doctest.DocTestParser().get_doctest(">>> 1 + 1\n3\n", {}, "wrong", None, 0)
    assert doctest.DocTestRunner().run(example, out=lambda _: None).failed


def test_every_page_is_listed() -> None:
    listed = set(re.findall(r"\]\(([a-z_-]+\.md)\)", (ROOT / ".github/docs/rules/README.md").read_text()))
    assert listed == {page.name for page in RULES}


def test_the_code_cites_rules_that_are_there() -> None:
    cited = [
        (path, found["page"], found["section"])
        for path in SOURCES
        for found in CITATION.finditer(path.read_text())
        if path != Path(__file__)
    ]
    pages = {page.name: anchors_of(page) for page in RULES}
    dead = [f"{path.relative_to(ROOT)}: {page}#{section}" for path, page, section in cited
            if page not in pages or (section and section not in pages[page])]  # fmt: skip
    assert not dead
    assert {page for path, page, _ in cited if "reconciler" in path.parts} >= set(pages), "a rule that no code cites"


def test_nothing_cites_notes_that_are_not_here() -> None:
    cited = [
        f"{path.relative_to(ROOT)}: {found}"
        for path in SOURCES
        if path != Path(__file__)
        for found in OUTSIDE.findall(path.read_text())
    ]
    assert not cited
