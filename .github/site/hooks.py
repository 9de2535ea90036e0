"""What mkdocs asks of us: pages that stand elsewhere in the repository, and links that lead where the site has them."""

import posixpath
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[2]
DOCS = ".github/docs"
ELSEWHERE = {
    "policies.md": "policies/README.md",
    "templates.md": "templates/README.md",
    "SECURITY.md": ".github/SECURITY.md",
    "CONTRIBUTING.md": ".github/CONTRIBUTING.md",
    "CHANGELOG.md": "CHANGELOG.md",
    "assets/site.css": ".github/site/site.css",
}
"""Place in the site -> file of the repository."""

_CELL_CODE = re.compile(r"(?<=<code>)[^<\s]{8,}(?=</code>)")
_FENCED = re.compile(r"^(```|~~~).*?^\1", flags=re.DOTALL | re.MULTILINE)
_LINK = re.compile(r"(?P<open>\]\(|\b(?:href|src)=\")(?P<target>[^)\s\"#]+)(?P<section>#[^)\s\"]*)?(?P<close>[)\"])")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that stand elsewhere."""
    for place, source in ELSEWHERE.items():
        files.append(File.generated(config, place, abs_src_path=str(ROOT / source)))
    return files


def on_page_content(html: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Let long names in code break behind dots and slashes: on small screens tables are narrow."""
    del page, config, files
    return _CELL_CODE.sub(lambda code: re.sub(r"(?<=[./_\]=])(?=[^./])", "<wbr>", code[0]), html)


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Let links lead to the page of the site, or to the file in the repository where the site does not have it."""
    place = page.file.src_uri
    source = ELSEWHERE.get(place, f"{DOCS}/{place}")

    def relocated(link: re.Match[str]) -> str:
        target = link["target"]
        if re.match(r"[a-z]+:", target):
            return link[0]
        file = posixpath.normpath(posixpath.join(posixpath.dirname(source), target))
        known = {origin: where for where, origin in ELSEWHERE.items()}
        home = known.get(file) or (file.removeprefix(f"{DOCS}/") if file.startswith(f"{DOCS}/") else None)
        if home is None or files.get_file_from_path(home) is None:
            address = f"{config.repo_url}/{'tree' if (ROOT / file).is_dir() else 'blob'}/main/{file}"
        else:
            address = posixpath.relpath(home, posixpath.dirname(place) or ".")
        return f"{link['open']}{address}{link['section'] or ''}{link['close']}"

    pieces, end = [], 0
    for fence in _FENCED.finditer(markdown):
        pieces += [_LINK.sub(relocated, markdown[end : fence.start()]), fence[0]]
        end = fence.end()
    return "".join([*pieces, _LINK.sub(relocated, markdown[end:])])
