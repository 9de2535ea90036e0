"""Pages in a real browser: nothing that axe objects to, and no side scrolling of the page on a small screen."""

import html
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from reconciler.rendering.renderer import Renderer
from reconciler.report.backtest_page import backtest_page
from tests.unit.report.test_pages import TEMPLATE, backtest

AXE = Path(__file__).parents[2] / ".tools/axe.min.js"
BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
DARK = "--blink-settings=preferredColorScheme=0"
MEASURE = """
axe.run({resultTypes: ["violations"]}).then(found => {
  const seen = {violations: found.violations.map(each => [each.id, each.nodes.map(node => node.html)]),
    passes: found.passes.length, width: document.documentElement.scrollWidth,
    dark: getComputedStyle(document.body).backgroundColor};
  document.body.innerHTML = "<pre id=seen></pre>";
  document.getElementById("seen").textContent = JSON.stringify(seen);
})"""

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(BROWSER is None, reason="needs chromium on PATH"),
    pytest.mark.skipif(not AXE.is_file(), reason="needs .tools/axe.min.js: tests/tools/fetch_axe.sh"),
]


def looked_at(tmp_path: Path, width: int, *options: str) -> Any:
    """What a browser measures of the page in a frame of this width: windows have a least width of their own."""
    page = re.sub(
        r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", Renderer().render(TEMPLATE, backtest_page(backtest()))
    )
    script = AXE.read_text(encoding="utf-8").replace("</script", "<\\/script")
    (tmp_path / "page.html").write_text(
        page.replace("</body>", f"<script>{script}</script><script>{MEASURE}</script></body>")
    )
    (tmp_path / "frame.html").write_text(
        f'<!doctype html><iframe id="frame" src="page.html" style="border:0;width:{width}px;height:900px"></iframe>'
        '<script>setInterval(() => { const seen = frame.contentDocument.getElementById("seen"); '
        "if (seen) document.body.innerHTML = seen.outerHTML }, 50)</script>"
    )
    finished = subprocess.run(
        [
            *(str(BROWSER), "--headless", "--no-sandbox", "--disable-gpu", "--allow-file-access-from-files"),
            *(f"--user-data-dir={tmp_path / 'profile'}", "--window-size=1300,1000", "--virtual-time-budget=60000"),
            *(*options, "--dump-dom", (tmp_path / "frame.html").as_uri()),
        ],
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    seen = re.search(r'<pre id="seen">(.*?)</pre>', finished.stdout, re.DOTALL)
    assert seen, finished.stderr[-2000:]
    return json.loads(html.unescape(seen[1]))


@pytest.mark.parametrize("width", [390, 1200])
@pytest.mark.parametrize("options", [(), (DARK,)], ids=["light", "dark"])
def test_a_page_is_accessible_and_as_wide_as_the_screen(tmp_path: Path, width: int, options: tuple[str, ...]) -> None:
    seen = looked_at(tmp_path, width, *options)
    assert seen["violations"] == []
    assert seen["passes"] > 20
    assert seen["width"] <= width
    assert seen["dark"] == ("rgb(18, 22, 27)" if options else "rgb(255, 255, 255)")
