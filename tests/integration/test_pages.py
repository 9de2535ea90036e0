"""Pages in a real browser: nothing that axe objects to, and no side scrolling of the page on a small screen."""

import html
import json
import re
import shutil
import subprocess
from base64 import b64encode
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from reconciler.domain.plan import Plan
from reconciler.rendering.renderer import Renderer
from reconciler.report.backtest_page import backtest_page
from reconciler.report.explain import Chain
from reconciler.report.plan_page import explain_page, plan_page
from tests.unit.report.conftest import plan  # noqa: F401 - a fixture
from tests.unit.report.test_pages import TEMPLATE, backtest

AXE = Path(__file__).parents[2] / ".tools/axe.min.js"
BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
DARK = "--blink-settings=preferredColorScheme=0"
POLICY = re.compile(r'(<meta http-equiv="Content-Security-Policy" content="[^"]*)(">)')
NOTE = """
const stopped = [];
addEventListener("securitypolicyviolation", event => stopped.push([event.violatedDirective, event.blockedURI]));"""
MEASURE = """
axe.run({resultTypes: ["violations"]}).then(found => {
  const seen = {violations: found.violations.map(each => [each.id, each.nodes.map(node => node.html)]),
    stopped, passes: found.passes.length, width: document.documentElement.scrollWidth,
    dark: getComputedStyle(document.body).backgroundColor};
  document.body.innerHTML = "<pre id=seen></pre>";
  document.getElementById("seen").textContent = JSON.stringify(seen);
})"""

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(BROWSER is None, reason="needs chromium on PATH"),
    pytest.mark.skipif(not AXE.is_file(), reason="needs .tools/axe.min.js: tests/tools/fetch_axe.sh"),
]


def looked_at(page: str, tmp_path: Path, width: int, *options: str) -> Any:
    """What a browser measures of the page in a frame of this width: windows have a least width of their own.

    The page keeps its content security policy, which lets the scripts of this test run and nothing else.
    """
    axe = AXE.read_text(encoding="utf-8").replace("</script", "<\\/script")
    hashes = " ".join(f"'sha256-{b64encode(sha256(each.encode()).digest()).decode()}'" for each in (NOTE, axe, MEASURE))
    page, policies = POLICY.subn(rf"\1; script-src {hashes}\2<script>{NOTE}</script>", page)
    assert policies == 1
    (tmp_path / "page.html").write_text(
        page.replace("</body>", f"<script>{axe}</script><script>{MEASURE}</script></body>")
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


@pytest.fixture(params=["backtest", "plan", "explain"])
def page(request: pytest.FixtureRequest) -> str:
    """A page of each kind."""
    sample: Plan = request.getfixturevalue("plan")
    pages = {
        "backtest": lambda: backtest_page(backtest()),
        "plan": lambda: plan_page(sample),
        "explain": lambda: explain_page(sample, sample.decisions[0], (), Chain(), ""),
    }
    return Renderer().render(TEMPLATE, pages[request.param]())


@pytest.mark.parametrize(("width", "options"), [(390, (DARK,)), (1200, ())], ids=["small, dark", "wide, light"])
def test_a_page_is_accessible_and_as_wide_as_the_screen(
    page: str, tmp_path: Path, width: int, options: tuple[str, ...]
) -> None:
    seen = looked_at(page, tmp_path, width, *options)
    assert seen["violations"] == []
    assert seen["passes"] > 15
    assert seen["width"] <= width
    assert seen["stopped"] == []
    assert seen["dark"] == ("rgb(18, 22, 27)" if options else "rgb(255, 255, 255)")
