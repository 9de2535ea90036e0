"""The page on the architecture names files and tables that are there."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / ".github/docs/architecture.md").read_text(encoding="utf-8")


def test_every_file_and_folder_that_the_page_names_exists() -> None:
    named = {each for each in re.findall(r"`([a-z_/]+(?:\.py|\.md|/))`", PAGE) if "/" in each}
    assert len(named) > 30
    missing = {each for each in named if not any((root / each).exists() for root in (ROOT / "reconciler", ROOT))}
    assert not missing


def test_every_table_is_where_the_page_says() -> None:
    rows = re.findall(r"`([A-Z_]{5,})`[^|]*? in `([a-z_/]+\.py)`", PAGE)
    assert len(rows) > 5
    for table, path in rows:
        assert re.search(rf"^{table}\b", (ROOT / "reconciler" / path).read_text(encoding="utf-8"), re.MULTILINE), table


def test_every_package_is_on_the_map() -> None:
    drawn = PAGE[PAGE.index("EDGE") : PAGE.index("PURE packages")]
    packages = {each.name for each in (ROOT / "reconciler").iterdir() if (each / "__init__.py").exists()}
    assert packages == {each for each in re.findall(r"[a-z]+", drawn) if each in packages}
