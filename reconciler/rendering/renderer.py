"""Views in, texts out: a sandbox without clock, environment, chance or file, where nothing prints unfiltered."""

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import TYPE_CHECKING

from jinja2 import DictLoader, StrictUndefined, TemplateError
from jinja2.sandbox import ImmutableSandboxedEnvironment

from reconciler.errors import ConfigurationError
from reconciler.rendering.filters import FILTERS, Filtered

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

ALLOWED_TESTS = ("defined", "equalto", "eq", "ne", "in")
CUT_NOTE = "\n\n*Cut here: the rest does not fit the forge's limit.*\n"
SUFFIX = ".j2"


class Renderer:
    """Renders templates by name; `templates` (name -> text) replaces the shipped ones."""

    def __init__(self, templates: Mapping[str, str] | None = None) -> None:
        self._environment = _shipped_environment() if templates is None else _environment(templates)

    def render(self, name: str, view: "DataclassInstance") -> str:
        """The text of template `name`, its variables the fields of `view`.

        Raises ConfigurationError when the template is missing, broken, prints what no filter saw, or names a
        variable that the view does not have.
        """
        variables = {field.name: getattr(view, field.name) for field in dataclasses.fields(view)}
        try:
            return self._environment.get_template(name).render(variables)
        except TemplateError as error:
            line = getattr(error, "lineno", None)
            place = f"template {name}" + (f", line {line}" if line else "")
            raise ConfigurationError(f"{place}: {error.message}: see templates/README.md for its variables") from error

    def render_within(self, name: str, views: Iterable["DataclassInstance"], *, limit: int, marker: str = "") -> str:
        """The first of `views`, given longest first, whose text keeps to `limit` characters.

        When none does, the last is cut at the end of a line, open code blocks and details are closed, and `marker` is
        put after the cut.
        """
        text = ""
        for view in views:
            text = self.render(name, view)
            if len(text) <= limit:
                return text
        tail = CUT_NOTE + (f"\n{marker}\n" if marker else "")
        return _cut(text, limit - len(tail)) + tail


def _cut(text: str, room: int) -> str:
    """The whole lines that fit, with an open code block and open details closed so that the note stays visible."""
    endings = "\n```\n" + "</details>" * text.count("<details>")
    kept = text[: max(0, room - len(endings))].rpartition("\n")[0]
    if sum(line.lstrip().startswith("```") for line in kept.splitlines()) % 2:
        kept += "\n```"
    open_details = kept.count("<details>") - kept.count("</details>")
    return kept + ("\n" + "</details>" * open_details if open_details > 0 else "")


@cache
def _shipped_environment() -> ImmutableSandboxedEnvironment:
    """Read and compiled once in a process: nothing that is rendered changes it."""
    return _environment(shipped_templates())


def _environment(templates: Mapping[str, str]) -> ImmutableSandboxedEnvironment:
    environment = ImmutableSandboxedEnvironment(
        loader=DictLoader(templates),
        undefined=StrictUndefined,
        # HTML escapes fit none of the places we print to; `finalize` makes a filter that fits mandatory.
        autoescape=False,
        finalize=_require_filtered,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        auto_reload=False,
    )
    environment.globals.clear()
    environment.filters = dict(FILTERS)
    environment.tests = {name: environment.tests[name] for name in ALLOWED_TESTS}
    return environment


def _require_filtered(value: object) -> str:
    """The only way out of an expression: text that went through a filter, and whole numbers."""
    if isinstance(value, Filtered):
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    raise TemplateError("a value is printed without a filter, choose one of " + ", ".join(sorted(FILTERS)))


def shipped_templates() -> Mapping[str, str]:
    """Name (`pull_request/body.md.j2`) -> text: of the installed package, or of the checkout it is imported from."""
    return dict(sorted(_read(_shipped(), "", SUFFIX)))


def shipped_manifests(folder: str) -> Mapping[str, str]:
    """The plain files of a folder beside the templates: name -> text."""
    return dict(sorted(_read(_shipped().joinpath(*folder.split("/")), "", ".yaml")))


def _shipped() -> Traversable:
    package = resources.files("reconciler")
    packaged = package / "_templates"
    return packaged if packaged.is_dir() else Path(str(package)).parent / "templates"


def _read(folder: Traversable, prefix: str, suffix: str) -> Iterator[tuple[str, str]]:
    for entry in folder.iterdir():
        name = f"{prefix}{entry.name}"
        if entry.is_dir():
            yield from _read(entry, f"{name}/", suffix)
        elif entry.name.endswith(suffix):
            yield name, entry.read_text(encoding="utf-8")
