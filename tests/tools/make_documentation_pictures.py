"""The pictures of the documentation: what the demo prints, and proposes, in a terminal, on a forge and as a page.

    python -m tests.tools.make_documentation_pictures        # `make pictures`; needs Chromium, emoji and mermaid

Each is made of the demo and says in itself of which text: a test compares that with the demo as it is.
"""

import contextlib
import hashlib
import io
import re
import struct
import subprocess
import sys
import tempfile
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, cast

from rich.console import Console
from rich.text import Text

from reconciler.cli.main import invoke
from reconciler.cli.sample import Demo, run_demo
from reconciler.pipeline.run import keep_dashboard
from reconciler.rendering.renderer import Renderer
from tests.tools.make_pictures import CHROMIUM, GITHUB, MERMAID, bodies, in_terminal, pull_request_page, shoot

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / ".github" / "docs" / "pictures"
PULL_REQUEST, DASHBOARD, REPORT = (900, 700), (900, 700), (1240, 860)
KEY = b"Source"
"""Of the text within a picture that says of what it was made."""
CLEAN = (
    '<svg class="rich-terminal" viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg">'
    "<!-- source: SOURCE --><style>.{unique_id}-matrix {{ font-family: 'DejaVu Sans Mono', Menlo, Consolas, monospace; "
    "font-size: {char_height}px; line-height: {line_height}px; font-variant-east-asian: full-width; }} {styles}</style>"
    '<defs><clipPath id="{unique_id}-clip-terminal"><rect x="0" y="0" width="{terminal_width}" '
    'height="{terminal_height}" /></clipPath>{lines}</defs>{chrome}'
    '<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">{backgrounds}'
    '<g class="{unique_id}-matrix">{matrix}</g></g></svg>'
)
"""As rich draws a terminal, without the fonts that it would load from elsewhere."""


def sources(demo: Demo) -> Mapping[str, str]:
    """By name of a picture the text that it shows."""
    printed = io.StringIO()
    replay = ["--replay", str(demo.recording)]
    with contextlib.redirect_stdout(printed):
        invoke(["plan", *replay, "-o", "html"])
    page = printed.getvalue()
    printed.seek(printed.truncate(0))
    with contextlib.redirect_stdout(printed):
        invoke(["plan", *replay])
    _, title, body = next(iter(bodies(demo)))
    issue = _Issue()
    keep_dashboard(cast(Any, issue), Renderer(), demo.result, GITHUB)
    return {
        "dashboard.png": issue.text,
        "pull-request-light.png": f"{title}\n{body}",
        "pull-request-dark.png": f"{title}\n{body}",
        "report.png": page,
        "terminal.svg": printed.getvalue(),
    }


class _Issue:
    """A forge that keeps the dashboard issue, and nothing else: that of the demo has no issues."""

    body_limit = 65_536
    text = ""

    def keep_issue(
        self, *, label: str, title: str, body: str, is_current: Callable[[str], bool], opens: bool = True
    ) -> None:
        """Remember its title and text, without the comment at the end, which knows where the demo is."""
        assert label
        assert opens
        assert not is_current(self.text)
        self.text = f"{title}\n{body.partition('<!--')[0]}"


def digest(text: str) -> str:
    """What stands in a picture: the same wherever the demo was run."""
    return hashlib.sha256(re.sub(r"/[^\s\"'<]*reconciler-demo[^\s\"'<]*", "DEMO", text).encode()).hexdigest()[:16]


def source_of(picture: Path) -> str:
    """The digest of the text that a picture was made of."""
    content = picture.read_bytes()
    if picture.suffix == ".svg":
        (found,) = re.findall(r"<!-- source: (\w+) -->", content.decode())
        return str(found)
    place = 8
    while place < len(content):
        (length,) = struct.unpack(">I", content[place : place + 4])
        kind, data = content[place + 4 : place + 8], content[place + 8 : place + 8 + length]
        if kind == b"tEXt" and data.startswith(KEY + b"\0"):
            return data.partition(b"\0")[2].decode()
        place += length + 12
    raise ValueError(f"{picture}: it does not say of what it was made")


def _signed(picture: Path, text: str) -> None:
    """Write the digest into a PNG, behind its first chunk."""
    content = picture.read_bytes()
    chunk = b"tEXt" + KEY + b"\0" + digest(text).encode()
    told = struct.pack(">I", len(chunk) - 4) + chunk + struct.pack(">I", zlib.crc32(chunk))
    picture.write_bytes(content[:33] + told + content[33:])


def _terminal(demo: Demo, text: str) -> str:
    coloured = in_terminal([sys.executable, "-m", "reconciler", "plan", "--replay", str(demo.recording)], 132)
    console = Console(record=True, width=132, file=io.StringIO(), force_terminal=True)
    console.print(Text.from_ansi(coloured.rstrip()))
    shown = console.export_svg(title="reconciler plan", code_format=CLEAN, unique_id="plan")
    return shown.replace("SOURCE", digest(text))


def main() -> None:
    """Make all of them again."""
    fonts = subprocess.run(["fc-list"], capture_output=True, text=True, check=False).stdout
    absent = {
        f"no {CHROMIUM}": not Path(CHROMIUM).exists(),
        "no font with emoji (Debian: fonts-noto-color-emoji)": "emoji" not in fonts.lower(),
        "no mermaid: tests/tools/fetch_mermaid.sh": not MERMAID.exists(),
    }
    if any(absent.values()):
        sys.exit("\n".join(f"error: {words}" for words, is_absent in absent.items() if is_absent))
    FOLDER.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="reconciler-demo-") as directory:
        scratch = Path(directory)
        demo = run_demo(scratch / "demo")
        texts = sources(demo)
        (FOLDER / "terminal.svg").write_text(_terminal(demo, texts["terminal.svg"]))
        for theme in ("light", "dark"):
            title, _, body = texts[f"pull-request-{theme}.png"].partition("\n")
            picture = FOLDER / f"pull-request-{theme}.png"
            shoot(picture, pull_request_page(title, body, theme, PULL_REQUEST[0]), PULL_REQUEST, scratch)
        title, _, body = texts["dashboard.png"].partition("\n")
        shoot(FOLDER / "dashboard.png", pull_request_page(title, body, "light", DASHBOARD[0]), DASHBOARD, scratch)
        shoot(FOLDER / "report.png", texts["report.png"], REPORT, scratch)
        for name, text in texts.items():
            if name.endswith(".png"):
                _signed(FOLDER / name, text)
            sys.stdout.write(f"{FOLDER / name}: {(FOLDER / name).stat().st_size / 1000:.0f} kB\n")


if __name__ == "__main__":
    main()
