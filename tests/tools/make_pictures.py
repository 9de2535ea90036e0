"""Pictures of what people meet: pull requests as a forge shows them, and commands in terminals, in a real Chromium.

    python -m tests.tools.make_pictures FOLDER

Pull requests (of the demo, and every prepared situation), the comment, status and annotations of a review and the pages
of its job are 1,280 and 390 pixels wide; plan, explain, validate and
help have 80, 100 and 160 columns; all of them are light and dark. Look at them. What can be measured is printed: text
that is cut off or leaves the terminal, and text whose contrast with what is behind it is below 4.5. Charts need
fetch_mermaid.sh; without it their text is shown.
"""

import html
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from markdown_it import MarkdownIt

from reconciler.cli.sample import Demo, run_demo
from reconciler.config.environment import Environment, Flags
from reconciler.domain.plan import Pages
from reconciler.pipeline.recording import read_recording
from reconciler.pipeline.review import find_head, open_reviewer
from reconciler.pipeline.session import open_session
from reconciler.rendering.renderer import Renderer
from reconciler.report.formatting import display_width
from reconciler.report.pull_request import pull_request_view
from reconciler.report.review import comment_view

ROOT = Path(__file__).parents[2]
MERMAID = ROOT / ".tools" / "pictures" / "mermaid.min.js"
SITUATIONS = ROOT / "tests" / "testdata" / "situations"
CHROMIUM = "/usr/bin/chromium"
WIDTHS, COLUMNS = (1280, 390), (80, 100, 160)
LEAST_CONTRAST = 4.5
GITHUB = Pages(
    files_at="https://github.com/acme/fleet/blob/90600b9/", commit_at="https://github.com/", draws_mermaid=True
)
NAMES = ("back", "text", "soft", "line", "code", "link")
THEMES = {
    "light": dict(zip(NAMES, ("#ffffff", "#1f2328", "#59636e", "#d1d9e0", "#eff1f3", "#0969da"), strict=True)),
    "dark": dict(zip(NAMES, ("#0d1117", "#f0f6fc", "#9198a1", "#3d444d", "#1f242c", "#4493f8"), strict=True)),
}
ANSI = {
    "light": {"31": "#b31d28", "32": "#116329", "33": "#7d4e00", "36": "#0b6a75", "1": "bold", "2": "#59636e"},
    "dark": {"31": "#ff7b72", "32": "#56d364", "33": "#e3b341", "36": "#56d4dd", "1": "bold", "2": "#9198a1"},
}
STYLE = """
html, body { margin: 0; background: BACK; }
main { box-sizing: border-box; width: WIDTHpx; padding: 16px; background: BACK; color: TEXT; overflow-wrap: break-word;
  font: 14px/1.5 -apple-system, "Segoe UI", "Noto Sans", "DejaVu Sans", sans-serif; }
h1 { font-size: 20px; font-weight: 600; margin: 0 0 16px; }
p, ul, blockquote, table, pre, details { margin: 0 0 16px; }
blockquote { padding: 0 1em; color: SOFT; border-left: .25em solid LINE; }
ul { padding-left: 2em; }
table { display: block; width: max-content; max-width: 100%; overflow: auto; border-spacing: 0;
  border-collapse: collapse; }
th, td { padding: 6px 13px; border: 1px solid LINE; vertical-align: top; }
code { padding: .2em .4em; font: 85%/1.45 "DejaVu Sans Mono", monospace; white-space: break-spaces; background: CODE;
  border-radius: 6px; }
pre { padding: 16px; overflow: auto; font-size: 85%; background: CODE; border-radius: 6px; }
pre code { padding: 0; background: none; white-space: pre; }
pre.mermaid { background: none; padding: 0; text-align: center; overflow: hidden; }
a { color: LINK; } sub { font-size: 75%; }
.box { margin: 0 0 16px; padding: 12px 16px; border: 1px solid LINE; border-left-width: 4px; border-radius: 6px; }
.box b { display: block; } .box small { color: SOFT; }
main.terminal { width: max-content; font: 13px/1.35 "DejaVu Sans Mono", monospace; white-space: pre; }
"""
MEASURE = """
function light(text) {
  const found = text.match(/[0-9.]+/g).map(Number);
  const [r, g, b] = found.slice(0, 3).map(v => v / 255).map(v => v <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4);
  return {value: .2126 * r + .7152 * g + .0722 * b, alpha: found.length > 3 ? found[3] : 1};
}
function behind(element) {
  for (let each = element; each; each = each.parentElement) {
    const found = light(getComputedStyle(each).backgroundColor);
    if (found.alpha > .5) return found.value;
  }
  return 1;
}
function measure() {
  const found = {clipped: [], faint: [], height: document.documentElement.scrollHeight};
  for (const each of document.querySelectorAll("main, main *:not(svg *)")) {
    const cut = each.scrollWidth > each.clientWidth + 1 && getComputedStyle(each).display != "inline";
    if (cut && !each.closest("svg")) found.clipped.push(each.tagName + " " + each.textContent.trim().slice(0, 60));
    const own = [...each.childNodes].some(node => node.nodeType == 3 && node.textContent.trim());
    if (!own || each.closest("svg")) continue;
    const [a, b] = [light(getComputedStyle(each).color).value, behind(each)].sort((x, y) => y - x);
    const contrast = (a + .05) / (b + .05);
    if (contrast < LEAST) found.faint.push(contrast.toFixed(2) + " " + each.textContent.trim().slice(0, 60));
  }
  document.body.setAttribute("data-found", JSON.stringify(found));
}
"""


