"""Plans in the formats that `--output` names."""

import difflib
from collections.abc import Iterator

from reconciler.cli.console import is_colored, width, write, write_json
from reconciler.cli.options import Common
from reconciler.cli.painting import paint
from reconciler.config.environment import read_environment
from reconciler.pipeline.prepare import Prepared
from reconciler.rendering import Renderer
from reconciler.report.document import plan_json
from reconciler.report.pull_request import plan_view
from reconciler.report.text import plan_text


def present_plan(common: Common, prepared: Prepared) -> None:
    """Write a plan to stdout as `--output` asks."""
    plan = prepared.plan
    if common.output == "json":
        write_json(plan_json(plan))
    elif common.output == "yaml":
        import yaml

        write(yaml.safe_dump(plan_json(plan), sort_keys=False, allow_unicode=True, width=120))
    elif common.output == "markdown":
        write(Renderer().render("pull_request/body.md.j2", plan_view(plan)))
    elif common.output == "diff":
        write("".join(diff_lines(prepared)))
    else:
        write(painted(common, plan_text(plan, width=width())))


def diff_lines(prepared: Prepared) -> Iterator[str]:
    """A unified diff of every file that the plan would change, group by group."""
    before = {manifest.path: manifest.body for manifest in prepared.recording.manifests}
    for change_set in prepared.edited.change_sets:
        for path, body in sorted(change_set.files.items()):
            yield from _file_diff(path, before.get(path), body)


def _file_diff(path: str, before: bytes | None, after: bytes) -> Iterator[str]:
    """The differences of one file, which may be new."""
    old, new = (body.decode("utf-8", "replace").splitlines(keepends=True) for body in (before or b"", after))
    for line in difflib.unified_diff(old, new, "/dev/null" if before is None else f"a/{path}", f"b/{path}"):
        yield line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"


def painted(common: Common, text: str) -> str:
    """The text with colour where it is welcome."""
    return paint(text) if is_colored(common, read_environment()) else text