def main() -> None:
    """Make all pictures in the folder that is named."""
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    flaws = 0
    with tempfile.TemporaryDirectory() as directory:
        demo = run_demo(Path(directory) / "demo")
        for theme in THEMES:
            for name, title, body in bodies(demo):
                for width in WIDTHS:
                    page = pull_request_page(title, body, theme, width)
                    flaws += take(folder / f"{name}-{width}-{theme}.png", page, width, Path(directory))
            for name, title, rendered in reviews(demo):
                for width in WIDTHS:
                    page = _page(f"<main><h1>{title}</h1>{rendered}</main>", theme, width, "")
                    flaws += take(folder / f"{name}-{width}-{theme}.png", page, width, Path(directory))
            for name, columns, text in terminals(demo):
                page = terminal_page(text, theme)
                flaws += take(folder / f"{name}-{columns}-{theme}.png", page, 8 * columns + 40, Path(directory))
                flaws += len(list(too_long(name, columns, text))) if theme == "light" else 0
    print(f"{folder}: {flaws} flaws")
    sys.exit(1 if flaws else 0)


def bodies(demo: Demo) -> Iterator[tuple[str, str, str]]:
    """Name, title and body of each pull request: as GitHub gets it, and one with characters for a chart."""
    plan = demo.result.prepared.plan
    for number, group in enumerate((each for each in plan.groups if each.changes), start=1):
        view = pull_request_view(plan, group, pages=GITHUB)
        yield f"demo-{number}", view.title, Renderer().render("pull_request/body.md.j2", view)
    first = next(each for each in plan.groups if each.changes)
    view = pull_request_view(plan, first)
    yield "demo-local", view.title, Renderer().render("pull_request/body.md.j2", view)
    for path in sorted(SITUATIONS.glob("*.md")):
        title, _, body = path.read_text(encoding="utf-8").partition("\n\n")
        yield f"situation-{path.stem}", title.removeprefix("# "), body


def reviews(demo: Demo) -> Iterator[tuple[str, str, str]]:
    """Name, title and HTML of what a review of much leaves on GitHub, and of the page of a job that failed."""
    clone, page = demo.directory / "reviewed", demo.directory / "page.md"
    if not clone.exists():
        _run(["git", "clone", "-q", str(demo.repository), str(clone)], ROOT)
        for path, old, new in EDITS:
            file = clone / path
            text = file.read_text(encoding="utf-8")
            file.write_text(re.sub(old, new, text, count=1), encoding="utf-8")
            if file.read_text(encoding="utf-8") == text:
                raise SystemExit(f"{path}: nothing like {old}")
        author = ["-c", "user.name=Ann", "-c", "user.email=ann@example.com"]
        _run(["git", *author, "commit", "-qam", "Change much"], clone)
    review = [sys.executable, "-m", "reconciler", "review", "--repo", str(clone), "--head", "HEAD"]
    review += ["--replay", str(demo.recording), "-o"]
    found = _run([*review, "json"], ROOT)
    yield (
        "review-status",
        "Some checks were not successful",
        f"<p>✗ <b>reconciler/review</b> — {html.escape(json.loads(found)['summary'])}</p>",
    )
    page.unlink(missing_ok=True)
    commands = _run([*review, "github"], ROOT, GITHUB_STEP_SUMMARY=str(page))
    yield "review-annotations", "Annotations", "".join(map(_annotation, re.findall(r"^::(.*)", commands, re.MULTILINE)))
    yield "review-job", "review summary", _markdown(page.read_text(encoding="utf-8"))
    yield "review-comment", "github-actions commented", _markdown(_comment(clone, demo.recording))
    page.unlink(missing_ok=True)
    run = [sys.executable, "-m", "reconciler", "run", "--repo", str(clone), "--prometheus", "ftp://prometheus"]
    command = _run(run, ROOT, GITHUB_STEP_SUMMARY=str(page), GITHUB_ACTIONS="true")
    yield "failed-annotation", "Annotations", "".join(map(_annotation, re.findall(r"^::(.*)", command, re.MULTILINE)))
    yield "failed-job", "run summary", _markdown(page.read_text(encoding="utf-8"))
    page.unlink(missing_ok=True)
    _run(
        [sys.executable, "-m", "reconciler", "plan", "--replay", str(demo.recording)],
        ROOT,
        GITHUB_STEP_SUMMARY=str(page),
    )
    yield "plan-job", "plan summary", _markdown(page.read_text(encoding="utf-8"))


def _comment(clone: Path, kept: Path) -> str:
    """The comment under the pull request."""
    recording, environment = read_recording(kept), Environment()
    flags = Flags(repo=str(clone), base=recording.commit)
    with open_session(flags, environment, writes=False, with_forge=False) as session:
        reviewer = open_reviewer(session, flags, environment, recording.now_s, recording)
        review = reviewer.review(find_head(session, flags, "HEAD"))
        return Renderer().render("review/comment.md.j2", comment_view(review, ""))


EDITS = (
    ("clusters/prod/batch/llama-8b-nightly/deployment.yaml", "vllm-openai:v0.11.0", "vllm-openai:v0.12.0"),
    ("clusters/prod/batch/llama-8b-nightly/deployment.yaml", "max-num-seqs=64", "max-num-seqs=32"),
    ("clusters/prod/chat/granite-13b/deployment.yaml", r"replicas: \d+", "replicas: 40"),
    ("clusters/prod/chat/llama-8b/deployment.yaml", r"replicas: \d+", "replicas: 1"),
    ("clusters/prod/code/kustomization.yaml", r"  - starcoder2.*\n  - starcoder2.*\n", ""),
    ("reconciler.yaml", "costPerHour: 5.49", "costPerHour: 3.99"),
    ("reconciler.yaml", "ttft: 1s, itl: 24ms", "ttft: 2s, itl: 24ms"),
)
"""Path, regular expression and replacement of each thing that the reviewed change does."""


def _run(command: list[str], folder: Path, **environment: str) -> str:
    ran = subprocess.run(command, cwd=folder, env=os.environ | environment, capture_output=True, check=False)
    return (ran.stdout + ran.stderr).decode("utf-8", "replace")


def _annotation(command: str) -> str:
    """A box as GitHub shows a workflow command: its title, or the severity, the message and the place."""
    head, _, message = command.partition("::")
    severity, _, listed = head.partition(" ")
    properties = dict(each.partition("=")[::2] for each in listed.split(",") if each)
    title = html.escape(properties.get("title") or severity.capitalize())
    path = html.escape(f"{properties.get('file', '')}#L{properties.get('line', '1')}")
    text = html.escape(message.replace("%0A", "\n").replace("%25", "%"))
    return f'<div class="box"><b>{severity}: {title}</b>{text}<br><small>{path}</small></div>'


def _markdown(text: str) -> str:
    return str(MarkdownIt("commonmark", {"html": True}).enable("table").render(text))


def terminals(demo: Demo) -> Iterator[tuple[str, int, str]]:
    """Name, columns and coloured output of commands."""
    replay = ["--replay", str(demo.recording)]
    commands = {
        "plan": ["plan", *replay],
        "explain": ["explain", "chat/llama-8b", *replay],
        "validate": ["validate", str(faulty(demo.directory / "faulty"))],
        "help": ["--help"],
        "help-plan": ["plan", "--help"],
    }
    for name, arguments in commands.items():
        for columns in COLUMNS:
            yield name, columns, in_terminal([sys.executable, "-m", "reconciler", *arguments], columns)


def faulty(folder: Path) -> Path:
    """A folder in which something is wrong."""
    folder.mkdir(exist_ok=True)
    resource = {"apiVersion": "llmd.ai/v1alpha1", "kind": "VariantAutoscaling", "metadata": {"name": "llama"}}
    (folder / "llama.yaml").write_text(json.dumps({**resource, "spec": {"variantCost": "ten", "maxReplica": 3}}))
    (folder / "reconciler.yaml").write_text("apiVersion: reconciler.io/v1alpha1\nkind: Configuration\nclusterz: []\n")
    return folder


def too_long(name: str, columns: int, text: str) -> Iterator[str]:
    """The lines that a terminal of so many columns breaks in the middle of words."""
    for line in re.sub(r"\x1b\[[0-9;]*m", "", text).splitlines():
        if display_width(line) > columns and " " in line.strip():
            print(f"{name}, {columns} columns: {display_width(line)}: {line[:100]}")
            yield line


def in_terminal(command: list[str], columns: int) -> str:
    """What a command prints where its output is a terminal of that width."""
    environment = os.environ | {"COLUMNS": str(columns), "LINES": "200", "TERM": "xterm-256color"}
    quoted = " ".join(f"'{part}'" for part in command)
    script = ["script", "-qec", f"stty cols {columns} rows 200; {quoted}", "/dev/null"]
    ran = subprocess.run(script, env=environment, cwd=ROOT, capture_output=True, check=False, stdin=subprocess.DEVNULL)
    return ran.stdout.decode("utf-8", "replace").replace("\r\n", "\n")


def pull_request_page(title: str, body: str, theme: str, width: int) -> str:
    """A page as a forge makes it of a title and Markdown; what is folded is open, to be seen."""
    rendered = _markdown(body)
    chart = re.compile(r'<pre><code class="language-mermaid">(.*?)</code></pre>', re.DOTALL)
    script = ""
    if chart.search(rendered) and MERMAID.is_file():
        rendered = chart.sub(r'<pre class="mermaid">\1</pre>', rendered)
        options = json.dumps({"startOnLoad": False, "theme": "dark" if theme == "dark" else "default"})
        script = f"mermaid.initialize({options}); await mermaid.run();"
    elif chart.search(rendered):
        rendered = chart.sub(r"<p>(A chart: fetch_mermaid.sh draws it.)</p><pre><code>\1</code></pre>", rendered)
    return _page(f"<main><h1>{html.escape(title)}</h1>{rendered}</main>", theme, width, script)


def terminal_page(text: str, theme: str) -> str:
    """A page of a terminal's text with its colours."""
    parts = re.split(r"\x1b\[([0-9;]*)m", text)
    shown, styles = [], list[str]()
    for index, part in enumerate(parts):
        if index % 2:
            styles = [] if part in ("", "0") else [*styles, *part.split(";")]
            continue
        rules = [ANSI[theme].get(code, "") for code in styles]
        style = ";".join("font-weight:bold" if rule == "bold" else f"color:{rule}" for rule in rules if rule)
        shown.append(f'<span style="{style}">{html.escape(part)}</span>' if style else html.escape(part))
    return _page(f'<main class="terminal">{"".join(shown)}</main>', theme, 0, "")


def _page(main: str, theme: str, width: int, script: str) -> str:
    style = STYLE.replace("WIDTH", str(width))
    for name, value in THEMES[theme].items():
        style = style.replace(name.upper(), value)
    source = f'<script src="file://{MERMAID}"></script>' if script else ""
    measure = MEASURE.replace("LEAST", str(LEAST_CONTRAST))
    return (
        f"<!doctype html><meta charset='utf-8'><style>{style}</style><body>{main}{source}"
        f"<script>{measure}</script><script type='module'>{script} measure();</script></body>"
    )


def take(picture: Path, page: str, width: int, directory: Path) -> int:
    """Make one picture, print what is wrong with it, and say how much."""
    source = directory / f"{picture.stem}.html"
    source.write_text(page, encoding="utf-8")
    dumped = _chromium(directory, f"--window-size={max(width, 500)},900", "--dump-dom", source.as_uri())
    found = re.search(r'data-found="([^"]*)"', dumped)
    report: dict[str, Any] = {"clipped": ["nothing was measured"], "faint": [], "height": 900}
    if found is not None:
        report.update(json.loads(html.unescape(found[1])))
    height = min(int(report["height"]) + 8, 12_000)
    _chromium(directory, f"--window-size={max(width, 500)},{height}", f"--screenshot={picture}", source.as_uri())
    flaws = [*(f"cut off: {each}" for each in report["clipped"]), *(f"contrast {each}" for each in report["faint"])]
    for flaw in flaws:
        print(f"{picture.name}: {flaw}")
    return len(flaws)


def shoot(picture: Path, page: str, size: tuple[int, int], directory: Path) -> None:
    """Make a picture of the beginning of a page, of that size."""
    source = directory / f"{picture.stem}.html"
    source.write_text(page, encoding="utf-8")
    width, height = size
    _chromium(directory, f"--window-size={width},{height}", f"--screenshot={picture}", source.as_uri())


def _chromium(directory: Path, *arguments: str) -> str:
    profile = directory / "profile"
    command = [
        CHROMIUM,
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--hide-scrollbars",
        "--allow-file-access-from-files",
    ]
    options = [f"--user-data-dir={profile}", "--virtual-time-budget=4000", "--force-device-scale-factor=1"]
    ran = subprocess.run([*command, *options, *arguments], capture_output=True, check=False, timeout=120)
    shutil.rmtree(profile, ignore_errors=True)
    return ran.stdout.decode("utf-8", "replace")


if __name__ == "__main__":
    main()
